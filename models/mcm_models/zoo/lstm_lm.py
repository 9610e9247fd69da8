"""LSTM language model (Zaremba et al. 2014, *Recurrent Neural Network Regularization*)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import GraphBuilder, Scope
from mcm_models.zoo.layers.option_checks import require_at_least
from mcm_models.zoo.layers.weights import around, keeps_variance, spread

_GATES = 4


@dataclass(frozen=True)
class LstmLm:
    """The paper's medium model: two stacked LSTMs between an embedding and a projection.

    The initial states are the operator's default, zero.

    Attributes:
        layers: stacked LSTMs.
        hidden: size of the embedding and of every state.
        vocab: number of words.
        seq: words per sequence.
        batch: sequences per inference.
        seed: seed of the random weights.
        shape_only: leave out the weights' values.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str] = "lstm-lm"
    summary: ClassVar[str] = "2-layer LSTM language model, 19.8 M parameters: LSTM as one op"

    layers: int = 2
    hidden: int = 650
    vocab: int = 10_000
    seq: int = 35
    batch: int = 1
    seed: int = 0
    shape_only: bool = False

    def __post_init__(self) -> None:
        require_at_least(
            1,
            layers=self.layers,
            hidden=self.hidden,
            vocab=self.vocab,
            seq=self.seq,
            batch=self.batch,
        )
        require_at_least(0, seed=self.seed)

    def build(self) -> ir.Model:
        """Makes the model: `input_ids` `[batch, seq]` to `logits` `[batch, seq, vocab]`."""
        graph = GraphBuilder(
            self.name, opset=14, ir_version=8, seed=self.seed, shape_only=self.shape_only
        )
        root = graph.root
        ids = graph.input("input_ids", ir.DataType.INT64, [self.batch, self.seq])
        embedding = root.sub("embedding")
        table = embedding.weight("weight", [self.vocab, self.hidden], spread(1.0))
        states = embedding.op("Gather", table, ids, axis=0)
        # The operator wants the sequence first: [seq, batch, hidden].
        states = root.op("Transpose", states, perm=[1, 0, 2])
        for layer in range(self.layers):
            states = self._lstm(root.sub(f"lstm.{layer}"), states)
        states = root.op("Transpose", states, perm=[1, 0, 2])
        projection = root.sub("projection")
        weight = projection.weight("weight", [self.hidden, self.vocab], keeps_variance(self.hidden))
        bias = projection.weight("bias", [self.vocab], around(0.0, 0.1))
        logits = projection.op("Add", projection.op("MatMul", states, weight), bias)
        graph.output(logits, "logits", ir.DataType.FLOAT, [self.batch, self.seq, self.vocab])
        return graph.model()

    def _lstm(self, scope: Scope, states: ir.Value) -> ir.Value:
        extent = [1, _GATES * self.hidden, self.hidden]
        # Input and recurrent part add up in each gate, so each brings half the variance.
        values = keeps_variance(self.hidden, math.sqrt(0.5))
        output, _, _ = scope.ops(
            3,
            "LSTM",
            states,
            scope.weight("weight_ih", extent, values),
            scope.weight("weight_hh", extent, values),
            scope.weight("bias", [1, 2 * _GATES * self.hidden], around(0.0, 0.1)),
            hidden_size=self.hidden,
        )
        # [seq, directions=1, batch, hidden] -> [seq, batch, hidden]
        return scope.op("Squeeze", output, scope.ints(1))
