"""Unrolled translation up to its loss: the graphs of the hierarchical planner's paper."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.layers.attention_steps import NormalisedAttention
from mcm_models.zoo.layers.graph_builder import GraphBuilder
from mcm_models.zoo.layers.lstm_cells import TimeAxis
from mcm_models.zoo.layers.option_checks import require_at_least
from mcm_models.zoo.layers.sequence_loss import SequenceLoss
from mcm_models.zoo.nmt import Nmt

_FAR = 1e9
"""What scores of padding are lowered by."""


@dataclass(frozen=True)
class NmtTraining(Nmt):
    """Translation with loss in the size of Mirhoseini et al. 2018.

    *A Hierarchical Model for Device Placement*: LSTMs of width 1024, batches of 64, 32,000 words,
    2, 4 or 8 layers. The paper does not give the number of unrolled steps; the default is the one
    whose training steps have the paper's numbers of ops. Other attributes are those of `Nmt`.

    Attributes:
        chunk: steps whose logits are made at once.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str] = "nmt-training"
    summary: ClassVar[str] = "unrolled translation with loss, of any size, shapes only"

    steps: int = 50
    hidden: int = 1024
    vocab: int = 32_000
    batch: int = 64
    shape_only: bool = True
    chunk: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(1, chunk=self.chunk)

    def build(self) -> ir.Model:
        """Makes the model; its output is `loss`, the weighted mean over words.

        Inputs are `source_ids`, `target_ids` and `labels`, int64 `[batch, steps]`, and
        `source_weights` and `word_weights`, float `[batch, steps]`, 1 for words and 0 where a
        sentence has ended.
        """
        graph = GraphBuilder(
            self.name, opset=17, ir_version=8, seed=self.seed, shape_only=self.shape_only
        )
        extents = [self.batch, self.steps]
        source = graph.input("source_ids", ir.DataType.INT64, extents)
        source_weights = graph.input("source_weights", ir.DataType.FLOAT, extents)
        target = graph.input("target_ids", ir.DataType.INT64, extents)
        labels = graph.input("labels", ir.DataType.INT64, extents)
        word_weights = graph.input("word_weights", ir.DataType.FLOAT, extents)
        time = TimeAxis.of(graph)
        mask = graph.root.sub("decoder.attention.padding")
        padding = mask.op("Sub", source_weights, mask.floats(1.0))
        padding = mask.op("Mul", padding, mask.floats(_FAR))
        attend = partial(NormalisedAttention.over, padding=padding)
        outputs = self._translate(graph.root, source, target, time, attend)
        projection = graph.root.sub("projection")
        loss = SequenceLoss.with_weights(projection, self.hidden, self.vocab, self.chunk)
        graph.output(loss.mean(outputs, labels, word_weights), "loss", ir.DataType.FLOAT, [])
        return graph.model()
