"""MobileNetV2 (Sandler et al. 2018, *Inverted Residuals and Linear Bottlenecks*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.layers import convolution_layers
from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.weights import RELU_GAIN

_STAGES = (
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
_BRANCH_GAIN = 0.5
"""Keeps ten residual branches from driving the activations into the limit of ReLU6."""
_LINEAR_GAIN = 1.0 / RELU_GAIN
"""For a convolution that reads a bottleneck, where no ReLU took away variance."""


@dataclass(frozen=True)
class MobileNetV2(ImageClassifier):
    """Inverted residuals: expand, depthwise convolution, project without an activation."""

    name: ClassVar[str] = "mobilenet-v2"
    summary: ClassVar[str] = "MobileNetV2, 3.5 M parameters: depthwise convolutions and ReLU6"

    def layers(self, root: Scope, image: ir.Value) -> ir.Value:
        image = _activated(root.sub("features.0"), image, 3, _STEM_CHANNELS, kernel=3, stride=2)
        channels = _STEM_CHANNELS
        position = 1
        for expansion, width, blocks, first_stride in _STAGES:
            for block in range(blocks):
                scope = root.sub(f"features.{position}")
                stride = first_stride if block == 0 else 1
                image = _inverted_residual(
                    scope, image, channels, width, expansion=expansion, stride=stride
                )
                channels = width
                position += 1
        head = root.sub(f"features.{position}")
        image = _activated(head, image, channels, _HEAD_CHANNELS, gain=_LINEAR_GAIN)
        return convolution_layers.pooled_classifier(
            root, "classifier.1", image, _HEAD_CHANNELS, self.classes
        )


def _inverted_residual(
    scope: Scope, image: ir.Value, channels: int, width: int, *, expansion: int, stride: int
) -> ir.Value:
    layers = scope.sub("conv")
    expanded = channels * expansion
    branch = image
    position = 0
    if expansion > 1:
        branch = _activated(layers.sub("0"), branch, channels, expanded, gain=_LINEAR_GAIN)
        position = 1
    depthwise = layers.sub(str(position))
    branch = _activated(
        depthwise, branch, expanded, expanded, kernel=3, stride=stride, depthwise=True
    )
    project = layers.sub(str(position + 1))
    is_residual = stride == 1 and channels == width
    gain = _BRANCH_GAIN if is_residual else 1.0
    branch = convolution_layers.convolution(project, branch, expanded, width, 1, gain=gain)
    branch = convolution_layers.batch_norm(layers.sub(str(position + 2)), branch, width)
    return scope.op("Add", image, branch) if is_residual else branch


def _activated(
    scope: Scope,
    image: ir.Value,
    channels: int,
    width: int,
    *,
    kernel: int = 1,
    stride: int = 1,
    depthwise: bool = False,
    gain: float = 1.0,
) -> ir.Value:
    image = convolution_layers.convolution(
        scope.sub("0"),
        image,
        channels,
        width,
        convolution_layers.Window(kernel, stride, kernel // 2),
        groups=channels if depthwise else 1,
        gain=gain,
    )
    image = convolution_layers.batch_norm(scope.sub("1"), image, width)
    relu6 = scope.sub("2")
    return relu6.op("Clip", image, relu6.floats(0.0), relu6.floats(6.0))
