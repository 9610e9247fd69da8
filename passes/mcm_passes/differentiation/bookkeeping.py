"""Ops that compute nothing, where TensorFlow 1 had them in its gradients; off by default.

Published numbers of ops of training graphs count them, and planners of those days had to place
them. They are views here: they take no time and no memory, but tie devices to each other. What is
added, as the gradients of TensorFlow 1.x (`math_grad.py`, `array_grad.py`, `gradients_impl.py`) are
written:

- Ops with broadcasting (`BROADCASTING`): each gradient is summed over what was broadcast, over
  nothing where nothing was (`Identity`), and brought to the `Shape` of its operand (`Reshape`).
- Ops that give elements another shape (`RESHAPING`): the `Shape` that the gradient is brought to is
  taken of the operand.
- Ops with several gradients: each passes a control dependency (`Identity`), so that none is used
  before all are there.
- Variables: each is read once, by an `Identity` that all but its own update read.

What ONNX has no op for is left out: `NoOp`, `BroadcastGradientArgs`, `ConcatOffset`, constants,
initialisers, `Assign`, savers and summaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_passes.differentiation.reverse_mode import Rules
from mcm_passes.differentiation.rule_table import RegisteredGradient

BROADCASTING = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"})
"""Ops whose gradients in TensorFlow undo broadcasting."""

RESHAPING = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
"""Ops whose gradients in TensorFlow are a `Reshape` to a computed shape."""

_Gradients = Sequence[ir.Value | None]


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
