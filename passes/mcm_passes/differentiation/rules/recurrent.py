"""Gradients of recurrent ops: backpropagation through time over their steps, written out.

An op keeps the state of its gates to itself, so that the steps are computed again. The equations
are those of the operators RNN, GRU and LSTM of ONNX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.gradients import (
    GradientOps,
    GradientRequest,
    GradientRule,
    NotDifferentiable,
)
from mcm_passes.differentiation.composition import composed, text
from mcm_passes.differentiation.rules.operands import dims, filled, given, ints, operand, reshaped

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_ALPHAS = {
    "LeakyRelu": 0.01, "ThresholdedRelu": 1.0, "HardSigmoid": 0.2, "Elu": 1.0, "Affine": 1.0,
    "ScaledTanh": 1.0,
}  # fmt: skip
_BETAS = {"HardSigmoid": 0.5, "Affine": 0.0, "ScaledTanh": 1.0}
_PLAIN = frozenset({"Tanh", "Sigmoid", "Relu", "Softsign", "Softplus"})
_WITH_ALPHA = frozenset({"LeakyRelu", "ThresholdedRelu", "Elu"})

Activation = Callable[[ir.Value], ir.Value]


@dataclass(frozen=True)
class _Cell:
    """One direction of a recurrent op.

    Attributes:
        ops: emits.
        activations: as the op lists them.
        recurrent: `[hidden, gates · hidden]`, columns in the order of the gates.
        recurrent_bias: `[gates · hidden]`, or None.
        peepholes: for input, output and forget gate `[hidden]`, or None.
        hidden: width of the state.
        clipped: applied before activations.
        coupled: whether LSTM's forget gate is one less its input gate.
        reset_behind: whether GRU resets behind the product with the weights.
    """

    ops: GradientOps
    activations: tuple[Activation, ...]
    recurrent: ir.Value
    recurrent_bias: ir.Value | None
    peepholes: tuple[ir.Value, ...] | None
    hidden: int
    clipped: Activation
    coupled: bool
    reset_behind: bool

    def gates(self, value: ir.Value, count: int) -> tuple[ir.Value, ...]:
        """A value cut along its last dimension, one part for each gate."""
        if count == 1:
            return (value,)
        sizes = ints(self.ops, [self.hidden] * count)
        return self.ops.ops(count, "Split", value, sizes, axis=-1)

    def from_state(self, state: ir.Value, gates: slice | None = None) -> ir.Value:
        """The share of the state in the gates, with its bias."""
        weights, bias = self.recurrent, self.recurrent_bias
        if gates is not None:
            places = np.arange(gates.start * self.hidden, gates.stop * self.hidden)
            weights = self.ops.op("Gather", weights, self.ops.constant(places), axis=1)
            if bias is not None:
                bias = self.ops.op("Gather", bias, self.ops.constant(places), axis=0)
        made = self.ops.op("MatMul", state, weights)
        return made if bias is None else self.ops.op("Add", made, bias)


def _rnn_step(cell: _Cell, x: ir.Value, h: ir.Value, _: ir.Value | None) -> tuple[ir.Value, None]:
    total = cell.ops.op("Add", x, cell.from_state(h))
    return cell.activations[0](cell.clipped(total)), None


def _gru_step(cell: _Cell, x: ir.Value, h: ir.Value, _: ir.Value | None) -> tuple[ir.Value, None]:
    """`H' = (1 - z) tanh(..) + z H`."""
    ops = cell.ops
    f, g = cell.activations
    xz, xr, xh = cell.gates(x, 3)
    hz, hr = cell.gates(cell.from_state(h, slice(0, 2)), 2)
    z = f(cell.clipped(ops.op("Add", xz, hz)))
    r = f(cell.clipped(ops.op("Add", xr, hr)))
    if cell.reset_behind:
        inner = ops.op("Mul", r, cell.from_state(h, slice(2, 3)))
    else:
        inner = cell.from_state(ops.op("Mul", r, h), slice(2, 3))
    new = g(cell.clipped(ops.op("Add", xh, inner)))
    kept = ops.op("Mul", z, ops.op("Sub", h, new))
    return ops.op("Add", new, kept), None


def _lstm_step(
    cell: _Cell, x: ir.Value, h: ir.Value, c: ir.Value | None
) -> tuple[ir.Value, ir.Value]:
    """`C' = f C + i c`, `H' = o tanh(C')`; gates in the order i, o, f, c."""
    assert c is not None
    ops = cell.ops
    f, g, last = cell.activations
    gate_i, gate_o, gate_f, gate_c = cell.gates(ops.op("Add", x, cell.from_state(h)), 4)
    if cell.peepholes is not None:
        gate_i = ops.op("Add", gate_i, ops.op("Mul", cell.peepholes[0], c))
        gate_f = ops.op("Add", gate_f, ops.op("Mul", cell.peepholes[2], c))
    i = f(cell.clipped(gate_i))
    forget = ops.op("Sub", ops.like(i, 1.0), i) if cell.coupled else f(cell.clipped(gate_f))
    fresh = ops.op("Mul", i, g(cell.clipped(gate_c)))
    new = ops.op("Add", ops.op("Mul", forget, c), fresh)
    if cell.peepholes is not None:
        gate_o = ops.op("Add", gate_o, ops.op("Mul", cell.peepholes[1], new))
    o = f(cell.clipped(gate_o))
    return ops.op("Mul", o, last(new)), new


_STEPS = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}


def _forward(request: GradientRequest) -> list[ir.Value | None]:
    """All directions of an op; see `Forward`."""
    ops, kind = request.ops, request.node.op_type
    by_batch = bool(int(request.attribute("layout", 0)))
    x = given(request, 0)
    x = ops.op("Transpose", x, perm=[1, 0, 2]) if by_batch else x
    directions = request.shape(given(request, 1))[0]
    mode = text(request, "direction", "forward")
    made = [
        _direction(request, x, index, mode == "reverse" or index == 1)
        for index in range(directions)
    ]
    y = ops.op("Concat", *(one[0] for one in made), axis=1) if directions > 1 else made[0][0]
    lasts: list[ir.Value | None] = []
    for which in (1, 2):
        parts = [one[which] for one in made]
        found = parts[0]
        if found is not None and directions > 1:
            found = ops.op("Concat", *parts, axis=0)
        if found is not None and by_batch:
            found = ops.op("Transpose", found, perm=[1, 0, 2])
        lasts.append(found)
    y = ops.op("Transpose", y, perm=[2, 0, 1, 3]) if by_batch else y
    return [y, *lasts][: 3 if kind == "LSTM" else 2]


def _direction(
    request: GradientRequest, x: ir.Value, index: int, backwards: bool
) -> tuple[ir.Value, ir.Value, ir.Value | None]:
    """Outputs `[steps, 1, batch, hidden]`, and last states `[1, batch, hidden]`."""
    ops, kind = request.ops, request.node.op_type
    count = _GATES[kind]
    cell, weights, bias = _cell(request, index)
    steps, batch = dims(x)[:2]
    projected = ops.op("MatMul", x, weights)
    projected = projected if bias is None else ops.op("Add", projected, bias)
    each = ops.ops(steps, "Split", projected, ints(ops, [1] * steps), axis=0)
    inputs = [reshaped(ops, part, (batch, count * cell.hidden)) for part in each]
    h: ir.Value = _initial(request, 5, index, batch, cell.hidden)
    c = _initial(request, 6, index, batch, cell.hidden) if kind == "LSTM" else None
    outputs: list[ir.Value] = [h] * steps
    for place in reversed(range(steps)) if backwards else range(steps):
        new_h, new_c = _STEPS[kind](cell, inputs[place], h, c)
        lengths = operand(request, 4)
        outputs[place] = new_h
        if lengths is not None:
            # Samples that are shorter keep their state, and give zeros.
            last = ops.constant(np.array(place, np.int32))
            runs = reshaped(ops, ops.op("Greater", lengths, last), (batch, 1))
            outputs[place] = ops.op("Where", runs, new_h, ops.like(new_h, 0.0))
            new_h = ops.op("Where", runs, new_h, h)
            new_c = new_c if new_c is None or c is None else ops.op("Where", runs, new_c, c)
        h, c = new_h, new_c
    rows = [reshaped(ops, value, (1, 1, batch, cell.hidden)) for value in outputs]
    y = ops.op("Concat", *rows, axis=0) if steps > 1 else rows[0]
    lasts = [None if v is None else reshaped(ops, v, (1, batch, cell.hidden)) for v in (h, c)]
    assert lasts[0] is not None
    return y, lasts[0], lasts[1]


def _cell(request: GradientRequest, index: int) -> tuple[_Cell, ir.Value, ir.Value | None]:
    """A direction's cell, its weights `[input, gates · hidden]` and bias of the input."""
    ops, kind = request.ops, request.node.op_type
    hidden = request.shape(given(request, 2))[-1]
    weights, recurrent = (
        ops.op("Transpose", _of(ops, given(request, place), index), perm=[1, 0]) for place in (1, 2)
    )
    bias = operand(request, 3)
    inner = outer = None
    if bias is not None:
        width = _GATES[kind] * hidden
        sizes = ints(ops, [width, width])
        outer, inner = ops.ops(2, "Split", _of(ops, bias, index), sizes, axis=0)
    holes = operand(request, 7)
    peepholes = None
    if holes is not None:
        sizes = ints(ops, [hidden] * 3)
        peepholes = ops.ops(3, "Split", _of(ops, holes, index), sizes, axis=0)
    cell = _Cell(
        ops,
        _activations(request, index),
        recurrent,
        inner,
        peepholes,
        hidden,
        _clipping(request),
        bool(request.attribute("input_forget", 0)),
        bool(request.attribute("linear_before_reset", 0)),
    )
    return cell, weights, outer


def _activations(request: GradientRequest, index: int) -> tuple[Activation, ...]:
    """Those of a direction; alphas and betas are listed in order of those that take them."""
    defaults = _DEFAULTS[request.node.op_type]
    names = [
        name.decode() if isinstance(name, bytes) else str(name)
        for name in request.attribute("activations", ())
    ] or [*defaults, *defaults]
    alphas = iter(request.attribute("activation_alpha", ()))
    betas = iter(request.attribute("activation_beta", ()))
    made: list[Activation] = []
    for name in names:
        alpha = next(alphas, _ALPHAS[name]) if name in _ALPHAS else 0.0
        beta = next(betas, _BETAS[name]) if name in _BETAS else 0.0
        made.append(_activation(request.ops, name, float(alpha), float(beta)))
    return tuple(made[index * len(defaults) : (index + 1) * len(defaults)])


def _activation(ops: GradientOps, name: str, alpha: float, beta: float) -> Activation:
    if name in _PLAIN:
        return lambda x: ops.op(name, x)
    if name in _WITH_ALPHA:
        return lambda x: ops.op(name, x, alpha=alpha)
    if name == "HardSigmoid":
        return lambda x: ops.op(name, x, alpha=alpha, beta=beta)
    if name == "Affine":
        return lambda x: ops.op("Add", ops.op("Mul", x, ops.like(x, alpha)), ops.like(x, beta))
    if name == "ScaledTanh":
        return lambda x: ops.op(
            "Mul", ops.op("Tanh", ops.op("Mul", x, ops.like(x, beta))), ops.like(x, alpha)
        )
    raise NotDifferentiable(f"activation {name} has no gradient rule")


def _clipping(request: GradientRequest) -> Activation:
    limit, ops = request.attribute("clip", None), request.ops
    if limit is None:
        return lambda x: x
    return lambda x: ops.op("Clip", x, ops.like(x, -float(limit)), ops.like(x, float(limit)))


def _initial(request: GradientRequest, place: int, index: int, batch: int, hidden: int) -> ir.Value:
    found = operand(request, place)
    if found is None:
        return filled(request.ops, (batch, hidden), given(request, 0))
    if int(request.attribute("layout", 0)):
        found = request.ops.op("Transpose", found, perm=[1, 0, 2])
    return _of(request.ops, found, index)


def _of(ops: GradientOps, value: ir.Value, index: int) -> ir.Value:
    """Part of one direction, by the first dimension."""
    shape = dims(value)
    if shape[0] > 1:
        value = ops.op("Gather", value, ops.constant(np.array([index], np.int64)), axis=0)
    return reshaped(ops, value, shape[1:])


RULES: dict[str, GradientRule] = dict.fromkeys(_STEPS, composed(_forward))
