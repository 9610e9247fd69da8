"""VGG-19 (Simonyan and Zisserman 2015, *Very Deep Convolutional Networks*, configuration E)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.convolution_layers import convolution, linear, max_pool
from mcm_models.zoo.graph_builder import Scope
from mcm_models.zoo.image_classifier import ImageClassifier

_STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))
"""Channels and number of convolutions between two poolings."""
_SHRINK = 2 ** len(_STAGES)
_FEATURES = 4096


@dataclass(frozen=True)
class Vgg19(ImageClassifier):
    """A plain chain: 16 convolutions, 3 linear layers.

    The first linear layer follows the image size; at 224 pixels it reads 7x7 positions and
    torchvision's adaptive pooling is the identity, so it is left out.
    """

    name: ClassVar[str] = "vgg19"
    summary: ClassVar[str] = "VGG-19, 143.7 M parameters: a plain chain with huge linear layers"

    def layers(self, root: Scope, image: ir.Value) -> ir.Value:
        channels = 3
        position = 0
        for width, convolutions in _STAGES:
            for _ in range(convolutions):
                layer = root.sub(f"features.{position}")
                image = convolution(layer, image, channels, width, 3, padding=1, bias=True)
                image = root.sub(f"features.{position + 1}").op("Relu", image)
                channels = width
                position += 2
            image = max_pool(root.sub(f"features.{position}"), image, 2, 2)
            position += 1

        fan_in = channels * (self.image_size // _SHRINK) ** 2
        hidden = root.op("Flatten", image, axis=1)
        for layer in (0, 3):
            scope = root.sub(f"classifier.{layer}")
            hidden = linear(scope, hidden, fan_in, _FEATURES)
            hidden = root.sub(f"classifier.{layer + 1}").op("Relu", hidden)
            fan_in = _FEATURES
        return linear(root.sub("classifier.6"), hidden, fan_in, self.classes)
