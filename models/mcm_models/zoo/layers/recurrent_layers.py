"""Recurrent cells and layers, unrolled, and the loss of language models over their steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import onnx_ir as ir

from mcm_models.graph_builder import GraphBuilder, Scope, Uniform, around, keeps_variance

GATES = 4

CellKind = Literal["lstm", "gru"]

State = tuple[ir.Value, ...]
"""States that a cell hands on to the next step, `[batch, hidden]` each.

The first is its output, which may be projected to another width.
"""


class RecurrentLayer(Protocol):
    """A layer whose cells share their weights."""

    def step(self, number: int, inputs: Sequence[ir.Value], state: State) -> State:
        """The cell of one time step.

        Args:
            number: of the step, for the names.
            inputs: `[batch, width]` each.
            state: of the step before.
        """
        ...


@dataclass(frozen=True)
class LstmLayer:
    """One layer; its cells share the weights (Hochreiter and Schmidhuber 1997, with forget gate).

    Attributes:
        scope: where its weights are; the cells stand below.
        hidden: size of the cell's state.
        weight: `[inputs + outputs, 4 * hidden]`, for inputs and output side by side.
        bias: `[4 * hidden]`.
        projection: `[hidden, outputs]`, or None where the output is as wide as the cell's state
            (Sak et al. 2014, *Long Short-Term Memory Recurrent Neural Network Architectures*,
            equation 13).
    """

    scope: Scope
    hidden: int
    weight: ir.Value
    bias: ir.Value
    projection: ir.Value | None = None

    @classmethod
    def with_weights(
        cls, scope: Scope, input_widths: Sequence[int], hidden: int, projected: int = 0
    ) -> LstmLayer:
        """A layer that reads inputs of these widths, with weights of its own.

        Args:
            scope: its place.
            input_widths: of each input.
            hidden: size of the cell's state.
            projected: size of the output; 0 for that of the cell's state.
        """
        width = sum(input_widths) + (projected or hidden)
        # The parts of the sum are outputs of other cells, of about half the variance of 1.
        values = keeps_variance(width, math.sqrt(2.0))
        weight = scope.weight("weight", [width, GATES * hidden], values)
        bias = scope.bias(GATES * hidden)
        projection: ir.Value | None = None
        if projected:
            onto = keeps_variance(hidden, math.sqrt(2.0))
            projection = scope.weight("projection", [hidden, projected], onto)
        return cls(scope, hidden, weight, bias, projection)

    def step(self, number: int, inputs: Sequence[ir.Value], state: State) -> State:
        """See `RecurrentLayer`: 13 ops, 14 with a projection."""
        before, cell = state
        scope = self.scope.sub(f"step.{number}")
        joined = scope.op("Concat", *inputs, before, axis=1)
        gates = scope.op("Add", scope.op("MatMul", joined, self.weight), self.bias)
        write, fresh, keep, show = scope.ops(GATES, "Split", gates, axis=1)
        kept = scope.op("Mul", scope.op("Sigmoid", keep), cell)
        written = scope.op("Mul", scope.op("Sigmoid", write), scope.op("Tanh", fresh))
        cell = scope.op("Add", kept, written)
        output = scope.op("Mul", scope.op("Sigmoid", show), scope.op("Tanh", cell))
        if self.projection is not None:
            output = scope.op("MatMul", output, self.projection)
        return output, cell


@dataclass(frozen=True)
class TimeAxis:
    """Takes sequences apart into time steps, and puts them together again.

    Attributes:
        axis: the constant that numbers the axis of time, shared by all.
    """

    axis: ir.Value

    @classmethod
    def of(cls, graph: GraphBuilder) -> TimeAxis:
        """For sequences `[batch, time, width]` of one graph."""
        return cls(graph.root.sub("time").ints(1))

    def apart(self, scope: Scope, sequence: ir.Value, steps: int) -> list[ir.Value]:
        """`[batch, steps, width]` to `steps` values `[batch, width]`."""
        slices = scope.ops(steps, "Split", sequence, axis=1) if steps > 1 else [sequence]
        return [scope.op("Squeeze", part, self.axis) for part in slices]

    def together(self, scope: Scope, steps: Sequence[ir.Value]) -> ir.Value:
        """Values `[batch, width]` to `[batch, steps, width]`."""
        parts = [scope.op("Unsqueeze", step, self.axis) for step in steps]
        return scope.op("Concat", *parts, axis=1)


GRU_GATES = 3


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
        width = GRU_GATES * hidden

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

    def step(self, number: int, inputs: Sequence[ir.Value], state: State) -> State:
        """See `RecurrentLayer`: 16 ops, of one input."""
        (read,), (before,) = inputs, state
        scope = self.scope.sub(f"step.{number}")
        ahead = scope.op("Add", scope.op("MatMul", read, self.input_weight), self.input_bias)
        back = scope.op("Add", scope.op("MatMul", before, self.state_weight), self.state_bias)
        update_read, reset_read, fresh_read = scope.ops(GRU_GATES, "Split", ahead, axis=1)
        update_state, reset_state, fresh_state = scope.ops(GRU_GATES, "Split", back, axis=1)
        update = scope.op("Sigmoid", scope.op("Add", update_read, update_state))
        reset = scope.op("Sigmoid", scope.op("Add", reset_read, reset_state))
        fresh = scope.op("Add", fresh_read, scope.op("Mul", reset, fresh_state))
        fresh = scope.op("Tanh", fresh)
        # (1 - update) * fresh + update * state, with one product
        kept = scope.op("Mul", update, scope.op("Sub", before, fresh))
        return (scope.op("Add", fresh, kept),)


def recurrent_layer(cell: CellKind, scope: Scope, inputs: int, hidden: int) -> RecurrentLayer:
    """A layer with weights of its own.

    Args:
        cell: the kind of its cells.
        scope: where its weights are.
        inputs: size of what it reads.
        hidden: size of its state.
    """
    if cell == "lstm":
        return LstmLayer.with_weights(scope, [inputs], hidden)
    return GruLayer.with_weights(scope, inputs, hidden)


def initial_state(
    cell: CellKind, scope: Scope, batch: int, hidden: int, projected: int = 0
) -> State:
    """Zeros, as before the first step; outputs have another width where one is given."""
    zeros = scope.table("zeros", np.zeros([batch, hidden], dtype=np.float32))
    if projected not in (0, hidden):
        return scope.table("no_output", np.zeros([batch, projected], np.float32)), zeros
    return (zeros, zeros) if cell == "lstm" else (zeros,)


def unrolled(
    layer: RecurrentLayer, sequence: Sequence[ir.Value], state: State, *, backwards: bool = False
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
        state = layer.step(number, [sequence[number]], state)
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


@dataclass(frozen=True)
class SequenceLoss:
    """Projection onto the vocabulary and weighted mean of the words' cross-entropies.

    Logits exist for one chunk of steps at a time, so that neither all of them nor a gradient of
    the projection for every step has to be held.

    Attributes:
        scope: where its weights are; a chunk's ops stand in `chunk.<number>` below.
        weight: `[hidden, vocab]`.
        bias: `[vocab]`.
        chunk: steps whose logits are made at once.
    """

    scope: Scope
    weight: ir.Value
    bias: ir.Value
    chunk: int

    @classmethod
    def with_weights(cls, scope: Scope, hidden: int, vocab: int, chunk: int) -> SequenceLoss:
        weight = scope.weight("weight", [hidden, vocab], keeps_variance(hidden))
        return cls(scope, weight, scope.bias(vocab), chunk)

    def mean(
        self, outputs: Sequence[ir.Value], labels: ir.Value, word_weights: ir.Value
    ) -> ir.Value:
        """The loss, a scalar: cross-entropies times weights, over the sum of the weights.

        Args:
            outputs: of each step, `[batch, hidden]`.
            labels: the word that each step shall predict, int64 `[batch, steps]`.
            word_weights: 0 for padding, `[batch, steps]`.
        """
        chunks = [outputs[at : at + self.chunk] for at in range(0, len(outputs), self.chunk)]
        sizes = [len(chunk) for chunk in chunks]
        wanted = self._in_chunks("labels", labels, sizes)
        counted = self._in_chunks("word_weights", word_weights, sizes)
        losses: list[ir.Value] = []
        for number, (chunk, label, weight) in enumerate(zip(chunks, wanted, counted, strict=True)):
            scope = self.scope.sub(f"chunk.{number}")
            rows = scope.op("Concat", *chunk, axis=0) if len(chunk) > 1 else chunk[0]
            logits = scope.op("Add", scope.op("MatMul", rows, self.weight), self.bias)
            loss = scope.op("SoftmaxCrossEntropyLoss", logits, label, reduction="none")
            losses.append(scope.op("ReduceSum", scope.op("Mul", loss, weight), keepdims=0))
        total = self.scope.op("Sum", *losses) if len(losses) > 1 else losses[0]
        count = self.scope.op("ReduceSum", word_weights, keepdims=0)
        return self.scope.op("Div", total, count)

    def _in_chunks(self, name: str, values: ir.Value, sizes: Sequence[int]) -> list[ir.Value]:
        """`[batch, steps]` to one vector a chunk, step by step as the rows of logits are."""
        scope = self.scope.sub(name)
        by_step = scope.op("Transpose", values, perm=[1, 0])
        parts = [by_step]
        if len(sizes) > 1:
            parts = [*scope.ops(len(sizes), "Split", by_step, scope.ints(*sizes), axis=0)]
        flat = scope.ints(-1)
        return [scope.op("Reshape", part, flat) for part in parts]
