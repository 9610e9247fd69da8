"""Unrolled LSTM language model with loss (Jozefowicz et al. 2016, *Exploring the Limits*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import GraphBuilder
from mcm_models.zoo.layers.lstm_cells import LstmLayer, TimeAxis, zero_state
from mcm_models.zoo.layers.option_checks import require_at_least
from mcm_models.zoo.layers.sequence_loss import SequenceLoss
from mcm_models.zoo.layers.weights import spread


@dataclass(frozen=True)
class Rnnlm:
    """RNNLM with loss in the size of Mirhoseini et al. 2018.

    *A Hierarchical Model for Device Placement*: two LSTMs of width 2048, batches of 64. The paper
    does not give the vocabulary nor the number of unrolled steps; the default of the former is
    that of the Penn Treebank (Zaremba et al. 2014), that of the latter the one whose training step
    has the paper's number of ops.

    Attributes:
        layers: stacked LSTMs.
        steps: words per sequence.
        hidden: size of the embedding and of every state.
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
    steps: int = 50
    hidden: int = 2048
    vocab: int = 10_000
    batch: int = 64
    chunk: int = 8
    seed: int = 0
    shape_only: bool = True

    def __post_init__(self) -> None:
        require_at_least(
            1,
            layers=self.layers,
            steps=self.steps,
            hidden=self.hidden,
            vocab=self.vocab,
            batch=self.batch,
            chunk=self.chunk,
        )
        require_at_least(0, seed=self.seed)

    def build(self) -> ir.Model:
        """Makes the model; its output is `loss`, the weighted mean over words.

        Inputs are `input_ids` and `labels`, int64 `[batch, steps]`, and `word_weights`, float
        `[batch, steps]`, 0 where a sentence has ended.
        """
        graph = GraphBuilder(
            self.name, opset=17, ir_version=8, seed=self.seed, shape_only=self.shape_only
        )
        extents = [self.batch, self.steps]
        ids = graph.input("input_ids", ir.DataType.INT64, extents)
        labels = graph.input("labels", ir.DataType.INT64, extents)
        word_weights = graph.input("word_weights", ir.DataType.FLOAT, extents)
        embedding = graph.root.sub("embedding")
        table = embedding.weight("weight", [self.vocab, self.hidden], spread(1.0))
        words = embedding.op("Gather", table, ids, axis=0)
        outputs = TimeAxis.of(graph).apart(embedding, words, self.steps)
        zeros = zero_state(graph.root, self.batch, self.hidden)
        for number in range(self.layers):
            scope = graph.root.sub(f"lstm.{number}")
            layer = LstmLayer.with_weights(scope, [self.hidden], self.hidden)
            outputs, _ = layer.steps(outputs, zeros)
        projection = graph.root.sub("projection")
        loss = SequenceLoss.with_weights(projection, self.hidden, self.vocab, self.chunk)
        graph.output(loss.mean(outputs, labels, word_weights), "loss", ir.DataType.FLOAT, [])
        return graph.model()
