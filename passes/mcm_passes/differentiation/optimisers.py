"""Clipping and the update of variables, spelt out in ops that every runtime has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, quote
from mcm_passes.differentiation.emission import Emitter
from mcm_passes.differentiation.variables import FLOATS

STEP_COUNT = "adam.step"
"""The input of Adam that counts steps from 0, float32."""


@dataclass(frozen=True)
class Trained:
    """One variable with its gradient.

    Attributes:
        variable: a graph input.
        gradient: of its shape and type.
    """

    variable: ir.Value
    gradient: ir.Value

    @property
    def name(self) -> str:
        """Of the variable."""
        return self.variable.name or ""


@dataclass(frozen=True)
class Update:
    """One state of the step.

    Attributes:
        past: a graph input.
        present: what it is in the next step.
        zero: whether it begins with zeros; otherwise it is a variable.
    """

    past: ir.Value
    present: ir.Value
    zero: bool


def clipped(trained: Sequence[Trained], limit: float, ops: Emitter) -> list[Trained]:
    """Gradients scaled so that their common norm is at most `limit`.

    Pascanu et al. 2013, *On the difficulty of training recurrent neural networks*, algorithm 1:
    `g limit / max(norm, limit)`. The norm is float32, or double where a gradient is.
    """
    wide = _widest([one.gradient for one in trained])
    squares: list[ir.Value] = []
    for one in trained:
        ops.enter(f"clip/{one.name}")
        gradient = _cast(ops, one.gradient, wide)
        squares.append(ops.op("ReduceSumSquare", gradient, keepdims=0))
    ops.enter("clip")
    total = squares[0] if len(squares) == 1 else ops.op("Sum", *squares)
    bound = ops.constant(np.array(limit, wide.numpy()))
    factor = ops.op("Div", bound, ops.op("Max", ops.op("Sqrt", total), bound))
    found: list[Trained] = []
    for one in trained:
        ops.enter(f"clip/{one.name}")
        own = one.gradient.dtype
        assert own is not None
        found.append(Trained(one.variable, ops.op("Mul", one.gradient, _cast(ops, factor, own))))
    return found


def sgd(trained: Sequence[Trained], rate: float, ops: Emitter) -> list[Update]:
    """`w - rate g`."""
    found: list[Update] = []
    for one in trained:
        ops.enter(f"update/{one.name}")
        step = ops.op("Mul", one.gradient, ops.like(one.gradient, rate))
        found.append(Update(one.variable, ops.op("Sub", one.variable, step), zero=False))
    return found


@dataclass(frozen=True)
class AdamSettings:
    """Adam, with the authors' defaults.

    Attributes:
        rate: learning rate.
        beta1: decay of the mean of gradients.
        beta2: decay of the mean of their squares.
        epsilon: added to the root of the latter.
    """

    rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


def adam(
    trained: Sequence[Trained], settings: AdamSettings, ops: Emitter, graph: ir.Graph
) -> list[Update]:
    """Kingma and Ba 2015, *Adam*, in the form of the last lines of its section 2.

    The correction of both means is one factor of the learning rate, computed once a step. Slots
    `w.m` and `w.v` and the count of steps become inputs of `graph`.
    """
    count = _input(STEP_COUNT, ir.DataType.FLOAT, (), ops, graph)
    ops.enter("update/adam")
    next_count = ops.op("Add", count, ops.like(count, 1.0))
    one = ops.like(count, 1.0)
    first = ops.op("Sub", one, ops.op("Pow", ops.like(count, settings.beta1), next_count))
    second = ops.op("Sub", one, ops.op("Pow", ops.like(count, settings.beta2), next_count))
    factor = ops.op("Div", ops.op("Sqrt", second), first)
    rate = ops.op("Mul", factor, ops.like(count, settings.rate))
    rates: dict[ir.DataType, ir.Value] = {ir.DataType.FLOAT: rate}
    found: list[Update] = []
    for one_trained in trained:
        wide = _widest([one_trained.gradient])
        if wide not in rates:
            rates[wide] = _cast(ops, rate, wide)
        found += _adam_update(one_trained, rates[wide], settings, ops, graph)
    return [*found, Update(count, next_count, zero=True)]


def _adam_update(
    one: Trained, rate: ir.Value, settings: AdamSettings, ops: Emitter, graph: ir.Graph
) -> list[Update]:
    wide = _widest([one.gradient])
    shape = ops.operand(one.variable).shape
    mean = _input(f"{one.name}.m", wide, shape, ops, graph)
    square = _input(f"{one.name}.v", wide, shape, ops, graph)
    ops.enter(f"update/{one.name}")
    gradient = _cast(ops, one.gradient, wide)
    new_mean = ops.op(
        "Add",
        ops.op("Mul", mean, ops.like(mean, settings.beta1)),
        ops.op("Mul", gradient, ops.like(gradient, 1.0 - settings.beta1)),
    )
    new_square = ops.op(
        "Add",
        ops.op("Mul", square, ops.like(square, settings.beta2)),
        ops.op("Mul", ops.op("Mul", gradient, gradient), ops.like(gradient, 1.0 - settings.beta2)),
    )
    root = ops.op("Add", ops.op("Sqrt", new_square), ops.like(square, settings.epsilon))
    step = ops.op("Div", ops.op("Mul", new_mean, rate), root)
    own = one.variable.dtype
    assert own is not None
    present = ops.op("Sub", one.variable, _cast(ops, step, own))
    return [
        Update(one.variable, present, zero=False),
        Update(mean, new_mean, zero=True),
        Update(square, new_square, zero=True),
    ]


def _input(
    name: str, dtype: ir.DataType, shape: tuple[int, ...], ops: Emitter, graph: ir.Graph
) -> ir.Value:
    value = ir.val(ops.name(name), dtype, shape)
    graph.inputs.append(value)
    return value


def _widest(values: Sequence[ir.Value]) -> ir.DataType:
    """Double where there is one, and float32 otherwise."""
    double = any(value.dtype is ir.DataType.DOUBLE for value in values)
    return ir.DataType.DOUBLE if double else ir.DataType.FLOAT


def _cast(ops: Emitter, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    return value if value.dtype is dtype else ops.op("Cast", value, to=int(dtype))


def named_presents(updates: Sequence[Update], ops: Emitter) -> Mapping[ir.Value, str]:
    """The names of presents: that of the past with `.next` behind it."""
    return {update.present: ops.name(f"{update.past.name}.next") for update in updates}


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
        raise CompileError.of(
            "MCM-D032",
            f"the model has no output {quote(name)} to compute {kind} of",
            at="option loss",
            hint=f"its outputs: {known}",
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


def _unfit(output: ir.Value, kind: str, why: str) -> CompileError:
    return CompileError.of(
        "MCM-D032",
        f"{quote(output.name or '')} cannot have {kind}: {why}",
        at="option loss",
        hint="choose an output of floating point with static shape; classes come last",
    )
