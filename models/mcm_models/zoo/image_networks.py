"""Image classifiers of published sizes: ResNet-50, VGG-19 and MobileNetV2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.graph_builder import RELU_GAIN, Scope
from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.layers.convolution_layers import (
    FeatureMaps,
    Window,
    added,
    conv_bn,
    convolution,
    halved,
    linear,
    max_pool,
    pooled_classifier,
    relu,
)

_RESNET_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Bottleneck width and number of blocks of each stage (table 1 of the paper)."""
_RESNET_EXPANSION = 4
_RESNET_GAIN = 0.5
"""Keeps sixteen residual branches from doubling the activations' variance sixteen times."""


@dataclass(frozen=True)
class ResNet50(ImageClassifier):
    """Bottleneck blocks with the stride on the 3x3 convolution, as in torchvision (V1.5)."""

    name: ClassVar[str] = "resnet50"
    summary: ClassVar[str] = "ResNet-50, 25.6 M parameters: convolutions with residual adds"

    def layers(self, root: Scope, maps: FeatureMaps) -> ir.Value:
        maps = conv_bn(root, maps, 64, 7, stride=2, names=("conv1", "bn1"))
        maps = max_pool(root.sub("maxpool"), relu(root.sub("relu"), maps), 3, 2, 1)
        for stage, (width, blocks) in enumerate(_RESNET_STAGES):
            for block in range(blocks):
                scope = root.sub(f"layer{stage + 1}.{block}")
                stride = 2 if stage > 0 and block == 0 else 1
                maps = _bottleneck(scope, maps, width, stride)
        return pooled_classifier(root, "fc", maps, self.classes)


def _bottleneck(scope: Scope, maps: FeatureMaps, width: int, stride: int) -> FeatureMaps:
    after, wide = scope.sub("relu"), width * _RESNET_EXPANSION
    branch = relu(after, conv_bn(scope, maps, width, names=("conv1", "bn1")))
    branch = relu(after, conv_bn(scope, branch, width, 3, stride=stride, names=("conv2", "bn2")))
    branch = conv_bn(scope, branch, wide, gain=_RESNET_GAIN, names=("conv3", "bn3"))
    if maps.channels != wide:
        maps = conv_bn(scope.sub("downsample"), maps, wide, stride=stride, names=("0", "1"))
    return relu(after, added(scope, branch, maps))


_VGG_STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))
"""Channels and number of convolutions between two poolings."""
_VGG_SHRINK = 2 ** len(_VGG_STAGES)
_VGG_FEATURES = 4096


@dataclass(frozen=True)
class Vgg19(ImageClassifier):
    """A plain chain: 16 convolutions, 3 linear layers.

    The first linear layer follows the image size; at 224 pixels it reads 7x7 positions and
    torchvision's adaptive pooling is the identity, so it is left out.
    """

    name: ClassVar[str] = "vgg19"
    summary: ClassVar[str] = "VGG-19, 143.7 M parameters: a plain chain with huge linear layers"

    def layers(self, root: Scope, maps: FeatureMaps) -> ir.Value:
        position = 0
        for width, convolutions in _VGG_STAGES:
            for _ in range(convolutions):
                layer = root.sub(f"features.{position}")
                maps = convolution(layer, maps, width, Window(3, padding=1), bias=True)
                maps = relu(root.sub(f"features.{position + 1}"), maps)
                position += 2
            maps = halved(root.sub(f"features.{position}"), maps)
            position += 1

        fan_in = maps.channels * (self.image_size // _VGG_SHRINK) ** 2
        return self._classifier(root, root.op("Flatten", maps.value, axis=1), fan_in)

    def _classifier(self, root: Scope, hidden: ir.Value, fan_in: int) -> ir.Value:
        """Logits from `hidden` `[batch, fan_in]`."""
        for layer in (0, 3):
            scope = root.sub(f"classifier.{layer}")
            hidden = linear(scope, hidden, fan_in, _VGG_FEATURES)
            hidden = root.sub(f"classifier.{layer + 1}").op("Relu", hidden)
            fan_in = _VGG_FEATURES
        return linear(root.sub("classifier.6"), hidden, fan_in, self.classes)


_MOBILE_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, output channels, blocks, and stride of the first block (table 2 of the paper)."""
_STEM_CHANNELS = 32
_HEAD_CHANNELS = 1280
_MOBILE_GAIN = 0.5
"""Keeps ten residual branches from driving the activations into the limit of ReLU6."""
_LINEAR_GAIN = 1.0 / RELU_GAIN
"""For a convolution that reads a bottleneck, where no ReLU took away variance."""


@dataclass(frozen=True)
class MobileNetV2(ImageClassifier):
    """Inverted residuals: expand, depthwise convolution, project without an activation."""

    name: ClassVar[str] = "mobilenet-v2"
    summary: ClassVar[str] = "MobileNetV2, 3.5 M parameters: depthwise convolutions and ReLU6"

    def layers(self, root: Scope, maps: FeatureMaps) -> ir.Value:
        stem = root.sub("features.0")
        maps = _relu6(stem, conv_bn(stem, maps, _STEM_CHANNELS, 3, stride=2, names=("0", "1")))
        position = 1
        for expansion, width, blocks, first_stride in _MOBILE_STAGES:
            for block in range(blocks):
                scope = root.sub(f"features.{position}")
                stride = first_stride if block == 0 else 1
                maps = _inverted_residual(scope, maps, width, expansion, stride)
                position += 1
        maps = _widened(root.sub(f"features.{position}"), maps, _HEAD_CHANNELS)
        return pooled_classifier(root, "classifier.1", maps, self.classes)


def _inverted_residual(
    scope: Scope, maps: FeatureMaps, width: int, expansion: int, stride: int
) -> FeatureMaps:
    layers = scope.sub("conv")
    branch = maps
    position = 0
    if expansion > 1:
        branch = _widened(layers.sub("0"), branch, maps.channels * expansion)
        position = 1
    depthwise, inside = layers.sub(str(position)), branch.channels
    branch = _relu6(
        depthwise,
        conv_bn(depthwise, branch, inside, 3, stride=stride, groups=inside, names=("0", "1")),
    )
    is_residual = stride == 1 and maps.channels == width
    gain = _MOBILE_GAIN if is_residual else 1.0
    names = (str(position + 1), str(position + 2))
    branch = conv_bn(layers, branch, width, gain=gain, names=names)
    return added(scope, maps, branch) if is_residual else branch


def _widened(scope: Scope, maps: FeatureMaps, width: int) -> FeatureMaps:
    return _relu6(scope, conv_bn(scope, maps, width, gain=_LINEAR_GAIN, names=("0", "1")))


def _relu6(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    relu6 = scope.sub("2")
    image = relu6.op("Clip", maps.value, relu6.floats(0.0), relu6.floats(6.0))
    return FeatureMaps(image, maps.channels)
