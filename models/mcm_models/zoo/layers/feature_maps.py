"""Feature maps that know their channels, and the blocks that most convolutional families share."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from mcm_models.zoo.layers.convolution_layers import Window, batch_norm, convolution, max_pool
from mcm_models.zoo.layers.graph_builder import Scope

_REDUCTION = 4
"""Channels of the gate's hidden layer are the image's divided by this."""
_LEAST_HIDDEN = 8
_WIDTH_STEP = 8


@dataclass(frozen=True)
class FeatureMaps:
    """A value `[batch, channels, height, width]` and its channels."""

    value: ir.Value
    channels: int


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
    """
    image = convolution(
        scope.sub("conv"),
        maps.value,
        maps.channels,
        width,
        Window(kernel, stride, kernel // 2),
        groups=groups,
        gain=gain,
    )
    return FeatureMaps(batch_norm(scope.sub("bn"), image, width), width)


def relu(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    """`Relu`."""
    return FeatureMaps(scope.op("Relu", maps.value), maps.channels)


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
    return FeatureMaps(max_pool(scope, maps.value, 2, 2), maps.channels)


def concat(scope: Scope, *branches: FeatureMaps) -> FeatureMaps:
    """All channels of all branches."""
    joined = scope.op("Concat", *(branch.value for branch in branches), axis=1)
    return FeatureMaps(joined, sum(branch.channels for branch in branches))


def squeeze_excite(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    """Scales each channel by a gate that sees all of them (Hu et al. 2018, section 3)."""
    channels = maps.channels
    hidden = max(_LEAST_HIDDEN, channels // _REDUCTION)
    gate = scope.op("GlobalAveragePool", maps.value)
    gate = convolution(scope.sub("fc1"), gate, channels, hidden, 1, bias=True)
    gate = scope.op("Relu", gate)
    gate = convolution(scope.sub("fc2"), gate, hidden, channels, 1, bias=True)
    return FeatureMaps(scope.op("Mul", maps.value, scope.op("Sigmoid", gate)), channels)
