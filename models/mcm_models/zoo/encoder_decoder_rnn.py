"""Translation without attention (Sutskever et al. 2014, *Sequence to Sequence Learning*)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import GraphBuilder, Scope
from mcm_models.zoo.layers.lstm_cells import TimeAxis
from mcm_models.zoo.layers.option_checks import require_at_least
from mcm_models.zoo.layers.recurrent_layers import State, recurrent_layer, unrolled
from mcm_models.zoo.layers.recurrent_network import Projection, RecurrentNetwork


@dataclass(frozen=True)
class EncoderDecoderRnn(RecurrentNetwork):
    """The decoder starts from the encoder's last states, and reads the given target words.

    As in the paper, the source is read from its end. `layers` and `steps` are those of the
    encoder and of the decoder each.

    Attributes:
        vocab: number of words of each language.
    """

    name: ClassVar[str] = "encoder-decoder-rnn"
    summary: ClassVar[str] = "translation by unrolled LSTM or GRU layers, without attention"

    vocab: int = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(1, vocab=self.vocab)

    def connect(self, graph: GraphBuilder, time: TimeAxis) -> None:
        """`source_ids` and `target_ids`, int64 `[batch, steps]`, to `logits` of each word."""
        root = graph.root
        extents = [self.batch, self.steps]
        source = graph.input("source_ids", ir.DataType.INT64, extents)
        target = graph.input("target_ids", ir.DataType.INT64, extents)
        encoder, decoder = root.sub("encoder"), root.sub("decoder")
        words = self.embedded(encoder, source, self.vocab, time)
        _, states = self._stack(encoder, words, [self.start(root)] * self.layers, backwards=True)
        words = self.embedded(decoder, target, self.vocab, time)
        outputs, _ = self._stack(decoder, words, states)
        projection = root.sub("projection")
        head = Projection.with_weights(projection, self.hidden, self.vocab)
        logits = [head.step(number, output) for number, output in enumerate(outputs)]
        joined = time.together(projection, logits)
        graph.output(joined, "logits", ir.DataType.FLOAT, [*extents, self.vocab])

    def _stack(
        self,
        scope: Scope,
        sequence: list[ir.Value],
        starts: Sequence[State],
        *,
        backwards: bool = False,
    ) -> tuple[list[ir.Value], list[State]]:
        """The outputs of the top layer, and the last state of each layer."""
        states: list[State] = []
        for number, start in enumerate(starts):
            layer = recurrent_layer(
                self.cell, scope.sub(f"layer.{number}"), self.hidden, self.hidden
            )
            sequence, state = unrolled(layer, sequence, start, backwards=backwards)
            states.append(state)
        return sequence, states
