"""Options, input and output of all image classifiers, also as they are trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models import graph_builder
from mcm_models.zoo.layers.convolution_layers import FeatureMaps


@dataclass(frozen=True)
class ImageClassifier(ABC):
    """A network from images to logits; the softmax is left to whoever reads them.

    Attributes:
        batch: images per inference.
        image_size: height and width in pixels.
        classes: number of logits.
        seed: seed of the random weights.
        shape_only: leave out the weights' values.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    smallest_image: ClassVar[int] = 32
    """Pixels below which the last feature map would be empty."""

    batch: int = 1
    image_size: int = 224
    classes: int = 1000
    seed: int = 0
    shape_only: bool = False

    def __post_init__(self) -> None:
        graph_builder.require_sizes(self)
        graph_builder.require_at_least(self.smallest_image, self, "image_size")

    def build(self) -> ir.Model:
        """Makes the model: `input` `[batch, 3, size, size]` to `logits` `[batch, classes]`."""
        graph = graph_builder.GraphBuilder.of(self, 13)
        extents = [self.batch, 3, self.image_size, self.image_size]
        image = graph.input("input", ir.DataType.FLOAT, extents)
        logits = self.layers(graph.root, FeatureMaps(image, 3))
        graph.output(logits, "logits", ir.DataType.FLOAT, [self.batch, self.classes])
        return graph.model()

    @abstractmethod
    def layers(self, root: graph_builder.Scope, maps: FeatureMaps) -> ir.Value:
        """Builds the network and returns its logits."""


@dataclass(frozen=True)
class WideningCnn(ImageClassifier):
    """A network of stages; the channels grow where the image is halved.

    Attributes:
        stages: number of image sizes.
        blocks: blocks of each stage.
        width: channels of the first stage.
        widen: by how much the channels of a stage exceed those of the one before; 2 keeps the work
            of all full convolutions equal.
        kernel: extent of the kernels, odd.
    """

    smallest_image: ClassVar[int] = 8

    image_size: int = 64
    stages: int = 4
    blocks: int = 4
    width: int = 64
    widen: float = 2.0
    kernel: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        graph_builder.require_at_least(2 ** (self.stages - 1), self, "image_size")
        graph_builder.require_factor(self, "widen")
        graph_builder.require_odd(self, "kernel")
