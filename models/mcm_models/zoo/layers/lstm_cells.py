"""LSTM cells spelt out in elementary ops, one copy per time step, as unrolling leaves them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import GraphBuilder, Scope
from mcm_models.zoo.layers.weights import around, keeps_variance

GATES = 4


@dataclass(frozen=True)
class LstmState:
    """What a cell hands on to the next time step.

    Attributes:
        output: `[batch, hidden]`, or as wide as it is projected.
        cell: `[batch, hidden]`.
    """

    output: ir.Value
    cell: ir.Value


def zero_state(scope: Scope, batch: int, hidden: int, width: int = 0) -> LstmState:
    """The state before the first time step; its output has another width where one is given."""
    zeros = scope.table("zeros", np.zeros([batch, hidden], dtype=np.float32))
    if width in (0, hidden):
        return LstmState(zeros, zeros)
    return LstmState(scope.table("no_output", np.zeros([batch, width], np.float32)), zeros)


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
        bias = scope.weight("bias", [GATES * hidden], around(0.0, 0.1))
        projection: ir.Value | None = None
        if projected:
            onto = keeps_variance(hidden, math.sqrt(2.0))
            projection = scope.weight("projection", [hidden, projected], onto)
        return cls(scope, hidden, weight, bias, projection)

    def step(self, number: int, inputs: Sequence[ir.Value], state: LstmState) -> LstmState:
        """The cell of one time step: 13 ops, 14 with a projection.

        Args:
            number: of the step, for the names.
            inputs: `[batch, width]` each.
            state: of the step before.
        """
        scope = self.scope.sub(f"step.{number}")
        joined = scope.op("Concat", *inputs, state.output, axis=1)
        gates = scope.op("Add", scope.op("MatMul", joined, self.weight), self.bias)
        write, fresh, keep, show = scope.ops(GATES, "Split", gates, axis=1)
        kept = scope.op("Mul", scope.op("Sigmoid", keep), state.cell)
        written = scope.op("Mul", scope.op("Sigmoid", write), scope.op("Tanh", fresh))
        cell = scope.op("Add", kept, written)
        output = scope.op("Mul", scope.op("Sigmoid", show), scope.op("Tanh", cell))
        if self.projection is not None:
            output = scope.op("MatMul", output, self.projection)
        return LstmState(output, cell)

    def steps(
        self, sequence: Sequence[ir.Value], state: LstmState, *, backwards: bool = False
    ) -> tuple[list[ir.Value], LstmState]:
        """A cell per element of `sequence`; the outputs in its order, and the last state.

        Args:
            sequence: `[batch, width]` each.
            state: before the first step.
            backwards: from the last element to the first.
        """
        outputs: dict[int, ir.Value] = {}
        numbers = range(len(sequence))
        for number in reversed(numbers) if backwards else numbers:
            state = self.step(number, [sequence[number]], state)
            outputs[number] = state.output
        return [outputs[number] for number in numbers], state


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
