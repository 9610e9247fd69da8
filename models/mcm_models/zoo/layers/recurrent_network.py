"""What all unrolled recurrent families of the zoo share: options and embeddings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import GraphBuilder, Scope
from mcm_models.zoo.layers.lstm_cells import TimeAxis
from mcm_models.zoo.layers.option_checks import require_at_least
from mcm_models.zoo.layers.recurrent_layers import CellKind, State, bidirectional, initial_state
from mcm_models.zoo.layers.weights import around, keeps_variance, spread


@dataclass(frozen=True)
class RecurrentNetwork(ABC):
    """Recurrent layers spelt out in elementary ops, one copy per time step.

    Attributes:
        cell: kind of the cells, `lstm` or `gru`.
        layers: layers upon each other.
        steps: elements of each sequence.
        hidden: size of every state.
        batch: sequences per inference.
        seed: seed of the random weights.
        shape_only: leave out the weights' values.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    cell: CellKind = "lstm"
    layers: int = 2
    steps: int = 8
    hidden: int = 256
    batch: int = 1
    seed: int = 0
    shape_only: bool = False

    def __post_init__(self) -> None:
        require_at_least(
            1, layers=self.layers, steps=self.steps, hidden=self.hidden, batch=self.batch
        )
        require_at_least(0, seed=self.seed)

    def build(self) -> ir.Model:
        """Makes the model; `connect` tells its inputs and outputs."""
        graph = GraphBuilder(
            self.name, opset=14, ir_version=8, seed=self.seed, shape_only=self.shape_only
        )
        self.connect(graph, TimeAxis.of(graph))
        return graph.model()

    @abstractmethod
    def connect(self, graph: GraphBuilder, time: TimeAxis) -> None:
        """Builds the network with its inputs and outputs."""

    def start(self, scope: Scope) -> State:
        """The state before the first step."""
        return initial_state(self.cell, scope, self.batch, self.hidden)

    def read_both_ways(self, root: Scope, sequence: list[ir.Value], width: int) -> list[ir.Value]:
        """All layers, each bidirectional; what is read and written, `[batch, width]`, is per step.

        The width that is written is `2 * hidden`.
        """
        start = self.start(root)
        for number in range(self.layers):
            scope = root.sub(f"layer.{number}")
            sequence = bidirectional(self.cell, scope, sequence, width, self.hidden, start)
            width = 2 * self.hidden
        return sequence

    def embedded(self, scope: Scope, ids: ir.Value, vocab: int, time: TimeAxis) -> list[ir.Value]:
        """Embeddings of the words `[batch, steps]`: `[batch, hidden]` per step."""
        scope = scope.sub("embedding")
        table = scope.weight("weight", [vocab, self.hidden], spread(1.0))
        return time.apart(scope, scope.op("Gather", table, ids, axis=0), self.steps)


@dataclass(frozen=True)
class Projection:
    """A linear layer that all steps share.

    Attributes:
        scope: where its weights are; the steps stand below.
        weight: `[width, classes]`.
        bias: `[classes]`.
    """

    scope: Scope
    weight: ir.Value
    bias: ir.Value

    @classmethod
    def with_weights(cls, scope: Scope, width: int, classes: int) -> Projection:
        """From `width` numbers to `classes` logits, with weights of its own."""
        weight = scope.weight("weight", [width, classes], keeps_variance(width, 2.0))
        return cls(scope, weight, scope.weight("bias", [classes], around(0.0, 0.1)))

    def step(self, number: int, features: ir.Value) -> ir.Value:
        """Logits `[batch, classes]` of one step."""
        scope = self.scope.sub(f"step.{number}")
        return scope.op("Add", scope.op("MatMul", features, self.weight), self.bias)
