"""LSTM language models, with the LSTM as one op, and unrolled with loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models import graph_builder
from mcm_models.zoo.layers.recurrent_layers import (
    LstmLayer,
    SequenceLoss,
    TimeAxis,
    initial_state,
    unrolled,
)

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
        graph_builder.require_sizes(self)

    def build(self) -> ir.Model:
        """Makes the model: `input_ids` `[batch, seq]` to `logits` `[batch, seq, vocab]`."""
        graph = graph_builder.GraphBuilder.of(self, 14)
        root = graph.root
        ids = graph.input("input_ids", ir.DataType.INT64, [self.batch, self.seq])
        embedding = root.sub("embedding")
        table = embedding.weight("weight", [self.vocab, self.hidden], graph_builder.spread(1.0))
        states = embedding.op("Gather", table, ids, axis=0)
        # The operator wants the sequence first: [seq, batch, hidden].
        states = root.op("Transpose", states, perm=[1, 0, 2])
        for layer in range(self.layers):
            states = self._lstm(root.sub(f"lstm.{layer}"), states)
        states = root.op("Transpose", states, perm=[1, 0, 2])
        projection = root.sub("projection")
        logits = projection.linear(states, self.hidden, self.vocab)
        graph.output(logits, "logits", ir.DataType.FLOAT, [self.batch, self.seq, self.vocab])
        return graph.model()

    def _lstm(self, scope: graph_builder.Scope, states: ir.Value) -> ir.Value:
        extent = [1, _GATES * self.hidden, self.hidden]
        # Input and recurrent part add up in each gate, so each brings half the variance.
        values = graph_builder.keeps_variance(self.hidden, math.sqrt(0.5))
        output, _, _ = scope.ops(
            3,
            "LSTM",
            states,
            scope.weight("weight_ih", extent, values),
            scope.weight("weight_hh", extent, values),
            scope.weight("bias", [1, 2 * _GATES * self.hidden], graph_builder.around(0.0, 0.1)),
            hidden_size=self.hidden,
        )
        # [seq, directions=1, batch, hidden] -> [seq, batch, hidden]
        return scope.op("Squeeze", output, scope.ints(1))


@dataclass(frozen=True)
class Rnnlm:
    """RNNLM with loss in the size of Mirhoseini et al. 2018.

    *A Hierarchical Model for Device Placement*: two LSTMs of width 2048, batches of 64. Outputs are
    projected to width 512 as in the LSTM-2048-512 of Jozefowicz et al.; without, the weights'
    gradients of all steps do not fit the one GPU on which the paper trains. The paper does not give
    the vocabulary nor the number of unrolled steps. The default of the former is that of the Penn
    Treebank (Zaremba et al. 2014), that of the latter the one whose training step has the paper's
    number of ops.

    Attributes:
        layers: stacked LSTMs.
        steps: words per sequence.
        hidden: size of the cells' states.
        projected: size of embeddings and outputs; 0 for that of the cells' states.
        vocab: number of words.
        batch: sequences per step.
        chunk: steps whose logits are made at once.
        seed: seed of the random weights.
        shape_only: leave out the weights' values.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str] = "rnnlm"
    summary: ClassVar[str] = "language model of unrolled LSTMs with loss, shapes only"

    layers: int = 2
    steps: int = 47
    hidden: int = 2048
    projected: int = 512
    vocab: int = 10_000
    batch: int = 64
    chunk: int = 8
    seed: int = 0
    shape_only: bool = True

    def __post_init__(self) -> None:
        graph_builder.require_sizes(self, "projected")

    def build(self) -> ir.Model:
        """Makes the model; its output is `loss`, the weighted mean over words.

        Inputs are `input_ids` and `labels`, int64 `[batch, steps]`, and `word_weights`, float
        `[batch, steps]`, 0 where a sentence has ended.
        """
        graph = graph_builder.GraphBuilder.of(self, 17)
        extents = [self.batch, self.steps]
        ids = graph.input("input_ids", ir.DataType.INT64, extents)
        labels = graph.input("labels", ir.DataType.INT64, extents)
        word_weights = graph.input("word_weights", ir.DataType.FLOAT, extents)
        width = self.projected or self.hidden
        embedding = graph.root.sub("embedding")
        table = embedding.weight("weight", [self.vocab, width], graph_builder.spread(1.0))
        words = embedding.op("Gather", table, ids, axis=0)
        outputs = TimeAxis.of(graph).apart(embedding, words, self.steps)
        start = initial_state("lstm", graph.root, self.batch, self.hidden, width)
        for number in range(self.layers):
            scope = graph.root.sub(f"lstm.{number}")
            layer = LstmLayer.with_weights(scope, [width], self.hidden, self.projected)
            outputs, _ = unrolled(layer, outputs, start)
        projection = graph.root.sub("projection")
        loss = SequenceLoss.with_weights(projection, width, self.vocab, self.chunk)
        graph.output(loss.mean(outputs, labels, word_weights), "loss", ir.DataType.FLOAT, [])
        return graph.model()
