"""Image classifiers of published sizes: ResNet-50, VGG-19, MobileNetV2 and Inception-v3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.graph_builder import RELU_GAIN, Scope
from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.layers.convolution_layers import (
    FeatureMaps,
    Pair,
    Window,
    added,
    batch_norm,
    concat,
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


_INCEPTION_EPSILON = 1e-3


@dataclass(frozen=True)
class InceptionV3(ImageClassifier):
    """Szegedy et al. 2016, *Rethinking the Inception Architecture*, without the auxiliary head.

    Blocks of parallel branches, as torchvision builds them.
    """

    name: ClassVar[str] = "inception-v3"
    summary: ClassVar[str] = "Inception-v3, 23.8 M parameters: many short parallel branches"
    smallest_image: ClassVar[int] = 75

    image_size: int = 299

    def layers(self, root: Scope, maps: FeatureMaps) -> ir.Value:
        maps = _stem(root, maps)
        for name, pool_width in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
            maps = _block_a(root.sub(name), maps, pool_width)
        maps = _block_b(root.sub("Mixed_6a"), maps)
        for name, width in (
            ("Mixed_6b", 128),
            ("Mixed_6c", 160),
            ("Mixed_6d", 160),
            ("Mixed_6e", 192),
        ):
            maps = _block_c(root.sub(name), maps, width)
        maps = _block_d(root.sub("Mixed_7a"), maps)
        for name in ("Mixed_7b", "Mixed_7c"):
            maps = _block_e(root.sub(name), maps)
        return pooled_classifier(root, "fc", maps, self.classes)


def _conv(
    scope: Scope, maps: FeatureMaps, width: int, kernel: Pair, *, stride: int = 1, padding: Pair = 0
) -> FeatureMaps:
    """Convolution, normalisation and ReLU: `BasicConv2d`."""
    maps = convolution(scope.sub("conv"), maps, width, Window(kernel, stride, padding))
    return relu(scope, batch_norm(scope.sub("bn"), maps, _INCEPTION_EPSILON))


def _row(scope: Scope, maps: FeatureMaps, width: int, extent: int) -> FeatureMaps:
    return _conv(scope, maps, width, (1, extent), padding=(0, extent // 2))


def _column(scope: Scope, maps: FeatureMaps, width: int, extent: int) -> FeatureMaps:
    return _conv(scope, maps, width, (extent, 1), padding=(extent // 2, 0))


def _reduce(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    return max_pool(scope, maps, 3, 2)


def _pooled(scope: Scope, maps: FeatureMaps, width: int) -> FeatureMaps:
    average = scope.op(
        "AveragePool",
        maps.value,
        ceil_mode=0,
        count_include_pad=1,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        strides=[1, 1],
    )
    return _conv(scope.sub("branch_pool"), FeatureMaps(average, maps.channels), width, 1)


def _stem(root: Scope, maps: FeatureMaps) -> FeatureMaps:
    maps = _conv(root.sub("Conv2d_1a_3x3"), maps, 32, 3, stride=2)
    maps = _conv(root.sub("Conv2d_2a_3x3"), maps, 32, 3)
    maps = _conv(root.sub("Conv2d_2b_3x3"), maps, 64, 3, padding=1)
    maps = _reduce(root.sub("maxpool1"), maps)
    maps = _conv(root.sub("Conv2d_3b_1x1"), maps, 80, 1)
    maps = _conv(root.sub("Conv2d_4a_3x3"), maps, 192, 3)
    return _reduce(root.sub("maxpool2"), maps)


def _block_a(scope: Scope, maps: FeatureMaps, pool_width: int) -> FeatureMaps:
    single = _conv(scope.sub("branch1x1"), maps, 64, 1)
    five = _conv(scope.sub("branch5x5_1"), maps, 48, 1)
    five = _conv(scope.sub("branch5x5_2"), five, 64, 5, padding=2)
    double = _conv(scope.sub("branch3x3dbl_1"), maps, 64, 1)
    double = _conv(scope.sub("branch3x3dbl_2"), double, 96, 3, padding=1)
    double = _conv(scope.sub("branch3x3dbl_3"), double, 96, 3, padding=1)
    return concat(scope, single, five, double, _pooled(scope, maps, pool_width))


def _block_b(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    three = _conv(scope.sub("branch3x3"), maps, 384, 3, stride=2)
    double = _conv(scope.sub("branch3x3dbl_1"), maps, 64, 1)
    double = _conv(scope.sub("branch3x3dbl_2"), double, 96, 3, padding=1)
    double = _conv(scope.sub("branch3x3dbl_3"), double, 96, 3, stride=2)
    return concat(scope, three, double, _reduce(scope, maps))


def _block_c(scope: Scope, maps: FeatureMaps, width: int) -> FeatureMaps:
    single = _conv(scope.sub("branch1x1"), maps, 192, 1)
    seven = _conv(scope.sub("branch7x7_1"), maps, width, 1)
    seven = _row(scope.sub("branch7x7_2"), seven, width, 7)
    seven = _column(scope.sub("branch7x7_3"), seven, 192, 7)
    double = _conv(scope.sub("branch7x7dbl_1"), maps, width, 1)
    double = _column(scope.sub("branch7x7dbl_2"), double, width, 7)
    double = _row(scope.sub("branch7x7dbl_3"), double, width, 7)
    double = _column(scope.sub("branch7x7dbl_4"), double, width, 7)
    double = _row(scope.sub("branch7x7dbl_5"), double, 192, 7)
    return concat(scope, single, seven, double, _pooled(scope, maps, 192))


def _block_d(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    three = _conv(scope.sub("branch3x3_1"), maps, 192, 1)
    three = _conv(scope.sub("branch3x3_2"), three, 320, 3, stride=2)
    seven = _conv(scope.sub("branch7x7x3_1"), maps, 192, 1)
    seven = _row(scope.sub("branch7x7x3_2"), seven, 192, 7)
    seven = _column(scope.sub("branch7x7x3_3"), seven, 192, 7)
    seven = _conv(scope.sub("branch7x7x3_4"), seven, 192, 3, stride=2)
    return concat(scope, three, seven, _reduce(scope, maps))


def _block_e(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    single = _conv(scope.sub("branch1x1"), maps, 320, 1)
    three = _conv(scope.sub("branch3x3_1"), maps, 384, 1)
    three = concat(
        scope,
        _row(scope.sub("branch3x3_2a"), three, 384, 3),
        _column(scope.sub("branch3x3_2b"), three, 384, 3),
    )
    double = _conv(scope.sub("branch3x3dbl_1"), maps, 448, 1)
    double = _conv(scope.sub("branch3x3dbl_2"), double, 384, 3, padding=1)
    double = concat(
        scope,
        _row(scope.sub("branch3x3dbl_3a"), double, 384, 3),
        _column(scope.sub("branch3x3dbl_3b"), double, 384, 3),
    )
    return concat(scope, single, three, double, _pooled(scope, maps, 192))
