"""One case: whether onnxruntime runs it, and whether it compiles and the chips check equal."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
from backend_cases.collection import Case

Verdict = str
"""`equal`, `not run by onnxruntime`, `not reproducible`, or `failed`."""

EQUAL, NOT_RUN, RANDOM, FAILED = ("equal", "not run by onnxruntime", "not reproducible", "failed")

SEEDS = (0, 1)

TARGET = "mcm4"
LARGER_TARGET = "mcm16"
"""Where the weights alone exceed the memory of `TARGET` (MCM-P004), as those of VGG-19 do."""

_REASONS = (
    ("opset not released yet", re.compile(r"only \*guarantees\* support|is under development")),
    ("no such operator", re.compile(r"is not a registered function/op|No Op registered for")),
    ("no kernel for the types", re.compile(r"NOT_IMPLEMENTED|Could not find an implementation")),
    ("type not supported", re.compile(r"not currently registered|unsupported type|not supported")),
    ("type refused", re.compile(r"Type Error|INVALID_ARGUMENT|Unexpected input data type")),
    ("attribute of a later version", re.compile(r"Unrecognized attribute")),
    ("locale not installed", re.compile(r"Failed to construct locale")),
    ("shape refused", re.compile(r"ShapeInferenceError|TypeInferenceError")),
)
"""Why onnxruntime does not run a model, by what its message says; the first that fits."""


@dataclass(frozen=True)
class Outcome:
    """What became of one case.

    Attributes:
        category: of the case.
        name: of the case.
        verdict: see `Verdict`.
        reason: why it is not equal, in a few words; empty where it is.
        detail: the message behind it, shortened.
        chips: chips that were used.
        expected: whether the chips also give the outputs that the case expects; None where it
            has none or was not reached.
        seconds: time for all of it.
    """

    category: str
    name: str
    verdict: Verdict
    reason: str = ""
    detail: str = ""
    chips: int = 0
    expected: bool | None = None
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def judge(case: Case, entered: Callable[[str], None]) -> Outcome:
    """Runs a case in stock onnxruntime, then compiles and checks it.

    Args:
        case: the case.
        entered: called with `reference` before the first and `chips` before the second, so that
            a crash of the runtime can be laid at the right door.
    """
    from mcm_compiler.checking.comparison.user_data import RunData, read_data_sets
    from mcm_compiler.diagnostics import CompileError
    from mcm_compiler.execution.runner import open_session, run_session

    start = time.perf_counter()

    def outcome(verdict: Verdict, reason: str = "", error: object = "", **more: Any) -> Outcome:
        detail = " ".join(str(error).split())[:300]
        seconds = round(time.perf_counter() - start, 2)
        return Outcome(case.category, case.name, verdict, reason, detail, seconds=seconds, **more)

    with tempfile.TemporaryDirectory(prefix="mcm-case-") as name:
        folder = Path(name)
        _write(case, folder)
        entered("reference")
        try:
            model = _loadable(folder / "model.onnx")
            data: list[RunData] = []
            if case.data_sets:
                data = read_data_sets(folder, ir.from_proto(model))
            session = open_session(model)
            for data_set in data:
                run_session(session, data_set.inputs)
        except CompileError as error:
            return outcome(NOT_RUN, _reason(str(error)), error)
        entered("chips")
        try:
            return _compile_and_check(case, folder, data, outcome)
        except CompileError as error:
            return outcome(FAILED, error.diagnostics[0].code, error)
        except Exception as error:  # a stack trace is a bug of ours, and has to be listed
            return outcome(FAILED, type(error).__name__, error)


def _compile_and_check(
    case: Case, folder: Path, data: list[Any], outcome: Callable[..., Outcome]
) -> Outcome:
    from mcm_compiler.api import compile_model
    from mcm_compiler.checking.check import check_folder
    from mcm_compiler.diagnostics import CompileError, Severity
    from mcm_compiler.options import CompileOptions

    # The check below compares the data, and tells a wrong result from one that is not expected.
    options = CompileOptions(shapes=_open_shapes(folder / "model.onnx", data), test_data=False)
    output = folder / "out"
    try:
        compile_model(folder / "model.onnx", TARGET, options, output=output)
    except CompileError as error:
        if error.diagnostics[0].code != "MCM-P004":
            raise
        compile_model(folder / "model.onnx", LARGER_TARGET, options, output=output)
    report = check_folder(output, seeds=SEEDS, test_data=folder if data else None)
    verification = report.verification
    chips = len(list(output.glob("chip_*.onnx")))
    expected = None
    if verification is not None and verification.expected:
        expected = all(comparison.holds for comparison in verification.expected)
    more = {"chips": chips, "expected": expected}
    faults = [
        d for d in report.diagnostics if d.severity is Severity.ERROR and d.code != "MCM-V022"
    ]
    if faults:
        return outcome(FAILED, faults[0].code, faults[0].message, **more)
    assert verification is not None
    if verification.random_outputs and not verification.outputs:
        drawn = ", ".join(verification.random_outputs)
        return outcome(RANDOM, "draws random numbers", drawn, **more)
    if verification.skipped is not None or not verification.outputs:
        return outcome(FAILED, "nothing compared", verification.skipped, **more)
    inexact = [o for o in verification.outputs if not o.bit_equal]
    if inexact:
        return outcome(EQUAL, "within tolerance", f"{inexact[0].max_abs_error:g}", **more)
    return outcome(EQUAL, **more)


def _write(case: Case, folder: Path) -> None:
    """The case as its user would have it: a model with `test_data_set_N` folders beside it."""
    if case.category == "light":
        from tests.generators.refilled_weights import refill_weights

        model = ir.from_proto(case.model)
        refill_weights(model)
        ir.save(model, folder / "model.onnx")
    else:
        onnx.save(case.model, folder / "model.onnx")
    for index, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{index}"
        data.mkdir()
        for part, messages in (("input", inputs), ("output", outputs)):
            for position, message in enumerate(messages):
                (data / f"{part}_{position}.pb").write_bytes(message.SerializeToString())


def _loadable(path: Path) -> onnx.ModelProto:
    """The model with the IR version that the importer would give it."""
    from mcm_compiler.ir.reading.versions import newest_ir_version

    model = onnx.load(path)
    model.ir_version = min(model.ir_version, newest_ir_version())
    return model


def _open_shapes(path: Path, data: list[Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs whose dimensions the model leaves open, from the case's own data."""
    shapes: dict[str, tuple[int, ...]] = {}
    for info in onnx.load(path).graph.input:
        if info.type.WhichOneof("value") != "tensor_type" or not data:
            continue
        kind = info.type.tensor_type
        fixed = kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim)
        value = data[0].inputs.get(info.name)
        if not fixed and value is not None:
            shapes[info.name] = tuple(value.shape)
    return shapes


def _reason(message: str) -> str:
    for reason, pattern in _REASONS:
        if pattern.search(message):
            return reason
    return "fails while running" if "MCM-V002" in message else "refused for another reason"
