"""Losses for models that have none: named by what they compare an output with."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_passes.differentiation.emission import Emitter
from mcm_passes.differentiation.floats import FLOATS

DIVIDER = ":"
"""Between the kind of a loss and the output that it is of."""


def _cross_entropy(output: ir.Value, ops: Emitter, graph: ir.Graph) -> ir.Value:
    """Mean over all positions of minus the log-probability of a label, classes last."""
    dims = ops.operand(output).shape
    if len(dims) < 2:
        raise _unfit(output, "cross_entropy", f"its shape is {list(dims)}, without a class axis")
    labels = _input(f"{output.name}.labels", ir.DataType.INT64, dims[:-1], ops, graph)
    rows = math.prod(dims[:-1])
    scores = output
    if len(dims) > 2:
        scores = ops.op("Reshape", output, ops.constant(np.array([rows, dims[-1]], np.int64)))
        labels = ops.op("Reshape", labels, ops.constant(np.array([rows], np.int64)))
    return ops.op("SoftmaxCrossEntropyLoss", scores, labels, reduction="mean")


def _squares(output: ir.Value, ops: Emitter, graph: ir.Graph) -> ir.Value:
    """Mean over all elements of the squared distance to a target."""
    known = ops.operand(output)
    target = _input(f"{output.name}.target", known.dtype, known.shape, ops, graph)
    distance = ops.op("Sub", output, target)
    return ops.op("ReduceMean", ops.op("Mul", distance, distance), keepdims=0)


LOSSES: dict[str, Callable[[ir.Value, Emitter, ir.Graph], ir.Value]] = {
    "cross_entropy": _cross_entropy,
    "squares": _squares,
}
"""Kinds of losses."""


def add_loss(graph: ir.Graph, text: str, version: int) -> str:
    """Adds the loss that a text such as `cross_entropy:logits` names, in place.

    What the output is compared with becomes an input: `logits.labels`, int64 of the output's shape
    without its last dimension, or `logits.target` of its shape.

    Args:
        graph: with static shapes.
        text: the kind and the output, or the name of an output that is a loss itself.
        version: opset version of ONNX's own domain.

    Returns:
        The name of the output that is the loss; `text` where nothing was added.

    Raises:
        CompileError: MCM-D032 if the output cannot have such a loss.
    """
    outputs = {value.name: value for value in graph.outputs}
    kind, divider, name = text.partition(DIVIDER)
    if text in outputs or not divider or kind not in LOSSES:
        return text
    output = outputs.get(name)
    if output is None:
        known = ", ".join(quote(value.name or "") for value in graph.outputs)
        raise CompileError(
            Diagnostic(
                "MCM-D032",
                f"the model has no output {quote(name)} to compute {kind} of",
                at="option loss",
                hint=f"its outputs: {known}",
            )
        )
    if output.dtype not in FLOATS:
        raise _unfit(output, kind, f"it is {output.type}")
    if output.shape is None or not output.shape.is_static():
        raise _unfit(output, kind, f"its shape is {output.shape}, and sizes must be known")
    ops = Emitter(graph, version)
    ops.enter("loss")
    loss = LOSSES[kind](output, ops, graph)
    loss.name = ops.name("loss")
    ops.finish()
    graph.outputs.append(loss)
    return loss.name


def _input(
    name: str, dtype: ir.DataType, shape: tuple[int, ...], ops: Emitter, graph: ir.Graph
) -> ir.Value:
    value = ir.Value(name=ops.name(name), type=ir.TensorType(dtype), shape=ir.Shape(shape))
    graph.inputs.append(value)
    return value


def _unfit(output: ir.Value, kind: str, why: str) -> CompileError:
    return CompileError(
        Diagnostic(
            "MCM-D032",
            f"{quote(output.name or '')} cannot have {kind}: {why}",
            at="option loss",
            hint="choose an output of floating point with static shape; classes come last",
        )
    )
