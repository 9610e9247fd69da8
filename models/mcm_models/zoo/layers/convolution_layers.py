"""Layers of convolutional networks, and images with their number of channels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import onnx_ir as ir

from mcm_models.graph_builder import Scope, Uniform, after_relu, around

Pair = int | tuple[int, int]
"""An extent for height and width; one number stands for both."""


@dataclass(frozen=True)
class FeatureMaps:
    """A value `[batch, channels, height, width]` and its channels."""

    value: ir.Value
    channels: int


class Window(NamedTuple):
    """Where a kernel is laid on an image.

    Attributes:
        kernel: its extent.
        stride: step, the same in both directions.
        padding: zeros added on each side.
    """

    kernel: Pair
    stride: int = 1
    padding: Pair = 0


def convolution(
    scope: Scope,
    maps: FeatureMaps,
    width: int,
    window: Window | int,
    *,
    groups: int = 1,
    bias: bool = False,
    gain: float = 1.0,
) -> FeatureMaps:
    """`Conv`.

    Args:
        scope: the layer's place.
        maps: what it reads.
        width: channels written.
        window: of the kernel; one number stands for its extent at stride 1 without padding.
        groups: channel groups; as many as channels are read make it depthwise.
        bias: adds a bias per channel.
        gain: factor on the weights; 1 keeps the variance when a ReLU comes before.
    """
    kernel, stride, padding = Window(window) if isinstance(window, int) else window
    kernel_shape, pads = _pair(kernel), _pair(padding)
    group_channels = maps.channels // groups
    fan_in = group_channels * math.prod(kernel_shape)
    extents = [width, group_channels, *kernel_shape]
    inputs = [maps.value, scope.weight("weight", extents, after_relu(fan_in, gain))]
    if bias:
        inputs.append(scope.bias(width))
    image = scope.op(
        "Conv",
        *inputs,
        dilations=[1, 1],
        group=groups,
        kernel_shape=kernel_shape,
        pads=[*pads, *pads],
        strides=[stride, stride],
    )
    return FeatureMaps(image, width)


def batch_norm(scope: Scope, maps: FeatureMaps, epsilon: float = 1e-5) -> FeatureMaps:
    """`BatchNormalization` (Ioffe and Szegedy 2015), kept apart from the convolution before it.

    Torch folds it away in eval mode; here it stays, so that fusion has something to do.
    """

    def parameter(name: str, values: Uniform) -> ir.Value:
        return scope.weight(name, [maps.channels], values)

    image = scope.op(
        "BatchNormalization",
        maps.value,
        parameter("weight", around(1.0, 0.2)),
        parameter("bias", around(0.0, 0.1)),
        parameter("running_mean", around(0.0, 0.1)),
        parameter("running_var", around(1.0, 0.2)),
        epsilon=epsilon,
        momentum=0.9,
    )
    return FeatureMaps(image, maps.channels)


def max_pool(
    scope: Scope, maps: FeatureMaps, kernel: int, stride: int, padding: int = 0
) -> FeatureMaps:
    """`MaxPool` with a square window."""
    image = scope.op(
        "MaxPool",
        maps.value,
        ceil_mode=0,
        kernel_shape=[kernel, kernel],
        pads=[padding] * 4,
        strides=[stride, stride],
    )
    return FeatureMaps(image, maps.channels)


def pooled_classifier(root: Scope, layer: str, maps: FeatureMaps, classes: int) -> ir.Value:
    """Averages each channel and maps the averages to logits `[batch, classes]`.

    Args:
        root: scope of the model.
        layer: path of the linear layer.
        maps: what it reads.
        classes: number of logits.
    """
    pooled = root.sub("avgpool").op("GlobalAveragePool", maps.value)
    flat = root.op("Flatten", pooled, axis=1)
    return linear(root.sub(layer), flat, maps.channels, classes)


def linear(scope: Scope, features: ir.Value, fan_in: int, fan_out: int) -> ir.Value:
    """`Gemm` over `[batch, fan_in]`, with the weight stored `[fan_out, fan_in]` as torch does."""
    weight = scope.weight("weight", [fan_out, fan_in], after_relu(fan_in))
    bias = scope.bias(fan_out)
    return scope.op("Gemm", features, weight, bias, alpha=1.0, beta=1.0, transB=1)


def _pair(extent: Pair) -> tuple[int, int]:
    return (extent, extent) if isinstance(extent, int) else extent


_REDUCTION = 4
"""Channels of the gate's hidden layer are the image's divided by this."""
_LEAST_HIDDEN = 8
_WIDTH_STEP = 8


def stage_widths(width: int, widen: float, stages: int) -> list[int]:
    """Channels of each stage: `width`, then `widen` times as many as before, in steps of 8."""
    factors = (widen**stage for stage in range(1, stages))
    return [width, *(max(1, round(width * f / _WIDTH_STEP)) * _WIDTH_STEP for f in factors)]


def conv_bn(
    scope: Scope,
    maps: FeatureMaps,
    width: int,
    kernel: int = 1,
    *,
    stride: int = 1,
    groups: int = 1,
    gain: float = 1.0,
    names: tuple[str, str] = ("conv", "bn"),
) -> FeatureMaps:
    """Convolution and normalisation; at stride 1 height and width stay the same.

    Args:
        scope: the block's place.
        maps: what it reads.
        width: channels written.
        kernel: extent of the kernel, odd.
        stride: step, the same in both directions.
        groups: channel groups.
        gain: factor on the weights, as in `convolution`.
        names: of the two layers in the block.
    """
    window = Window(kernel, stride, kernel // 2)
    maps = convolution(scope.sub(names[0]), maps, width, window, groups=groups, gain=gain)
    return batch_norm(scope.sub(names[1]), maps)


def relu(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    """`Relu`."""
    return FeatureMaps(scope.op("Relu", maps.value), maps.channels)


def added(scope: Scope, one: FeatureMaps, other: FeatureMaps) -> FeatureMaps:
    """The sum of two of the same channels."""
    return FeatureMaps(scope.op("Add", one.value, other.value), one.channels)


def conv_bn_relu(
    scope: Scope,
    maps: FeatureMaps,
    width: int,
    kernel: int = 1,
    *,
    stride: int = 1,
    groups: int = 1,
    gain: float = 1.0,
) -> FeatureMaps:
    """`conv_bn` with a ReLU behind it."""
    return relu(scope, conv_bn(scope, maps, width, kernel, stride=stride, groups=groups, gain=gain))


def depthwise(scope: Scope, maps: FeatureMaps, kernel: int, stride: int = 1) -> FeatureMaps:
    """A convolution of each channel on its own, with normalisation and ReLU."""
    channels = maps.channels
    return conv_bn_relu(scope, maps, channels, kernel, stride=stride, groups=channels)


def halved(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    """Half the height and width, by the maximum of 2x2 positions."""
    return max_pool(scope, maps, 2, 2)


def concat(scope: Scope, *branches: FeatureMaps) -> FeatureMaps:
    """All channels of all branches."""
    joined = scope.op("Concat", *(branch.value for branch in branches), axis=1)
    return FeatureMaps(joined, sum(branch.channels for branch in branches))


def squeeze_excite(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    """Scales each channel by a gate that sees all of them (Hu et al. 2018, section 3)."""
    channels = maps.channels
    hidden = max(_LEAST_HIDDEN, channels // _REDUCTION)
    gate = FeatureMaps(scope.op("GlobalAveragePool", maps.value), channels)
    gate = relu(scope, convolution(scope.sub("fc1"), gate, hidden, 1, bias=True))
    gate = convolution(scope.sub("fc2"), gate, channels, 1, bias=True)
    return FeatureMaps(scope.op("Mul", maps.value, scope.op("Sigmoid", gate.value)), channels)
