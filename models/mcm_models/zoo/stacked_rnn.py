"""Sequence classifiers of stacked recurrent layers (Graves et al. 2013, *Speech recognition*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import GraphBuilder
from mcm_models.zoo.layers.lstm_cells import TimeAxis
from mcm_models.zoo.layers.option_checks import require_at_least
from mcm_models.zoo.layers.recurrent_layers import recurrent_layer, unrolled
from mcm_models.zoo.layers.recurrent_network import Projection, RecurrentNetwork


@dataclass(frozen=True)
class StackedRnn(RecurrentNetwork):
    """From feature vectors, such as those of sound, to the class of the whole sequence.

    The head reads the mean of the top layer's outputs.

    Attributes:
        features: size of each input vector.
        classes: number of logits.
        residual: layers from the second on add their input to their output (Wu et al. 2016,
            section 3.1).
    """

    name: ClassVar[str] = "stacked-rnn"
    summary: ClassVar[str] = "sequence classifier of stacked LSTM or GRU layers, unrolled"

    features: int = 128
    classes: int = 100
    residual: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(1, features=self.features, classes=self.classes)

    def connect(self, graph: GraphBuilder, time: TimeAxis) -> None:
        """`features` `[batch, steps, features]` to `logits` `[batch, classes]`."""
        root = graph.root
        extents = [self.batch, self.steps, self.features]
        sequence = time.apart(root, graph.input("features", ir.DataType.FLOAT, extents), self.steps)
        start = self.start(root)
        width = self.features
        for number in range(self.layers):
            scope = root.sub(f"layer.{number}")
            layer = recurrent_layer(self.cell, scope, width, self.hidden)
            outputs, _ = unrolled(layer, sequence, start)
            if self.residual and number > 0:
                pairs = zip(outputs, sequence, strict=True)
                outputs = [scope.op("Add", output, read) for output, read in pairs]
            sequence, width = outputs, self.hidden
        head = Projection.with_weights(root.sub("head"), self.hidden, self.classes)
        logits = head.step(0, root.sub("average").op("Mean", *sequence))
        graph.output(logits, "logits", ir.DataType.FLOAT, [self.batch, self.classes])
