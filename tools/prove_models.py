"""How much of what compiles is proven by structure alone.

Compiles the exports in tests/data/exports, the zoo's models of up to 2,000 ops and onnx's backend
cases without a search and without a run, and holds the chips against the model. What is not proven
wholly is listed. `--update` writes tools/data/proven_models.json.

    python tools/prove_models.py [exports] [zoo] [conformance] [--update]

Families that are not named keep what the record says of them.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx

from mcm_compiler.api import compile_model
from mcm_compiler.checking.entry.gate import open_folder
from mcm_compiler.checking.structure_step import prove_folder
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.registry import ZOO
from mcm_compiler.report.versions import versions

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "tools" / "data" / "proven_models.json"

MAX_ZOO_OPS = 2000

PASSES = "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,lower,simulate,emit"

TARGETS = ("mcm4", "mcm36", "mcm36-stream")
"""The first one on which a model fits."""

LARGER_ZOO_MODELS = frozenset({"gnmt", "bert-48", "rnnlm"})
"""More than `MAX_ZOO_OPS` ops, or batches that are differentiated for boxes."""

AS_SHAPES = frozenset({"vgg19", "bert-large", "bert-base", "t5", "gpt2"})
"""Large ones, whose weights are left out once more beside the run with them."""


@dataclass(frozen=True)
class Task:
    """One model.

    Attributes:
        family: where it comes from.
        name: of the model.
        model: its path or name.
        dims: sizes of dimensions.
        shapes: of inputs.
    """

    family: str
    name: str
    model: str | Path
    dims: dict[str, int]
    shapes: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Row:
    """What became of it.

    Attributes:
        family: as the task's.
        name: as the task's.
        ops: on all chips; 0 where it does not compile.
        proven: of them.
        whole: whether nothing is left.
        reason: the code with which a compile was refused, or the first difference.
    """

    family: str
    name: str
    ops: int
    proven: int
    whole: bool
    reason: str = ""


def _exports() -> Iterator[Task]:
    folder = ROOT / "tests" / "data" / "exports"
    for entry in json.loads((folder / "manifest.json").read_text())["models"]:
        shapes = {name: tuple(shape) for name, shape in entry["shapes"].items()}
        yield Task("exports", entry["file"], folder / entry["file"], entry["dims"], shapes)


def _zoo() -> Iterator[Task]:
    for registration in ZOO.registrations():
        if registration.name not in LARGER_ZOO_MODELS:
            names = [registration.name]
            if registration.name in AS_SHAPES:
                names.append(f"{registration.name}{{shape_only=true}}")
            yield from (Task("zoo", name, f"zoo:{name}", {}, {}) for name in names)


def _conformance(folder: Path) -> Iterator[Task]:
    sys.path.insert(0, str(ROOT / "tools" / "bench"))
    for case in importlib.import_module("backend_cases.collection").collect(quick=False):
        path = folder / "model.onnx"
        onnx.save(case.model, path)
        yield Task(f"conformance/{case.category}", case.name, path, {}, _shapes(case))


def _shapes(case: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of open inputs, from the data that come with a case."""
    found: dict[str, tuple[int, ...]] = {}
    for inputs, _ in case.data_sets[:1]:
        weights = {tensor.name for tensor in case.model.graph.initializer}
        free = [value for value in case.model.graph.input if value.name not in weights]
        for value, message in zip(free, inputs, strict=False):
            is_tensor = value.type.WhichOneof("value") == "tensor_type"
            if is_tensor and isinstance(message, onnx.TensorProto):
                found[value.name] = tuple(message.dims)
    return found


def prove(task: Task, folder: Path) -> Row:
    """Compiles one model and proves it."""
    reason = ""
    for target in TARGETS:
        try:
            options = CompileOptions(
                passes=PASSES, level=0, inferences=1, dims=task.dims, shapes=task.shapes
            )
            compile_model(task.model, target, options, output=folder / "out", force=True)
        except CompileError as error:
            reason = error.diagnostics[0].code
            if reason[:5] == "MCM-P":
                continue
            break
        proof = prove_folder(open_folder(folder / "out"))
        what = proof.unproven[0].what if proof.unproven else ", ".join(proof.outputs)
        return Row(task.family, task.name, proof.ops, proof.proven, proof.whole, what)
    return Row(task.family, task.name, 0, 0, False, reason)


def main(arguments: list[str]) -> int:
    """See the module."""
    families = [a for a in arguments if not a.startswith("-")] or ["exports", "zoo", "conformance"]
    rows: list[Row] = []
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mcm-proofs-") as name:
        folder = Path(name)
        tasks = {"exports": _exports, "zoo": _zoo, "conformance": lambda: _conformance(folder)}
        for family in families:
            for task in tasks[family]():
                row = prove(task, folder)
                rows.append(row)
                if not row.whole and row.ops:
                    print(f"{row.family} {row.name}: {row.proven} of {row.ops}: {row.reason}")
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record["command"] = "python tools/prove_models.py [exports] [zoo] [conformance] --update"
    record["versions"] = versions()
    for family in dict.fromkeys(row.family for row in rows):
        of_family = [row for row in rows if row.family == family]
        compiled = [row for row in of_family if row.ops or row.whole]
        record[family] = {
            "models": len(of_family),
            "compiled": len(compiled),
            "proven_wholly": sum(row.whole for row in compiled),
            "ops": sum(row.ops for row in compiled),
            "proven_ops": sum(row.proven for row in compiled),
            "not_whole": [asdict(row) for row in compiled if not row.whole],
            "refused": {row.name: row.reason for row in of_family if row not in compiled},
        }
        shown = {k: v for k, v in record[family].items() if k not in ("not_whole", "refused")}
        print(family, shown)
    print(f"{time.perf_counter() - start:.0f} s")
    if "--update" in arguments:
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(row.whole for row in rows if row.ops) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
