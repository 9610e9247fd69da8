"""Test data that lie beside a model, as ONNX lays them out: found without being asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx_ir as ir

from mcm_compiler.artifact.manifest import TensorEntry
from mcm_compiler.checking.comparison.user_data import RunData, data_set_folders, read_data_set
from mcm_compiler.checking.entry.run_folder import runtime_inputs
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.text.units import bytes_text, count_text

MAX_SETS = 16
"""Data sets that are compared without being asked for."""

MAX_BYTES = 256 << 20
"""Bytes of their files, of all sets together."""


@dataclass(frozen=True, eq=False)
class SiblingData:
    """What lies beside a model.

    Attributes:
        sets: data that fit the model, by number.
        notes: MCM-V024 for data that are left out.
    """

    sets: tuple[RunData, ...]
    notes: tuple[Diagnostic, ...]


def sibling_data(path: Path, model: ir.Model, inputs: Sequence[TensorEntry]) -> SiblingData:
    """Reads the `test_data_set_N` folders beside the file of a model.

    They are left out where the folder holds more models, because nothing says whose they are;
    beyond `MAX_SETS` and `MAX_BYTES`; and where the model was compiled for other sizes.

    Args:
        path: the model's file.
        model: tells names and kinds of inputs and outputs.
        inputs: types and shapes that the model was compiled for.

    Raises:
        CompileError: MCM-V011 for a file that cannot be read, or more of them than the model has
            inputs or outputs.
    """
    folders = data_set_folders(path.absolute().parent)
    if not folders:
        return SiblingData((), ())
    if others := sum(
        1 for file in path.absolute().parent.iterdir() if file.suffix == ".onnx"
    ) - 1:  # fmt: skip
        also = count_text(others, "further model")
        return SiblingData((), (_left_out(folders, f"the folder holds {also}"),))
    notes: list[Diagnostic] = []
    kept = _within_limits(folders)
    if len(kept) < len(folders):
        limit = f"at most {MAX_SETS} sets and {bytes_text(MAX_BYTES)} are compared"
        notes.append(_left_out(folders[len(kept) :], limit))
    sets: list[RunData] = []
    for folder in kept:
        data = read_data_set(folder, model)
        try:
            (values,) = runtime_inputs(inputs, [data.inputs])
        except CompileError as error:
            fault = error.diagnostics[0]
            place = f"{fault.at}: " if fault.at is not None else ""
            notes.append(_left_out([folder], f"{place}{fault.message}"))
        else:
            sets.append(replace(data, inputs=values))
    return SiblingData(tuple(sets), tuple(notes))


def _within_limits(folders: Sequence[Path]) -> Sequence[Path]:
    total = 0
    for number, folder in enumerate(folders):
        total += sum(file.stat().st_size for file in folder.glob("*.pb") if file.is_file())
        if number >= MAX_SETS or total > MAX_BYTES:
            return folders[:number]
    return folders


def _left_out(folders: Sequence[Path], reason: str) -> Diagnostic:
    return Diagnostic(
        "MCM-V024",
        f"{count_text(len(folders), 'data set')} beside the model not compared: {reason}",
        at=quote(folders[0].name),
        hint="mcmc check FOLDER --test-data compares the data that it is given",
        severity=Severity.NOTE,
    )
