"""Taggers that read a sentence from both ends (Huang et al. 2015, *Bidirectional LSTM-CRF*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import GraphBuilder
from mcm_models.zoo.layers.lstm_cells import TimeAxis
from mcm_models.zoo.layers.option_checks import require_at_least
from mcm_models.zoo.layers.recurrent_network import Projection, RecurrentNetwork


@dataclass(frozen=True)
class BidirectionalRnn(RecurrentNetwork):
    """From words to a tag for each of them; the model's scores, without the CRF behind them.

    Attributes:
        vocab: number of words.
        classes: number of tags.
    """

    name: ClassVar[str] = "bidirectional-rnn"
    summary: ClassVar[str] = "tagger of bidirectional LSTM or GRU layers, unrolled"

    vocab: int = 10_000
    classes: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(1, vocab=self.vocab, classes=self.classes)

    def connect(self, graph: GraphBuilder, time: TimeAxis) -> None:
        """`input_ids` int64 `[batch, steps]` to `logits` `[batch, steps, classes]`."""
        root = graph.root
        extents = [self.batch, self.steps]
        ids = graph.input("input_ids", ir.DataType.INT64, extents)
        sequence = self.embedded(root, ids, self.vocab, time)
        sequence = self.read_both_ways(root, sequence, self.hidden)
        tags = root.sub("tags")
        head = Projection.with_weights(tags, 2 * self.hidden, self.classes)
        logits = time.together(tags, [head.step(t, both) for t, both in enumerate(sequence)])
        graph.output(logits, "logits", ir.DataType.FLOAT, [*extents, self.classes])
