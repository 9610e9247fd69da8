"""Chips and model under onnxruntime's own session options, with all its optimisations.

They round otherwise in a part of a model than in the whole, so that numbers may differ; but each
chip has to load and run where the model does.

A few kernels leave parts of an output as they find them. Such a result differs between a model and
its parts, and between two runs of one model, and no compiler is at fault.

A sum of n products in floating point is the exact sum of products that are each off by a factor of
at most 1 + gamma_n. The order of addition does not matter. Here gamma_n is n u / (1 - n u) and u is
2^-24 (Higham 2002, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, lemma 3.1 and
section 3.1). As roundings are as often up as down, n may be replaced by lambda sqrt(n). This fails
with a probability of at most 2 exp(-lambda^2 / 2) per operation, 7e-4 for lambda = 4 (Higham and
Mary 2019, *A New Approach to Probabilistic Rounding Error Analysis*, theorem 2.4).

To first order the relative errors of ops that follow one another add up, and where paths join, the
largest counts: that is what an op does that makes nothing larger than what it reads. So an output
is off by at most the sum of lambda sqrt(n) u over the ops of some path, and two results, both of
them rounded, by twice that. The condition of a model, by which it makes errors larger than its
values, is taken as 1: a badly conditioned one is refused rather than passed.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx_ir as ir

from mcm_compiler.contracts.verification import OutputComparison, Verification
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.execution.runner import RunStoppedError, max_abs_error, run_batches, same_bits
from mcm_compiler.processes.bounded_child import ChildDiedError, answer_of_child, can_fork
from mcm_compiler.processes.run_limits import run_growth_bytes, run_seconds
from mcm_compiler.text.units import bytes_text

MAX_STOCK_BYTES = 1 << 28
"""Files of a folder whose models are compared."""

_LIMITS = frozenset({"SIGXCPU", "SIGKILL", "exit status 1"})
"""How a child ends that took too much time or memory, which is no fault of what it ran."""


def compare_stock(
    found: Verification,
    model: Path,
    folder: Path,
    chain: Callable[..., list[dict[str, Any]]],
    feeds: Mapping[str, Any],
    outputs: Sequence[str],
) -> Verification:
    """Compares one inference, in a child whose end is not that of the check.

    Args:
        found: what was compared already.
        model: a file of the model.
        folder: of the chips' models.
        chain: runs the chips.
        feeds: inputs.
        outputs: that are compared.

    Returns:
        `found` with this comparison as well.

    Raises:
        CompileError: MCM-V025 if the chips alone do not run, or make something else altogether.
    """
    sizes = [path.stat().st_size for path in folder.glob("*.onnx*")]
    if sum(sizes) > MAX_STOCK_BYTES:
        most = bytes_text(MAX_STOCK_BYTES)
        return replace(found, stock_skipped=f"the models have more than {most}")
    cpu_s = math.ceil(run_seconds(sum(sizes)) * (1 + len(sizes)))

    def answer(chips: Callable[..., list[dict[str, Any]]] | None) -> bytes:
        work = partial(_compared, model, chips, feeds, outputs)
        if not can_fork():
            return work()
        return answer_of_child(work, run_growth_bytes() + 4 * sum(sizes), cpu_s)

    try:
        made = json.loads(answer(chain))
    except ChildDiedError as error:
        try:
            answer(None)
        except ChildDiedError as alone:
            return _died(found, alone, "the file itself", cpu_s)
        if str(error) in _LIMITS:
            return _died(found, error, "the chips", cpu_s)
        raise _not_under_stock_options(f"onnxruntime crashes ({error})", None) from None
    if (fault := made.get("fault")) is not None:
        raise _not_under_stock_options(*fault)
    compared = tuple(OutputComparison(*one, tolerance=0.0) for one in made["outputs"])
    if (broken := next((o for o in compared if math.isinf(o.max_abs_error)), None)) is not None:
        differs = "the output has another type, shape or set of finite numbers than the model's"
        raise _not_under_stock_options(differs, f"output {quote(broken.output)}")
    return replace(found, stock=compared, stock_skipped=made["skipped"])


def _compared(
    model: Path,
    chain: Callable[..., list[dict[str, Any]]] | None,
    feeds: Mapping[str, Any],
    outputs: Sequence[str],
) -> bytes:
    """Answer of a child process; without `chain` it runs the model alone."""
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
            "MCM-V026", f"nothing was compared under stock session options: {found.stock_skipped}"
        )
    ]


def _died(found: Verification, error: ChildDiedError, what: str, cpu_s: int) -> Verification:
    if str(error) == "SIGXCPU":
        how = f"was stopped after {cpu_s} s of computing on"
    elif str(error) in _LIMITS:
        how = f"was ended ({error}), as where memory runs out, on"
    else:
        how = f"crashes ({error}) on"
    return replace(found, stock_skipped=f"onnxruntime {how} {what}", stock_died=True)


def _not_under_stock_options(reason: str, place: str | None) -> CompileError:
    return CompileError.of(
        "MCM-V025",
        f"under onnxruntime's own session options the model runs, and the chips do not: {reason}",
        at=place,
    )


_M_PERTURB = -6
"""The option of glibc's `mallopt` with which memory comes filled with a byte (malloc.h)."""

_FILLINGS = (0x55, 0x33)


def unwritten_outputs(
    model: Path, batches: Sequence[Mapping[str, Any]], outputs: Sequence[str]
) -> list[Diagnostic]:
    """Finds outputs that differ when memory holds something else before the run.

    Elsewhere than on Linux with glibc, memory is left to chance.

    Args:
        model: a file that runs on all of `batches`.
        batches: inputs.
        outputs: names of those in doubt.

    Returns:
        MCM-V005 for each one that is found.

    Raises:
        CompileError: MCM-V001 or MCM-V002 if the model does not run after all.
    """
    results: list[list[dict[str, Any]]] = []
    for byte in _FILLINGS:
        with _filled_memory(byte):
            results.append(run_batches(model, batches, outputs))
    return [
        Diagnostic(
            "MCM-V005",
            "onnxruntime returns memory that it has not written: the model's result differs from "
            "run to run",
            at=f"output {quote(name)}",
        )
        for name in outputs
        if not all(same_bits(a[name], b[name]) for a, b in zip(*results, strict=True))
    ]


@contextmanager
def _filled_memory(byte: int) -> Generator[None]:
    """Within the block, newly allocated memory holds a pattern, where the system has a way."""
    fill = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if fill is None:
        yield
        return
    fill(_M_PERTURB, byte)
    try:
        yield
    finally:
        fill(_M_PERTURB, 0)


UNIT_ROUNDOFF = 2.0**-24
"""Of float32, rounded to nearest."""

LAMBDA = 4.0
"""See the module."""

QUANTIZATION_STEP = 1.0 / 127.0
"""Of 8 bits with a sign, relative to the largest number."""

_QUANTIZERS = frozenset({"DynamicQuantizeLinear", "QuantizeLinear"})

_VIEWS = frozenset(
    {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Split"}
    | {"Concat", "Gather", "Expand", "Tile", "Pad", "Cast", "Shape", "Dropout", "Relu", "Max"}
    | {"Min", "MaxPool", "GlobalMaxPool", "Where", "Neg", "Abs", "Constant"}
)
"""Ops that round nothing."""

_WEIGHTED = frozenset({"Conv", "ConvTranspose"})
_OVER_LAST = frozenset({"Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization"})
_OVER_MAP = frozenset({"GlobalAveragePool", "InstanceNormalization", "GroupNormalization"})
_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})


def sum_tolerance(model: ir.Model) -> float:
    """Relative tolerance for the outputs of a model whose sums may be added in any order.

    Of the path through the model on which roundings add up to most; linear in its ops. What is
    quantised on the way may be a step off for each rounding that crosses the edge of one; these
    errors are independent of each other, and steps are a share of the range.
    """
    off: dict[ir.Value, float] = {}
    steps: dict[ir.Value, int] = {}
    for node in model.graph:
        read = [value for value in node.inputs if value is not None]
        before = max((off.get(value, 0.0) for value in read), default=0.0)
        taken = max((steps.get(value, 0) for value in read), default=0)
        own = 0.0 if node.op_type in _VIEWS else LAMBDA * math.sqrt(sum_length(node))
        crossed = node.op_type in _QUANTIZERS and before > 0.0
        for value in node.outputs:
            off[value] = before + own * UNIT_ROUNDOFF
            steps[value] = taken + crossed
    most = max((steps.get(value, 0) for value in model.graph.outputs), default=0)
    rounded = max((off.get(value, 0.0) for value in model.graph.outputs), default=0.0)
    return 2.0 * rounded + LAMBDA * math.sqrt(most) * QUANTIZATION_STEP


def sum_length(node: ir.Node) -> int:
    """Additions and products that an element of an op's result takes, at most.

    Where shapes are not known, and for ops that are not known to sum, 1.
    """
    shapes = [_shape(value) for value in node.inputs]
    first = shapes[0] if shapes else ()
    second = shapes[1] if len(shapes) > 1 else ()
    match node.op_type:
        case "MatMul" | "MatMulInteger":
            return max(first[-1] if first else 1, second[-2] if len(second) > 1 else 1)
        case "Gemm" | "FusedMatMul":
            # Whichever of its sides is summed over.
            return max((*first, 1)) if not second else max(min(max(first), max(second)), 1)
        case "Einsum" | "Attention" | "MultiHeadAttention":
            return max((size for shape in shapes for size in shape), default=1)
        case op if op in _WEIGHTED:
            return max(math.prod(second[1:]), 1)
        case op if op in _OVER_LAST:
            return first[-1] if first else 1
        case op if op in _OVER_MAP or op.startswith(("Reduce", "AveragePool", "BatchNorm")):
            return _elements_summed(node, first)
        case op if op in _RECURRENT:
            steps = first[0] if first else 1
            return max(steps, 1) * max(math.prod(second[2:]), 1)
        case _:
            return 1


def _elements_summed(node: ir.Node, read: tuple[int, ...]) -> int:
    """Elements read for each one written; a normalisation by stored numbers sums nothing."""
    if node.op_type == "BatchNormalization":
        return 4
    if node.op_type.endswith("Normalization"):
        return max(math.prod(read[2:]), 1)
    written = _shape(node.outputs[0])
    if node.op_type == "AveragePool":
        kernel = node.attributes.get("kernel_shape")
        return max(math.prod(kernel.as_ints()), 1) if kernel is not None else 1
    return max(math.prod(read) // max(math.prod(written), 1), 1)


def _shape(value: ir.Value | None) -> tuple[int, ...]:
    """Sizes, with 1 for those that are not known; empty where nothing is."""
    if value is None or value.shape is None:
        return ()
    return tuple(size if isinstance(size, int) else 1 for size in value.shape)
