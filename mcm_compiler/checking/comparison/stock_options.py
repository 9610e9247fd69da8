"""Chips and model under onnxruntime's own session options, with all its optimisations.

They round otherwise in a part of a model than in the whole, so that numbers may differ; but each
chip has to load and run where the model does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mcm_compiler.contracts.verification import OutputComparison, Verification
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.execution.runner import (
    RunStoppedError,
    max_abs_error,
    run_batches,
    same_bits,
)
from mcm_compiler.processes.bounded_child import ChildDiedError, answer_of_child, can_fork
from mcm_compiler.processes.run_limits import run_growth_bytes, run_seconds
from mcm_compiler.text.units import bytes_text

MAX_STOCK_BYTES = 1 << 28
"""Files of a folder whose models are compared."""

_LIMITS = frozenset({"SIGXCPU", "SIGKILL", "exit status 1"})
"""How a child ends that took too much time or memory, which is no fault of what it ran."""


@dataclass(frozen=True)
class StockComparison:
    """One inference under onnxruntime's own session options.

    Attributes:
        outputs: the comparison; empty where it was not made.
        skipped: why not, or empty.
        died: whether that is because onnxruntime ended the process that ran the models.
    """

    outputs: tuple[OutputComparison, ...] = ()
    skipped: str = ""
    died: bool = False


def compare_stock(
    model: Path,
    folder: Path,
    chain: Callable[..., list[dict[str, Any]]],
    feeds: Mapping[str, Any],
    outputs: Sequence[str],
) -> StockComparison:
    """Compares one inference, in a child whose end is not that of the check.

    Args:
        model: a file of the model.
        folder: of the chips' models.
        chain: runs the chips.
        feeds: inputs.
        outputs: that are compared.

    Raises:
        CompileError: MCM-V025 if the chips alone do not run, or make something else altogether.
    """
    sizes = [path.stat().st_size for path in folder.glob("*.onnx*")]
    if sum(sizes) > MAX_STOCK_BYTES:
        return StockComparison(skipped=f"the models have more than {bytes_text(MAX_STOCK_BYTES)}")
    cpu_s = math.ceil(run_seconds(sum(sizes)) * (1 + len(sizes)))

    def answer(chips: Callable[..., list[dict[str, Any]]] | None) -> bytes:
        work = partial(_compared, model, chips, feeds, outputs)
        if not can_fork():
            return work()
        return answer_of_child(work, run_growth_bytes() + 4 * sum(sizes), cpu_s)

    try:
        found = json.loads(answer(chain))
    except ChildDiedError as error:
        try:
            answer(None)
        except ChildDiedError as alone:
            return _died(alone, "the file itself", cpu_s)
        if str(error) in _LIMITS:
            return _died(error, "the chips", cpu_s)
        raise _not_under_stock_options(f"onnxruntime crashes ({error})", None) from None
    if (fault := found.get("fault")) is not None:
        raise _not_under_stock_options(*fault)
    compared = tuple(OutputComparison(*one, tolerance=0.0) for one in found["outputs"])
    if (broken := next((o for o in compared if math.isinf(o.max_abs_error)), None)) is not None:
        differs = "the output has another type, shape or set of finite numbers than the model's"
        raise _not_under_stock_options(differs, f"output {quote(broken.output)}")
    return StockComparison(compared, found["skipped"])


def _compared(
    model: Path,
    chain: Callable[..., list[dict[str, Any]]] | None,
    feeds: Mapping[str, Any],
    outputs: Sequence[str],
) -> bytes:
    """What a child answers; without `chain` it runs the model alone."""
    found: dict[str, Any] = {"outputs": [], "skipped": ""}
    try:
        expected = run_batches(model, [feeds], outputs, stock=True)[0]
    except CompileError as error:
        code = error.diagnostics[0].code
        skipped = {"outputs": [], "skipped": f"onnxruntime does not run the file itself ({code})"}
        return json.dumps(skipped).encode("ascii")
    try:
        actual = chain(outputs, [feeds], stock=True)[0] if chain is not None else {}
        for name, result in actual.items():
            pair = expected[name], result
            found["outputs"].append((name, same_bits(*pair), max_abs_error(*pair)))
    except RunStoppedError as error:
        found["skipped"] = error.diagnostics[0].message
    except CompileError as error:
        found["fault"] = error.diagnostics[0].message, error.diagnostics[0].at
    return json.dumps(found).encode("ascii")


def died_warning(found: Verification) -> list[Diagnostic]:
    """MCM-V026 where onnxruntime ended the process that ran the models."""
    if not found.stock_died:
        return []
    return [
        Diagnostic(
            "MCM-V026",
            f"nothing was compared under stock session options: {found.stock_skipped}",
            hint="report the file to onnxruntime; annotated.onnx was compared with graph "
            "optimisations off",
            severity=Severity.WARNING,
        )
    ]


def _died(error: ChildDiedError, what: str, cpu_s: int) -> StockComparison:
    if str(error) == "SIGXCPU":
        how = f"was stopped after {cpu_s} s of computing on"
    elif str(error) in _LIMITS:
        how = f"was ended ({error}), as where memory runs out, on"
    else:
        how = f"crashes ({error}) on"
    return StockComparison(skipped=f"onnxruntime {how} {what}", died=True)


def _not_under_stock_options(reason: str, place: str | None) -> CompileError:
    return CompileError(
        Diagnostic(
            "MCM-V025",
            f"under onnxruntime's own session options the model runs, and the chips do not: "
            f"{reason}",
            at=place,
            hint="deploy the chips with graph optimisations off, and report the model",
        )
    )
