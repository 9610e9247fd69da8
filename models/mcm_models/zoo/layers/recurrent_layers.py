"""Recurrent layers of either cell, unrolled over a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.gru_cells import GruLayer
from mcm_models.zoo.layers.lstm_cells import LstmLayer, LstmState

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
