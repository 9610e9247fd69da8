"""Convolutional networks of any size: plain, residual, separable, branched, dense, ensembles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import onnx_ir as ir

from mcm_models.graph_builder import RELU_GAIN, Scope, require_at_least, require_odd
from mcm_models.zoo.image_classifier import ImageClassifier, WideningCnn
from mcm_models.zoo.layers.convolution_layers import (
    FeatureMaps,
    Window,
    added,
    batch_norm,
    concat,
    conv_bn,
    conv_bn_relu,
    convolution,
    depthwise,
    halved,
    max_pool,
    pooled_classifier,
    relu,
    squeeze_excite,
    stage_widths,
)


@dataclass(frozen=True)
class PlainCnn(WideningCnn):
    """Stages of equal convolutions, a block each; the channels grow where the image is halved."""

    name: ClassVar[str] = "plain-cnn"
    summary: ClassVar[str] = "plain chain of convolutions like VGG, of any depth and width"

    def layers(self, root: Scope, maps: FeatureMaps) -> ir.Value:
        for stage, width in enumerate(stage_widths(self.width, self.widen, self.stages)):
            scope = root.sub(f"stage.{stage}")
            if stage > 0:
                maps = halved(scope.sub("pool"), maps)
            for block in range(self.blocks):
                layer = scope.sub(f"block.{block}")
                maps = conv_bn_relu(layer, maps, width, self.kernel)
        return pooled_classifier(root, "fc", maps, self.classes)


_EXPANSION = 4
_BRANCH_GAIN = 0.5
"""Keeps many residual branches from doubling the activations' variance each."""


@dataclass(frozen=True)
class ResidualCnn(WideningCnn):
    """Stages of residual blocks; the channels grow where the image is halved.

    A bottleneck block writes four times as many channels as `width` and `widen` say.

    Attributes:
        block: `basic` has two such convolutions, `bottleneck` one between two of 1x1.
        groups: channel groups of a bottleneck's convolution (Xie et al. 2017, *Aggregated
            Residual Transformations*).
        gated: each branch ends in a squeeze-and-excitation gate (Hu et al. 2018).
    """

    name: ClassVar[str] = "residual-cnn"
    summary: ClassVar[str] = "residual network of any depth and width, also grouped or gated"
    blocks: int = 3
    block: Literal["basic", "bottleneck"] = "basic"
    groups: int = 1
    gated: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for width in self._widths:
            if width % self.groups:
                raise ValueError(f"a width of {width} is not a multiple of groups={self.groups}")
        if self.groups > 1 and self.block == "basic":
            raise ValueError(f"groups={self.groups} needs block=bottleneck")

    @property
    def _widths(self) -> list[int]:
        return stage_widths(self.width, self.widen, self.stages)

    def layers(self, root: Scope, maps: FeatureMaps) -> ir.Value:
        maps = conv_bn_relu(root.sub("stem"), maps, self.width, self.kernel)
        for stage, width in enumerate(self._widths):
            for block in range(self.blocks):
                scope = root.sub(f"layer{stage + 1}.{block}")
                stride = 2 if stage > 0 and block == 0 else 1
                maps = self._block(scope, maps, width, stride)
        return pooled_classifier(root, "fc", maps, self.classes)

    def _block(self, scope: Scope, maps: FeatureMaps, width: int, stride: int) -> FeatureMaps:
        branch = maps
        if self.block == "basic":
            branch = conv_bn_relu(scope.sub("0"), branch, width, self.kernel, stride=stride)
            branch = conv_bn(scope.sub("1"), branch, width, self.kernel, gain=_BRANCH_GAIN)
        else:
            branch = conv_bn_relu(scope.sub("0"), branch, width)
            branch = conv_bn_relu(
                scope.sub("1"), branch, width, self.kernel, stride=stride, groups=self.groups
            )
            branch = conv_bn(scope.sub("2"), branch, width * _EXPANSION, gain=_BRANCH_GAIN)
        if self.gated:
            branch = squeeze_excite(scope.sub("gate"), branch)
        if stride > 1 or maps.channels != branch.channels:
            maps = conv_bn(scope.sub("shortcut"), maps, branch.channels, stride=stride)
        return relu(scope, added(scope, branch, maps))


@dataclass(frozen=True)
class SeparableCnn(WideningCnn):
    """Stages of depthwise convolutions with 1x1 convolutions between them.

    With a `widen` of 2 the work of the 1x1 convolutions stays equal, with 4 that of the depthwise
    ones, whose extent `kernel` is.

    Attributes:
        expansion: 1 makes depthwise and 1x1 convolutions alternate (MobileNet); more makes
            inverted residuals with this many times the channels inside (Sandler et al. 2018).
        gated: a squeeze-and-excitation gate behind each depthwise convolution (MobileNetV3).
    """

    name: ClassVar[str] = "separable-cnn"
    summary: ClassVar[str] = "depthwise separable convolutions or inverted residuals"
    expansion: int = 1
    gated: bool = False

    def layers(self, root: Scope, maps: FeatureMaps) -> ir.Value:
        maps = conv_bn_relu(root.sub("stem"), maps, self.width, 3)
        for stage, width in enumerate(stage_widths(self.width, self.widen, self.stages)):
            for block in range(self.blocks):
                scope = root.sub(f"stage.{stage}.{block}")
                stride = 2 if stage > 0 and block == 0 else 1
                make = self._separable if self.expansion == 1 else self._inverted_residual
                maps = make(scope, maps, width, stride)
        return pooled_classifier(root, "fc", maps, self.classes)

    def _spatial(self, scope: Scope, maps: FeatureMaps, stride: int) -> FeatureMaps:
        maps = depthwise(scope.sub("depthwise"), maps, self.kernel, stride)
        return squeeze_excite(scope.sub("gate"), maps) if self.gated else maps

    def _separable(self, scope: Scope, maps: FeatureMaps, width: int, stride: int) -> FeatureMaps:
        return conv_bn_relu(scope.sub("pointwise"), self._spatial(scope, maps, stride), width)

    def _inverted_residual(
        self, scope: Scope, maps: FeatureMaps, width: int, stride: int
    ) -> FeatureMaps:
        # The input had no ReLU that took away variance.
        inside = maps.channels * self.expansion
        branch = conv_bn_relu(scope.sub("expand"), maps, inside, gain=1.0 / RELU_GAIN)
        branch = self._spatial(scope, branch, stride)
        is_residual = stride == 1 and maps.channels == width
        gain = _BRANCH_GAIN if is_residual else 1.0
        branch = conv_bn(scope.sub("project"), branch, width, gain=gain)
        return added(scope, maps, branch) if is_residual else branch


@dataclass(frozen=True)
class BranchedCnn(ImageClassifier):
    """Stages of modules; branch `b` of a module has `b` convolutions behind one of 1x1.

    The branches differ in depth, so that a cut through a module is a choice. One more branch
    pools its input.

    Attributes:
        stages: number of image sizes.
        blocks: modules of each stage.
        branches: branches of convolutions.
        width: channels of each branch in the first stage, doubled with each stage.
        kernel: extent of the kernels, odd.
    """

    name: ClassVar[str] = "branched-cnn"
    summary: ClassVar[str] = "modules of uneven parallel branches like Inception's"
    smallest_image: ClassVar[int] = 8

    image_size: int = 32
    stages: int = 3
    blocks: int = 2
    branches: int = 3
    width: int = 64
    kernel: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(2 ** (self.stages - 1), self, "image_size")
        require_odd(self, "kernel")

    def layers(self, root: Scope, maps: FeatureMaps) -> ir.Value:
        maps = conv_bn_relu(root.sub("stem"), maps, self.width, self.kernel)
        for stage in range(self.stages):
            if stage > 0:
                maps = halved(root.sub(f"pool.{stage}"), maps)
            for block in range(self.blocks):
                maps = self._module(root.sub(f"mixed.{stage}.{block}"), maps, self.width << stage)
        return pooled_classifier(root, "fc", maps, self.classes)

    def _module(self, scope: Scope, maps: FeatureMaps, width: int) -> FeatureMaps:
        outputs: list[FeatureMaps] = []
        for branch in range(self.branches):
            layer = scope.sub(f"branch.{branch}")
            output = conv_bn_relu(layer.sub("0"), maps, width)
            for depth in range(branch):
                output = conv_bn_relu(layer.sub(f"{depth + 1}"), output, width, self.kernel)
            outputs.append(output)
        pooled = scope.sub("pooled")
        outputs.append(conv_bn_relu(pooled, max_pool(pooled, maps, 3, 1, 1), width))
        return concat(scope, *outputs)


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
        require_at_least(2 ** (self.stages - 1), self, "image_size")
        require_odd(self, "kernel")

    def layers(self, root: Scope, maps: FeatureMaps) -> ir.Value:
        maps = conv_bn_relu(root.sub("stem"), maps, 2 * self.growth, self.kernel)
        for stage in range(self.stages):
            if stage > 0:
                maps = _transition(root.sub(f"transition.{stage}"), maps)
            before = [maps]
            for block in range(self.blocks):
                before.append(self._layer(root.sub(f"block.{stage}.{block}"), before))
            maps = concat(root.sub(f"block.{stage}"), *before)
        maps = _normalised(root.sub("norm"), maps)
        return pooled_classifier(root, "fc", maps, self.classes)

    def _layer(self, scope: Scope, before: list[FeatureMaps]) -> FeatureMaps:
        maps = concat(scope, *before) if len(before) > 1 else before[0]
        maps = _normalised(scope.sub("0"), maps)
        maps = _conv(scope.sub("0"), maps, _BOTTLENECK * self.growth, 1)
        return _conv(scope.sub("1"), _normalised(scope.sub("1"), maps), self.growth, self.kernel)


def _normalised(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    return relu(scope, batch_norm(scope.sub("bn"), maps))


def _conv(scope: Scope, maps: FeatureMaps, width: int, kernel: int) -> FeatureMaps:
    return convolution(scope.sub("conv"), maps, width, Window(kernel, padding=kernel // 2))


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


@dataclass(frozen=True)
class EnsembleCnn(ImageClassifier):
    """Members read the same image and meet only at the end; their kernels alternate.

    Attributes:
        members: networks side by side.
        stages: number of image sizes.
        blocks: convolutions of each stage of each member.
        width: channels of the first stage, doubled with each stage.
        kernel: extent of the kernels of even members, odd; those of odd members are 2 larger.
    """

    name: ClassVar[str] = "ensemble-cnn"
    summary: ClassVar[str] = "several networks in parallel whose logits are averaged"
    smallest_image: ClassVar[int] = 8

    image_size: int = 32
    members: int = 3
    stages: int = 3
    blocks: int = 3
    width: int = 64
    kernel: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(2, self, "members")
        require_at_least(2 ** (self.stages - 1), self, "image_size")
        require_odd(self, "kernel")

    def layers(self, root: Scope, maps: FeatureMaps) -> ir.Value:
        logits = [
            self._member(root.sub(f"member.{number}"), maps, self.kernel + 2 * (number % 2))
            for number in range(self.members)
        ]
        return root.sub("average").op("Mean", *logits)

    def _member(self, scope: Scope, maps: FeatureMaps, kernel: int) -> ir.Value:
        for stage in range(self.stages):
            if stage > 0:
                maps = halved(scope.sub(f"pool.{stage}"), maps)
            for block in range(self.blocks):
                layer = scope.sub(f"block.{stage}.{block}")
                maps = conv_bn_relu(layer, maps, self.width << stage, kernel)
        return pooled_classifier(scope, "fc", maps, self.classes)
