"""Text recognition: convolutions, then recurrent layers along the width (Shi et al. 2017, CRNN)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.layers.feature_maps import FeatureMaps, conv_bn_relu, halved
from mcm_models.zoo.layers.graph_builder import GraphBuilder, Scope
from mcm_models.zoo.layers.lstm_cells import TimeAxis
from mcm_models.zoo.layers.option_checks import require_at_least, require_odd
from mcm_models.zoo.layers.recurrent_network import Projection, RecurrentNetwork


@dataclass(frozen=True)
class ConvRnn(RecurrentNetwork):
    """From the image of a line of text to a character, or none, for each of its columns.

    The image's width is `steps` columns of `2^stages` pixels.

    Attributes:
        stages: stages of convolutions, each of which halves the image.
        blocks: convolutions of each stage.
        width: channels of the first stage, doubled with each stage.
        kernel: extent of the kernels, odd.
        height: height of the image in pixels.
        classes: number of characters.
    """

    name: ClassVar[str] = "conv-rnn"
    summary: ClassVar[str] = "convolutions with bidirectional LSTM or GRU layers behind them"

    layers: int = 1
    stages: int = 3
    blocks: int = 2
    width: int = 64
    kernel: int = 3
    height: int = 32
    classes: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(
            1, stages=self.stages, blocks=self.blocks, width=self.width, classes=self.classes
        )
        require_at_least(2**self.stages, height=self.height)
        require_odd(kernel=self.kernel)

    def connect(self, graph: GraphBuilder, time: TimeAxis) -> None:
        """`input` `[batch, 3, height, columns]` to `logits` `[batch, steps, classes]`."""
        root = graph.root
        extents = [self.batch, 3, self.height, self.steps << self.stages]
        maps = self._columns(root, graph.input("input", ir.DataType.FLOAT, extents))
        sequence = time.apart(root, maps.value, self.steps)
        sequence = self.read_both_ways(root, sequence, maps.channels)
        characters = root.sub("characters")
        head = Projection.with_weights(characters, 2 * self.hidden, self.classes)
        logits = [head.step(number, both) for number, both in enumerate(sequence)]
        joined = time.together(characters, logits)
        graph.output(joined, "logits", ir.DataType.FLOAT, [self.batch, self.steps, self.classes])

    def _columns(self, root: Scope, image: ir.Value) -> FeatureMaps:
        """Features `[batch, steps, channels]` of the columns."""
        maps = FeatureMaps(image, 3)
        for stage in range(self.stages):
            scope = root.sub(f"stage.{stage}")
            for block in range(self.blocks):
                layer = scope.sub(f"block.{block}")
                maps = conv_bn_relu(layer, maps, self.width << stage, self.kernel)
            maps = halved(scope.sub("pool"), maps)
        columns = root.op("ReduceMean", maps.value, axes=[2], keepdims=0)
        return FeatureMaps(root.op("Transpose", columns, perm=[0, 2, 1]), maps.channels)
