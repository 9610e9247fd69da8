"""U-Net (Ronneberger et al. 2015, *Convolutional Networks for Biomedical Image Segmentation*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models import graph_builder
from mcm_models.zoo.layers.convolution_layers import (
    FeatureMaps,
    concat,
    conv_bn_relu,
    convolution,
    halved,
)


@dataclass(frozen=True)
class UnetCnn:
    """A contracting and an expanding path, with a skip connection at each image size.

    Attributes:
        stages: number of image sizes, at least 2.
        blocks: convolutions of each stage of each path.
        width: channels at the full size, doubled with each halving.
        kernel: extent of the kernels, odd.
        batch: images per inference.
        image_size: height and width in pixels, a multiple of `2^(stages - 1)`.
        classes: classes of pixels.
        seed: seed of the random weights.
        shape_only: leave out the weights' values.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str] = "unet-cnn"
    summary: ClassVar[str] = "U-Net: segmentation with skip connections across the whole network"

    stages: int = 4
    blocks: int = 2
    width: int = 64
    kernel: int = 3
    batch: int = 1
    image_size: int = 64
    classes: int = 2
    seed: int = 0
    shape_only: bool = False

    def __post_init__(self) -> None:
        graph_builder.require_at_least(2, self, "stages")
        graph_builder.require_sizes(self)
        graph_builder.require_odd(self, "kernel")
        shrink = 2 ** (self.stages - 1)
        graph_builder.require_at_least(shrink, self, "image_size")
        if self.image_size % shrink:
            raise ValueError(f"image_size={self.image_size} is not a multiple of {shrink}")

    def build(self) -> ir.Model:
        """Makes the model: `input` `[batch, 3, size, size]` to `logits`, one per class and pixel.

        `logits` is `[batch, classes, size, size]`.
        """
        graph = graph_builder.GraphBuilder.of(self, 13)
        extents = [self.image_size, self.image_size]
        root = graph.root
        maps = FeatureMaps(graph.input("input", ir.DataType.FLOAT, [self.batch, 3, *extents]), 3)
        skips: list[FeatureMaps] = []
        for stage in range(self.stages):
            scope = root.sub(f"down.{stage}")
            if stage > 0:
                maps = halved(scope.sub("pool"), maps)
            maps = self._convolutions(scope, maps, self.width << stage)
            skips.append(maps)
        for stage in reversed(range(self.stages - 1)):
            scope = root.sub(f"up.{stage}")
            maps = _doubled(scope.sub("double"), maps)
            maps = concat(scope, skips[stage], maps)
            maps = self._convolutions(scope, maps, self.width << stage)
        logits = convolution(root.sub("head"), maps, self.classes, 1, bias=True).value
        graph.output(logits, "logits", ir.DataType.FLOAT, [self.batch, self.classes, *extents])
        return graph.model()

    def _convolutions(
        self, scope: graph_builder.Scope, maps: FeatureMaps, width: int
    ) -> FeatureMaps:
        for block in range(self.blocks):
            maps = conv_bn_relu(scope.sub(f"block.{block}"), maps, width, self.kernel)
        return maps


def _doubled(scope: graph_builder.Scope, maps: FeatureMaps) -> FeatureMaps:
    """Twice the height and width, half the channels, by a transposed convolution."""
    width = max(1, maps.channels // 2)
    # Kernel and stride are equal, so that each output position has one term per input channel.
    weight = scope.weight(
        "weight", [maps.channels, width, 2, 2], graph_builder.after_relu(maps.channels)
    )
    bias = scope.bias(width)
    doubled = scope.op(
        "ConvTranspose",
        maps.value,
        weight,
        bias,
        dilations=[1, 1],
        group=1,
        kernel_shape=[2, 2],
        pads=[0, 0, 0, 0],
        strides=[2, 2],
    )
    return FeatureMaps(doubled, width)
