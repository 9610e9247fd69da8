"""A process that makes, compiles and checks one mutant after another."""

from __future__ import annotations

import gc
import os
import re
import resource
import shutil
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import onnx

from fuzzing.byte_mutations import mutate_bytes
from fuzzing.field_mutations import mutate_fields
from fuzzing.graph_mutations import mutate_graph

MODEL = "model.onnx"
OUTPUT = "out"
TEMPORARY = "tmp"
RUNTIME_MARK = ".ses"
"""An empty file that onnxruntime puts into the temporary folder when it is loaded."""

ADDRESS_SPACE_BYTES = 8 << 30
RESIDENT_LIMIT_BYTES = 4 << 30
"""A case that makes the process larger than this is a finding."""

INTERNAL_CODES = frozenset(
    {"MCM-U099", "MCM-X005", "MCM-X006", "MCM-X007", "MCM-P009", "MCM-V003", "MCM-V020",
     "MCM-V030", "MCM-V040", "MCM-V041", "MCM-V042", "MCM-V050"}
)  # fmt: skip
"""Codes that say that the compiler, not the model, is at fault."""

CHANCE_CODES = frozenset({"MCM-V005"})
"""Codes for what onnxruntime returns by chance; a check may have less luck than the compile."""


@dataclass(frozen=True)
class Case:
    """What to execute: mutant `index` of `seed`, or a file.

    Attributes:
        seed: of the run.
        index: of the mutant.
        file: a model to take as it is, instead of a mutant.
    """

    seed: int
    index: int
    file: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of one case.

    Attributes:
        signature: of a finding; cases with the same one have the same cause. None for none.
        detail: stack trace or diagnostics.
        codes: of all error diagnostics.
        bare: codes of errors without a place or without a hint.
        cpu_s: processor time.
        wall_s: elapsed time.
        crash: what the command line says of a crash of native code that it survives, or None.
    """

    signature: str | None
    detail: str
    codes: tuple[str, ...]
    bare: tuple[str, ...]
    cpu_s: float
    wall_s: float
    crash: str | None = None


def serve(connection: Connection, folder: Path, seeds: Sequence[Path]) -> None:
    """Executes the cases that come over `connection` until None does."""
    _enclose(folder)
    while (case := connection.recv()) is not None:
        cpu, wall = time.process_time(), time.perf_counter()
        make_model(case, folder, seeds)
        signature, detail, codes, bare = _judge(folder)
        spent = time.process_time() - cpu, time.perf_counter() - wall
        connection.send(Outcome(signature, detail, codes, bare, *spent))


def make_model(case: Case, folder: Path, seeds: Sequence[Path]) -> None:
    """Empties `folder` and writes the model of `case`; the same case gives the same bytes."""
    for left in (*folder.iterdir(), *(folder / TEMPORARY).iterdir()):
        if left.is_dir() and left.name != TEMPORARY:
            shutil.rmtree(left)
        elif left.is_file():
            left.unlink()
    path = folder / MODEL
    if case.file is not None:
        shutil.copyfile(case.file, path)
        return
    rng = np.random.default_rng([case.seed, case.index])
    data = seeds[int(rng.integers(0, len(seeds)))].read_bytes()
    other = seeds[int(rng.integers(0, len(seeds)))].read_bytes()
    path.write_bytes(mutate(data, other, rng))


def mutate(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """A mutant: half of them at graph level, the others by protobuf's fields or by bytes."""
    level = rng.random()
    if level < 0.15:
        return mutate_bytes(data, other, rng)
    model, donor = onnx.ModelProto.FromString(data), onnx.ModelProto.FromString(other)
    try:
        if level < 0.5:
            mutate_fields(model, donor, rng)
        if level >= 0.45:
            mutate_graph(model, donor, rng)
        return model.SerializeToString()
    except (ValueError, TypeError, OverflowError):
        return mutate_bytes(data, other, rng)  # protobuf itself refuses the mutant


def _enclose(folder: Path) -> None:
    """Limits memory, keeps output and temporary files of this process to itself."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    temporary = folder / TEMPORARY
    temporary.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
    quiet = os.open(folder.parent / f"{folder.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(quiet, stream)
    gc.set_threshold(100_000, 20, 20)  # as the command line does


def _judge(folder: Path) -> tuple[str | None, str, tuple[str, ...], tuple[str, ...]]:
    from mcm_compiler.api import compile_model
    from mcm_compiler.checking.check import check_folder
    from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
    from mcm_compiler.options import CompileOptions

    output = folder / OUTPUT
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    checked: tuple[Diagnostic, ...] = ()
    try:
        compile_model(folder / MODEL, "mcm4", CompileOptions(), output=output)
        found = check_folder(output).diagnostics
        checked = tuple(
            d for d in found if d.severity is Severity.ERROR and d.code not in CHANCE_CODES
        )
        shutil.rmtree(output)
    except CompileError as error:
        if output.exists():
            shutil.rmtree(output)
            return "output left behind", str(error), (), ()
        errors = [d for d in error.diagnostics if d.severity is Severity.ERROR]
        codes = tuple(d.code for d in errors)
        bare = tuple(sorted({d.code for d in errors if d.at is None or d.hint is None}))
        for fault in errors:
            broken_chip = fault.code in ("MCM-V001", "MCM-V002") and "chip_" in str(fault)
            if fault.code in INTERNAL_CODES or broken_chip:
                cause = error.__cause__
                trace = "".join(traceback.format_exception(cause)) if cause is not None else ""
                raised = fault.code in ("MCM-X006", "MCM-X007")
                where = _place(cause) if raised else _plain(fault.message)
                return f"{fault.code} {where}", f"{error}\n{trace}", codes, bare
    except Exception as error:
        if output.exists():
            shutil.rmtree(output)
        return f"stack trace {_place(error)}", traceback.format_exc(), (), ()
    else:
        codes, bare = (), ()
    if checked:
        return f"check fails {_plain(checked[0].message)}", "\n".join(map(str, checked)), (), ()
    if left := left_files(folder):
        return f"left behind {left[0]}", " ".join(left), codes, bare
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if after > before and after * 1024 > RESIDENT_LIMIT_BYTES:
        grown = f"resident set grew from {before} to {after} KiB"
        return f"memory {' '.join(codes) or 'ok'}", grown, codes, bare
    return None, "", codes, bare


def left_files(folder: Path) -> list[str]:
    """What lies in `folder` besides the model and what belongs to libraries, sorted."""
    left = {p.name for p in folder.iterdir()} - {MODEL, TEMPORARY}
    left |= {f"tmp/{p.name}" for p in (folder / TEMPORARY).iterdir() if p.name != RUNTIME_MARK}
    return sorted(left)


def _place(error: BaseException | None) -> str:
    """Type of an exception with the innermost function of ours that it passed through."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    ours = [f for f in frames if "/mcm_" in f.filename] or list(frames)
    where = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
    return f"{type(error).__name__} in {where}"


def _plain(message: str) -> str:
    """A message without names, numbers and paths, so that equal faults look equal."""
    text = re.sub(r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"", "N", message)
    text = re.sub(r"/\S+", "P", text)
    return re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "0", text)[:120]
