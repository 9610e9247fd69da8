"""Recurrent layers of either cell, unrolled over a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.lstm_cells import LstmLayer, LstmState
from mcm_models.zoo.layers.weights import Uniform, around, keeps_variance

GATES = 3


@dataclass(frozen=True)
class GruLayer:
    """One layer; its cells share the weights (Cho et al. 2014, *Learning phrase representations*).

    The reset gate acts behind the recurrent product, as in cuDNN and in ONNX's
    `linear_before_reset`, so that the two products of a cell do not wait for each other.

    Attributes:
        scope: where its weights are; the cells stand below.
        hidden: size of the state.
        input_weight: `[inputs, 3 * hidden]`: update gate, reset gate, candidate.
        input_bias: `[3 * hidden]`.
        state_weight: `[hidden, 3 * hidden]`, in the same order.
        state_bias: `[3 * hidden]`.
    """

    scope: Scope
    hidden: int
    input_weight: ir.Value
    input_bias: ir.Value
    state_weight: ir.Value
    state_bias: ir.Value

    @classmethod
    def with_weights(cls, scope: Scope, inputs: int, hidden: int) -> GruLayer:
        """A layer that reads `inputs` numbers, with weights of its own."""
        width = GATES * hidden

        def parameter(name: str, shape: list[int], values: Uniform) -> ir.Value:
            return scope.weight(name, shape, values)

        return cls(
            scope,
            hidden,
            parameter("input.weight", [inputs, width], keeps_variance(inputs)),
            parameter("input.bias", [width], around(0.0, 0.1)),
            parameter("state.weight", [hidden, width], keeps_variance(hidden)),
            parameter("state.bias", [width], around(0.0, 0.1)),
        )

    def step(self, number: int, read: ir.Value, state: ir.Value) -> ir.Value:
        """The cell of one time step, the state after it: 16 ops.

        Args:
            number: of the step, for the names.
            read: `[batch, inputs]`.
            state: of the step before, `[batch, hidden]`.
        """
        scope = self.scope.sub(f"step.{number}")
        ahead = scope.op("Add", scope.op("MatMul", read, self.input_weight), self.input_bias)
        back = scope.op("Add", scope.op("MatMul", state, self.state_weight), self.state_bias)
        update_read, reset_read, fresh_read = scope.ops(GATES, "Split", ahead, axis=1)
        update_state, reset_state, fresh_state = scope.ops(GATES, "Split", back, axis=1)
        update = scope.op("Sigmoid", scope.op("Add", update_read, update_state))
        reset = scope.op("Sigmoid", scope.op("Add", reset_read, reset_state))
        fresh = scope.op("Add", fresh_read, scope.op("Mul", reset, fresh_state))
        fresh = scope.op("Tanh", fresh)
        # (1 - update) * fresh + update * state, with one product
        kept = scope.op("Mul", update, scope.op("Sub", state, fresh))
        return scope.op("Add", fresh, kept)


CellKind = Literal["lstm", "gru"]

State = tuple[ir.Value, ...]
"""What a cell hands on to the next step, `[batch, hidden]` each; its output first."""


class RecurrentLayer(Protocol):
    """A layer whose cells share their weights."""

    def step(self, number: int, read: ir.Value, state: State) -> State:
        """The cell of step `number`, which reads `[batch, inputs]`."""
        ...


@dataclass(frozen=True)
class _Lstm:
    layer: LstmLayer

    def step(self, number: int, read: ir.Value, state: State) -> State:
        after = self.layer.step(number, [read], LstmState(*state))
        return after.output, after.cell


@dataclass(frozen=True)
class _Gru:
    layer: GruLayer

    def step(self, number: int, read: ir.Value, state: State) -> State:
        return (self.layer.step(number, read, *state),)


def recurrent_layer(cell: CellKind, scope: Scope, inputs: int, hidden: int) -> RecurrentLayer:
    """A layer with weights of its own.

    Args:
        cell: the kind of its cells.
        scope: where its weights are.
        inputs: size of what it reads.
        hidden: size of its state.
    """
    if cell == "lstm":
        return _Lstm(LstmLayer.with_weights(scope, [inputs], hidden))
    return _Gru(GruLayer.with_weights(scope, inputs, hidden))


def initial_state(cell: CellKind, scope: Scope, batch: int, hidden: int) -> State:
    """Zeros, as before the first step."""
    zeros = scope.table("zeros", np.zeros([batch, hidden], dtype=np.float32))
    return (zeros, zeros) if cell == "lstm" else (zeros,)


def unrolled(
    layer: RecurrentLayer,
    sequence: Sequence[ir.Value],
    state: State,
    *,
    backwards: bool = False,
) -> tuple[list[ir.Value], State]:
    """A cell per element of `sequence`; the outputs in its order, and the last state.

    Args:
        layer: its weights.
        sequence: `[batch, inputs]` each.
        state: before the first step.
        backwards: from the last element to the first.
    """
    outputs: dict[int, ir.Value] = {}
    numbers = range(len(sequence))
    for number in reversed(numbers) if backwards else numbers:
        state = layer.step(number, sequence[number], state)
        outputs[number] = state[0]
    return [outputs[number] for number in numbers], state


def bidirectional(
    cell: CellKind,
    scope: Scope,
    sequence: Sequence[ir.Value],
    inputs: int,
    hidden: int,
    start: State,
) -> list[ir.Value]:
    """Two layers, one from each end; their outputs side by side, `[batch, 2 * hidden]` each."""
    ahead, _ = unrolled(
        recurrent_layer(cell, scope.sub("forward"), inputs, hidden), sequence, start
    )
    back, _ = unrolled(
        recurrent_layer(cell, scope.sub("backward"), inputs, hidden),
        sequence,
        start,
        backwards=True,
    )
    return [scope.op("Concat", *pair, axis=1) for pair in zip(ahead, back, strict=True)]
