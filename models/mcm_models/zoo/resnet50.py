"""ResNet-50 (He et al. 2016, *Deep Residual Learning for Image Recognition*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.classifier_loss import classifier_with_loss
from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.layers.convolution_layers import (
    Window,
    batch_norm,
    convolution,
    max_pool,
    pooled_classifier,
)
from mcm_models.zoo.layers.graph_builder import Scope

_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Bottleneck width and number of blocks of each stage (table 1 of the paper)."""
_EXPANSION = 4
_BRANCH_GAIN = 0.5
"""Keeps sixteen residual branches from doubling the activations' variance sixteen times."""


@dataclass(frozen=True)
class ResNet50(ImageClassifier):
    """Bottleneck blocks with the stride on the 3x3 convolution, as in torchvision (V1.5)."""

    name: ClassVar[str] = "resnet50"
    summary: ClassVar[str] = "ResNet-50, 25.6 M parameters: convolutions with residual adds"

    def layers(self, root: Scope, image: ir.Value) -> ir.Value:
        image = convolution(root.sub("conv1"), image, 3, 64, Window(7, stride=2, padding=3))
        image = batch_norm(root.sub("bn1"), image, 64)
        image = root.sub("relu").op("Relu", image)
        image = max_pool(root.sub("maxpool"), image, 3, 2, 1)
        channels = 64
        for stage, (width, blocks) in enumerate(_STAGES):
            for block in range(blocks):
                scope = root.sub(f"layer{stage + 1}.{block}")
                stride = 2 if stage > 0 and block == 0 else 1
                image = _bottleneck(scope, image, channels, width, stride)
                channels = width * _EXPANSION
        return pooled_classifier(root, "fc", image, channels, self.classes)


@dataclass(frozen=True)
class ResNet50Training(ResNet50):
    """ResNet-50 up to the loss of a batch, in the size of Mirhoseini et al. 2018."""

    name: ClassVar[str] = "resnet50-training"
    summary: ClassVar[str] = "ResNet-50 with labels and loss, shapes only"

    batch: int = 128
    shape_only: bool = True

    def build(self) -> ir.Model:
        """Makes the model: `input` and `labels` to `loss`; see `classifier_with_loss`."""
        return classifier_with_loss(self)


def _bottleneck(scope: Scope, image: ir.Value, channels: int, width: int, stride: int) -> ir.Value:
    relu = scope.sub("relu")
    branch = convolution(scope.sub("conv1"), image, channels, width, 1)
    branch = relu.op("Relu", batch_norm(scope.sub("bn1"), branch, width))
    branch = convolution(scope.sub("conv2"), branch, width, width, Window(3, stride, padding=1))
    branch = relu.op("Relu", batch_norm(scope.sub("bn2"), branch, width))
    wide = width * _EXPANSION
    branch = convolution(scope.sub("conv3"), branch, width, wide, 1, gain=_BRANCH_GAIN)
    branch = batch_norm(scope.sub("bn3"), branch, wide)
    if channels != wide:
        shortcut = scope.sub("downsample")
        image = convolution(shortcut.sub("0"), image, channels, wide, Window(1, stride))
        image = batch_norm(shortcut.sub("1"), image, wide)
    return relu.op("Relu", scope.op("Add", branch, image))
