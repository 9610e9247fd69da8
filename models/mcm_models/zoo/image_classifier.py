"""Options, input and output of all image classifiers, also as they are trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models import graph_builder


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
        logits = self.layers(graph.root, image)
        graph.output(logits, "logits", ir.DataType.FLOAT, [self.batch, self.classes])
        return graph.model()

    @abstractmethod
    def layers(self, root: graph_builder.Scope, image: ir.Value) -> ir.Value:
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


_OPSET = 17


def classifier_with_loss(classifier: ImageClassifier) -> ir.Model:
    """The network up to the mean cross-entropy of a batch.

    Normalisations use the statistics of the batch, and give running statistics for the next step.

    Returns:
        A model with inputs `input` `[batch, 3, size, size]` and `labels`, int64 `[batch]`. Outputs
        are `loss`, and for each statistic `<layer>.running_mean` one `<layer>.running_mean.next`.
    """
    graph = graph_builder.GraphBuilder.of(classifier, _OPSET)
    extents = [classifier.batch, 3, classifier.image_size, classifier.image_size]
    image = graph.input("input", ir.DataType.FLOAT, extents)
    labels = graph.input("labels", ir.DataType.INT64, [classifier.batch])
    logits = classifier.layers(graph.root, image)
    loss = graph.root.sub("loss").op("SoftmaxCrossEntropyLoss", logits, labels, reduction="mean")
    graph.output(loss, "loss", ir.DataType.FLOAT, [])
    model = graph.model()
    for node in list(model.graph):
        if node.op_type == "BatchNormalization":
            _train(model.graph, node)
    return model


def _train(graph: ir.Graph, node: ir.Node) -> None:
    """Puts a normalisation into training mode, in place."""
    attributes = [*node.attributes.values(), ir.AttrInt64("training_mode", 1)]
    # The last two inputs are the running mean and variance, which the last two outputs follow.
    statistics = [value for value in node.inputs[3:] if value is not None]
    new = ir.Node(node.domain, node.op_type, node.inputs, attributes, num_outputs=3, name=node.name)
    result, *after = new.outputs
    result.name = node.outputs[0].name
    for before, value in zip(statistics, after, strict=True):
        value.name = f"{before.name}.next"
        graph_builder.declare(value, ir.DataType.FLOAT, _extents(before))
    ir.convenience.replace_nodes_and_values(
        graph, node, [node], [new], node.outputs, new.outputs[:1]
    )
    graph.outputs.extend(after)


def _extents(weight: ir.Value) -> list[int]:
    """The shape of a weight, which one that is filled has from the op that fills it."""
    if weight.shape is not None:
        return [int(extent) for extent in weight.shape.numpy()]
    fill = weight.producer()
    assert fill is not None
    assert fill.inputs[0] is not None
    wanted = ir.convenience.get_const_tensor(fill.inputs[0])
    assert wanted is not None
    return [int(extent) for extent in wanted.numpy()]
