"""Training steps as TensorFlow 1 counted and ran them.

Its gradients have ops that compute nothing. Published numbers of ops count them, and planners of
those days had to place them. They are views here: they take no time and no memory, but tie devices
to each other. What is added, as the gradients of TensorFlow 1.x (`math_grad.py`, `array_grad.py`,
`gradients_impl.py`) are written:

- Ops with broadcasting (`BROADCASTING`): each gradient is summed over what was broadcast, over
  nothing where nothing was (`Identity`), and brought to the `Shape` of its operand (`Reshape`).
- Ops that give elements another shape (`RESHAPING`): the `Shape` that the gradient is brought to is
  taken of the operand.
- Ops with several gradients: each passes a control dependency (`Identity`), so that none is used
  before all are there.
- Variables: each is read once, by an `Identity` that all but its own update read.

What ONNX has no op for is left out: `NoOp`, `BroadcastGradientArgs`, `ConcatOffset`, constants,
initialisers, `Assign`, savers and summaries.

Gradients of convolutions and normalisations begin with ops that read the forward pass alone, such
as the transposed image or the mask of a ReLU. A runtime that starts whatever it can would make
them in the forward pass, and hold a second copy of all activations until the backward pass. Here
such an op reads its operand through a view, `Reshape`, to whose shape the empty `Shape` of the
arriving gradient is joined: the same numbers, but not before the gradient is there. ONNX has no
other control dependencies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule
from mcm_compiler.graph.constants import add_initializer
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_passes.differentiation.differentiate import (
    TrainingStep,
    TrainingStepOptions,
    training_step,
)
from mcm_passes.differentiation.optimisers import STEP_COUNT
from mcm_passes.differentiation.reverse_mode import RegisteredGradient, Rules, installed_gradients

BROADCASTING = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"})
"""Ops whose gradients in TensorFlow undo broadcasting."""

RESHAPING = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
"""Ops whose gradients in TensorFlow are a `Reshape` to a computed shape."""

_Gradients = Sequence[ir.Value | None]


def paper_step(
    model: ir.Model, options: TrainingStepOptions, *, bookkeeping: bool = True, late: bool = False
) -> TrainingStep:
    """A training step with what TensorFlow 1 added.

    Args:
        model: as for `training_step`.
        options: as there.
        bookkeeping: add ops that compute nothing.
        late: let large ops of the backward pass wait for their gradients.
    """
    if not bookkeeping:
        step = training_step(model, options)
    else:
        step = training_step(model, options, with_bookkeeping(installed_gradients()))
        inputs = {value.name: value for value in step.model.graph.inputs}
        pasts = {pair.past: inputs[pair.past] for pair in step.states if pair.past != STEP_COUNT}
        # Adam keeps `w.m` and `w.v` of a variable `w`.
        trained = [value for name, value in pasts.items() if name.rpartition(".")[0] not in pasts]
        read_once(step.model.graph, trained)
    if late:
        delay_early_ops(step.model.graph)
    return step


def with_bookkeeping(rules: Rules) -> dict[str, RegisteredGradient]:
    """Gradient rules that emit the ops above besides."""
    return {
        operator: RegisteredGradient(operator, _kept(operator, known.rule), known.origin)
        for operator, known in rules.items()
    }


def _kept(operator: str, rule: GradientRule) -> GradientRule:
    """A rule with what TensorFlow put behind it."""
    place: Callable[[GradientRequest, _Gradients], _Gradients] | None = None
    if operator in BROADCASTING:
        place = _unbroadcast
    elif operator in RESHAPING:
        rule = _reshaped

    def kept(request: GradientRequest) -> _Gradients:
        found = rule(request)
        if place is not None:
            found = place(request, found)
        return _together(request, found)

    return kept


def _unbroadcast(request: GradientRequest, found: _Gradients) -> _Gradients:
    ops, result = request.ops, request.shape(request.node.outputs[0])
    made: list[ir.Value | None] = []
    for operand, gradient in zip(request.node.inputs, found, strict=True):
        if operand is None or gradient is None:
            made.append(None)
            continue
        summed = ops.op("Identity", gradient) if request.shape(operand) == result else gradient
        made.append(ops.op("Reshape", summed, ops.op("Shape", operand)))
    return made


def _reshaped(request: GradientRequest) -> _Gradients:
    (operand, *rest), (gradient,) = request.node.inputs, request.gradients
    assert operand is not None
    assert gradient is not None
    back = request.ops.op("Reshape", gradient, request.ops.op("Shape", operand))
    return [back, *(None for _ in rest)]


def _together(request: GradientRequest, found: _Gradients) -> _Gradients:
    if sum(gradient is not None for gradient in found) < 2:
        return found
    return [None if g is None else request.ops.op("Identity", g) for g in found]


def read_once(graph: ir.Graph, variables: Iterable[ir.Value]) -> None:
    """Puts an `Identity` named `<variable>/read` behind each variable, in place.

    All read it but ops that update the variable itself, `update/<variable>/...`.

    Args:
        graph: of a training step.
        variables: inputs.
    """
    names = UnusedNames(graph)
    first = next(iter(graph))
    for variable in variables:
        name = variable.name
        own = f"update/{name}/"
        readers = [use for use in variable.uses() if not (use.node.name or "").startswith(own)]
        node = ir.node("Identity", [variable], name=names.take(f"{name}/read"))
        (read,) = node.outputs
        read.name, read.type, read.shape = node.name, variable.type, variable.shape
        for use in readers:
            use.node.replace_input_with(use.idx, read)
        graph.insert_before(first, node)


LEAST_BYTES = 1 << 20
"""Results below this size may be early: to hold them costs less than to wait."""

_BACKWARD = "grad/"


def delay_early_ops(graph: ir.Graph, least_bytes: int = LEAST_BYTES) -> int:
    """Makes early ops wait, in place.

    Args:
        graph: of a training step, with static shapes and gradient ops named by `reverse_mode`.
        least_bytes: of the results of an op that is made to wait.

    Returns:
        The number of ops that wait.
    """
    backward = [node for node in graph if (node.name or "").startswith(_BACKWARD)]
    arriving = _arriving(backward)
    views = _Views(graph)
    late: set[ir.Value] = set()
    waiting = 0
    for node in backward:
        gradient = arriving.get(_scope(node))
        if gradient is None or any(value in late for value in node.inputs):
            late.update(node.outputs)
        elif max(map(_bytes, node.outputs)) >= least_bytes and views.put(node, gradient):
            late.update(node.outputs)
            waiting += 1
    return waiting


def _arriving(backward: list[ir.Node]) -> dict[str, ir.Value]:
    """By scope a gradient from outside it; where the backward pass begins there is none."""
    first = _scope(backward[0]) if backward else ""
    late: dict[ir.Value, str] = {}
    found: dict[str, ir.Value] = {}
    for node in backward:
        scope = _scope(node)
        reads = [value for value in node.inputs if value is not None and value in late]
        if reads or scope == first:
            late.update(dict.fromkeys(node.outputs, scope))
        outside = [value for value in reads if late[value] != scope]
        if outside:
            found.setdefault(scope, outside[0])
    return found


def _scope(node: ir.Node) -> str:
    return (node.name or "").rpartition("/")[0]


def _bytes(value: ir.Value) -> int:
    """0 where the type or shape is unknown."""
    if value.dtype is None or value.shape is None or not value.shape.is_static():
        return 0
    return math.ceil(math.prod(value.shape.numpy()) * value.dtype.itemsize)


class _Views:
    """Views that wait, each made once."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._names = UnusedNames(graph)
        self._views: dict[tuple[ir.Value, ir.Value], ir.Value] = {}

    def put(self, node: ir.Node, gradient: ir.Value) -> bool:
        """Puts a view between an op and its first operand that is computed, if there is one."""
        for index, value in enumerate(node.inputs):
            if value is None or value.is_initializer() or not _bytes(value):
                continue
            key = (value, gradient)
            if key not in self._views:
                self._views[key] = self._made(node, value, gradient)
            node.replace_input_with(index, self._views[key])
            return True
        return False

    def _made(self, before: ir.Node, value: ir.Value, gradient: ir.Value) -> ir.Value:
        assert value.shape is not None
        dims = np.array(value.shape.numpy(), np.int64)
        scope = f"{_scope(before)}/wait"
        tensor = ir.tensor(dims, name=self._names.take(f"{scope}/shape"))
        constant = add_initializer(self._graph, tensor)
        empty = ir.node("Shape", [gradient], {"start": 0, "end": 0})
        joined = ir.node("Concat", [constant, *empty.outputs], {"axis": 0})
        view = ir.node("Reshape", [value, *joined.outputs])
        made = (
            (empty, ir.DataType.INT64, [0]),
            (joined, ir.DataType.INT64, [len(dims)]),
            (view, value.dtype, list(dims)),
        )
        for node, dtype, extents in made:
            assert dtype is not None
            node.name = self._names.take(f"{scope}/{node.op_type}")
            (result,) = node.outputs
            result.name, result.type = node.name, ir.TensorType(dtype)
            result.shape = ir.Shape([int(extent) for extent in extents])
            self._graph.insert_before(before, node)
        return view.outputs[0]
