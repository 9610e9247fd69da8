"""Densely connected networks (Huang et al. 2017, *Densely Connected Convolutional Networks*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.layers.convolution_layers import (
    Window,
    batch_norm,
    convolution,
    pooled_classifier,
)
from mcm_models.zoo.layers.feature_maps import FeatureMaps, concat, conv_bn_relu, relu
from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.option_checks import require_at_least, require_odd

_BOTTLENECK = 4
"""Channels between the two convolutions of a layer, in growths (DenseNet-B)."""


@dataclass(frozen=True)
class DenseCnn(ImageClassifier):
    """Dense blocks, in which each layer reads the outputs of all layers before it.

    Normalisation and ReLU come before each convolution; a transition between blocks halves
    channels and image (DenseNet-BC).

    Attributes:
        stages: dense blocks.
        blocks: layers of each dense block.
        growth: channels that a layer adds.
        kernel: extent of the kernels, odd.
    """

    name: ClassVar[str] = "dense-cnn"
    summary: ClassVar[str] = "densely connected network: long dependencies within each stage"
    smallest_image: ClassVar[int] = 8

    image_size: int = 32
    stages: int = 3
    blocks: int = 6
    growth: int = 64
    kernel: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(1, stages=self.stages, blocks=self.blocks, growth=self.growth)
        require_at_least(2 ** (self.stages - 1), image_size=self.image_size)
        require_odd(kernel=self.kernel)

    def layers(self, root: Scope, image: ir.Value) -> ir.Value:
        maps = conv_bn_relu(root.sub("stem"), FeatureMaps(image, 3), 2 * self.growth, self.kernel)
        for stage in range(self.stages):
            if stage > 0:
                maps = _transition(root.sub(f"transition.{stage}"), maps)
            before = [maps]
            for block in range(self.blocks):
                before.append(self._layer(root.sub(f"block.{stage}.{block}"), before))
            maps = concat(root.sub(f"block.{stage}"), *before)
        maps = _normalised(root.sub("norm"), maps)
        return pooled_classifier(root, "fc", maps.value, maps.channels, self.classes)

    def _layer(self, scope: Scope, before: list[FeatureMaps]) -> FeatureMaps:
        maps = concat(scope, *before) if len(before) > 1 else before[0]
        maps = _normalised(scope.sub("0"), maps)
        maps = _conv(scope.sub("0"), maps, _BOTTLENECK * self.growth, 1)
        return _conv(scope.sub("1"), _normalised(scope.sub("1"), maps), self.growth, self.kernel)


def _normalised(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    return relu(
        scope, FeatureMaps(batch_norm(scope.sub("bn"), maps.value, maps.channels), maps.channels)
    )


def _conv(scope: Scope, maps: FeatureMaps, width: int, kernel: int) -> FeatureMaps:
    image = convolution(
        scope.sub("conv"), maps.value, maps.channels, width, Window(kernel, padding=kernel // 2)
    )
    return FeatureMaps(image, width)


def _transition(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    maps = _conv(scope, _normalised(scope, maps), maps.channels // 2, 1)
    averaged = scope.op(
        "AveragePool",
        maps.value,
        ceil_mode=0,
        kernel_shape=[2, 2],
        pads=[0, 0, 0, 0],
        strides=[2, 2],
    )
    return FeatureMaps(averaged, maps.channels)
