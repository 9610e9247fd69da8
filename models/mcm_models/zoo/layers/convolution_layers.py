"""Layers of the image classifiers, with the attributes that torch's exporter writes."""

from __future__ import annotations

import math
from typing import NamedTuple

import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.weights import Uniform, after_relu, around

Pair = int | tuple[int, int]
"""An extent for height and width; one number stands for both."""


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
    image: ir.Value,
    in_channels: int,
    out_channels: int,
    window: Window | int,
    *,
    groups: int = 1,
    bias: bool = False,
    gain: float = 1.0,
) -> ir.Value:
    """`Conv` over `image` `[batch, in_channels, height, width]`.

    Args:
        scope: the layer's place.
        image: what it reads.
        in_channels: channels read.
        out_channels: channels written.
        window: of the kernel; one number stands for its extent at stride 1 without padding.
        groups: channel groups; `in_channels` of them make it depthwise.
        bias: adds a bias per channel.
        gain: factor on the weights; 1 keeps the variance when a ReLU comes before.
    """
    kernel, stride, padding = Window(window) if isinstance(window, int) else window
    kernel_shape, pads = _pair(kernel), _pair(padding)
    group_channels = in_channels // groups
    fan_in = group_channels * math.prod(kernel_shape)
    extents = [out_channels, group_channels, *kernel_shape]
    inputs = [image, scope.weight("weight", extents, after_relu(fan_in, gain))]
    if bias:
        inputs.append(scope.weight("bias", [out_channels], around(0.0, 0.1)))
    return scope.op(
        "Conv",
        *inputs,
        dilations=[1, 1],
        group=groups,
        kernel_shape=kernel_shape,
        pads=[*pads, *pads],
        strides=[stride, stride],
    )


def batch_norm(scope: Scope, image: ir.Value, channels: int, epsilon: float = 1e-5) -> ir.Value:
    """`BatchNormalization` (Ioffe and Szegedy 2015), kept apart from the convolution before it.

    Torch folds it away in eval mode; here it stays, so that fusion has something to do.
    """

    def parameter(name: str, values: Uniform) -> ir.Value:
        return scope.weight(name, [channels], values)

    return scope.op(
        "BatchNormalization",
        image,
        parameter("weight", around(1.0, 0.2)),
        parameter("bias", around(0.0, 0.1)),
        parameter("running_mean", around(0.0, 0.1)),
        parameter("running_var", around(1.0, 0.2)),
        epsilon=epsilon,
        momentum=0.9,
    )


def max_pool(scope: Scope, image: ir.Value, kernel: int, stride: int, padding: int = 0) -> ir.Value:
    """`MaxPool` with a square window."""
    return scope.op(
        "MaxPool",
        image,
        ceil_mode=0,
        kernel_shape=[kernel, kernel],
        pads=[padding] * 4,
        strides=[stride, stride],
    )


def pooled_classifier(
    root: Scope, layer: str, image: ir.Value, channels: int, classes: int
) -> ir.Value:
    """Averages each channel and maps the averages to logits `[batch, classes]`.

    Args:
        root: scope of the model.
        layer: path of the linear layer.
        image: `[batch, channels, height, width]`.
        channels: channels of `image`.
        classes: number of logits.
    """
    pooled = root.sub("avgpool").op("GlobalAveragePool", image)
    flat = root.op("Flatten", pooled, axis=1)
    return linear(root.sub(layer), flat, channels, classes)


def linear(scope: Scope, features: ir.Value, fan_in: int, fan_out: int) -> ir.Value:
    """`Gemm` over `[batch, fan_in]`, with the weight stored `[fan_out, fan_in]` as torch does."""
    weight = scope.weight("weight", [fan_out, fan_in], after_relu(fan_in))
    bias = scope.weight("bias", [fan_out], around(0.0, 0.1))
    return scope.op("Gemm", features, weight, bias, alpha=1.0, beta=1.0, transB=1)


def _pair(extent: Pair) -> tuple[int, int]:
    return (extent, extent) if isinstance(extent, int) else extent
