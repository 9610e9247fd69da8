"""VGG-19 (Simonyan and Zisserman 2015, *Very Deep Convolutional Networks*, configuration E)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.layers.convolution_layers import Window, convolution, linear, max_pool
from mcm_models.zoo.layers.cross_entropy import cross_entropy
from mcm_models.zoo.layers.graph_builder import GraphBuilder, Scope
from mcm_models.zoo.layers.weights import RELU_GAIN, around, keeps_variance

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
                image = convolution(layer, image, channels, width, Window(3, padding=1), bias=True)
                image = root.sub(f"features.{position + 1}").op("Relu", image)
                channels = width
                position += 2
            image = max_pool(root.sub(f"features.{position}"), image, 2, 2)
            position += 1

        fan_in = channels * (self.image_size // _SHRINK) ** 2
        return self._classifier(root, root.op("Flatten", image, axis=1), fan_in)

    def _classifier(self, root: Scope, hidden: ir.Value, fan_in: int) -> ir.Value:
        """Logits from `hidden` `[batch, fan_in]`."""
        for layer in (0, 3):
            scope = root.sub(f"classifier.{layer}")
            hidden = linear(scope, hidden, fan_in, _FEATURES)
            hidden = root.sub(f"classifier.{layer + 1}").op("Relu", hidden)
            fan_in = _FEATURES
        return linear(root.sub("classifier.6"), hidden, fan_in, self.classes)


@dataclass(frozen=True)
class Vgg19Training(Vgg19):
    """VGG-19 up to the loss of a batch, a workload of Wang et al. 2020 (*Auto-MAP*).

    Linear layers are named as in the paper, and their kernels stored `[fan_in, fan_out]` as there.
    """

    name: ClassVar[str] = "vgg19-training"
    summary: ClassVar[str] = "VGG-19 with labels and loss, 143.7 M parameters"

    batch: int = 64

    def build(self) -> ir.Model:
        """Makes the model; its output is `loss`, the mean over images times `loss_scale`.

        Inputs with a batch dimension are `input` `[batch, 3, size, size]` and `labels`, int64
        `[batch]`; those without are `class_weights` `[classes]` and the scalar `loss_scale` (of
        mixed-precision training: Micikevicius et al. 2018, section 3.2).
        """
        graph = GraphBuilder(
            self.name, opset=13, ir_version=8, seed=self.seed, shape_only=self.shape_only
        )
        extents = [self.batch, 3, self.image_size, self.image_size]
        image = graph.input("input", ir.DataType.FLOAT, extents)
        labels = graph.input("labels", ir.DataType.INT64, [self.batch])
        class_weights = graph.input("class_weights", ir.DataType.FLOAT, [self.classes])
        scale = graph.input("loss_scale", ir.DataType.FLOAT, [])

        logits = self.layers(graph.root, image)
        scope = graph.root.sub("loss")
        losses = cross_entropy(scope, logits, labels, self.classes, class_weights)
        loss = scope.op("Mul", scope.op("ReduceMean", losses, axes=[0], keepdims=0), scale)
        graph.output(loss, "loss", ir.DataType.FLOAT, [])
        return graph.model()

    def _classifier(self, root: Scope, hidden: ir.Value, fan_in: int) -> ir.Value:
        for name, width in (("fc1", _FEATURES), ("fc2", _FEATURES), ("predictions", self.classes)):
            scope = root.sub(name)
            kernel = scope.weight("kernel", [fan_in, width], keeps_variance(fan_in, RELU_GAIN))
            hidden = scope.op("MatMul", hidden, kernel)
            hidden = scope.op("Add", hidden, scope.weight("bias", [width], around(0.0, 0.1)))
            if name != "predictions":
                hidden = scope.op("Relu", hidden)
            fan_in = width
        return hidden
