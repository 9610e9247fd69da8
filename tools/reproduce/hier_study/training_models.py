"""Models with a loss, in the sizes of Mirhoseini et al. 2018, *A Hierarchical Model*."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import onnx_ir as ir

from mcm_models import graph_builder
from mcm_models.graph_builder import GraphBuilder, Scope, around, keeps_variance, spread
from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.image_networks import InceptionV3, ResNet50
from mcm_models.zoo.layers.convolution_layers import FeatureMaps
from mcm_models.zoo.layers.recurrent_layers import SequenceLoss, TimeAxis
from mcm_models.zoo.nmt import Nmt

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
    logits = classifier.layers(graph.root, FeatureMaps(image, 3))
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


@dataclass(frozen=True)
class InceptionV3Training(InceptionV3):
    """Inception-v3 up to the loss of a batch, in the size of Mirhoseini et al. 2018."""

    name: ClassVar[str] = "inception-v3-training"
    summary: ClassVar[str] = "Inception-v3 with labels and loss, shapes only"

    batch: int = 32
    shape_only: bool = True

    def build(self) -> ir.Model:
        """Makes the model: `input` and `labels` to `loss`; see `classifier_with_loss`."""
        return classifier_with_loss(self)


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


@dataclass(frozen=True)
class NormalisedAttention:
    """Additive attention (Bahdanau et al. 2015) with its score vector normalised.

    The vector is `g v / |v|` (Salimans and Kingma 2016, *Weight Normalization*, equation 2), made
    again in each step as public translation systems do. Padding of the source gets no share.

    Attributes:
        scope: where its weights are.
        memory: `[batch, steps, hidden]`, what the encoder found.
        keys: `[batch, steps, hidden]`, the same in the space of comparison.
        padding: `[batch, steps]`, 0 for words and far below zero for padding.
        query_weight: `[hidden, hidden]`.
        bias: `[hidden]`, of the comparison.
        direction: `[hidden]`, v.
        length: `[1]`, g.
        last: the constant that numbers the last axis.
        time: the axis of time.
    """

    scope: Scope
    memory: ir.Value
    keys: ir.Value
    padding: ir.Value
    query_weight: ir.Value
    bias: ir.Value
    direction: ir.Value
    length: ir.Value
    last: ir.Value
    time: TimeAxis

    @classmethod
    def over(
        cls, scope: Scope, memory: ir.Value, hidden: int, time: TimeAxis, *, padding: ir.Value
    ) -> NormalisedAttention:
        square = keeps_variance(hidden)
        key_weight = scope.weight("key.weight", [hidden, hidden], square)
        return cls(
            scope=scope,
            memory=memory,
            keys=scope.sub("key").op("MatMul", memory, key_weight),
            padding=padding,
            query_weight=scope.weight("query.weight", [hidden, hidden], square),
            bias=scope.bias(hidden, "score.bias"),
            direction=scope.weight("score.direction", [hidden], spread(1.0)),
            length=scope.weight("score.length", [1], around(1.0, 0.1)),
            last=scope.ints(-1),
            time=time,
        )

    def context(self, step: int, query: ir.Value) -> ir.Value:
        """Content of the memory for a query, `[batch, hidden]` both: 17 ops."""
        scope = self.scope.sub(f"step.{step}")
        query = scope.op("Add", scope.op("MatMul", query, self.query_weight), self.bias)
        query = scope.op("Unsqueeze", query, self.time.axis)
        matches = scope.op("Tanh", scope.op("Add", self.keys, query))
        squares = scope.op("Mul", self.direction, self.direction)
        norm = scope.op("Sqrt", scope.op("ReduceSum", squares, self.last, keepdims=1))
        vector = scope.op("Mul", self.direction, scope.op("Div", self.length, norm))
        weighed = scope.op("Mul", matches, vector)
        scores = scope.op("ReduceSum", weighed, self.last, keepdims=0)
        shares = scope.op("Softmax", scope.op("Add", scores, self.padding), axis=1)
        shares = scope.op("Unsqueeze", shares, self.last)
        found = scope.op("Mul", shares, self.memory)
        return scope.op("ReduceSum", found, self.time.axis, keepdims=0)


_FAR = 1e9
"""Amount that lowers the scores of padding."""


@dataclass(frozen=True)
class NmtTraining(Nmt):
    """Translation with loss in the size of Mirhoseini et al. 2018.

    *A Hierarchical Model for Device Placement*: LSTMs of width 1024, batches of 64, 32,000 words,
    2, 4 or 8 layers. The paper does not give the number of unrolled steps; the default is the one
    whose training steps have the paper's numbers of ops. Other attributes are those of `Nmt`.

    Attributes:
        chunk: steps whose logits are made at once.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str] = "nmt-training"
    summary: ClassVar[str] = "unrolled translation with loss, of any size, shapes only"

    steps: int = 50
    hidden: int = 1024
    vocab: int = 32_000
    batch: int = 64
    shape_only: bool = True
    chunk: int = 8

    def build(self) -> ir.Model:
        """Makes the model; its output is `loss`, the weighted mean over words.

        Inputs are `source_ids`, `target_ids` and `labels`, int64 `[batch, steps]`, and
        `source_weights` and `word_weights`, float `[batch, steps]`, 1 for words and 0 where a
        sentence has ended.
        """
        graph = GraphBuilder.of(self, 17)
        extents = [self.batch, self.steps]
        source = graph.input("source_ids", ir.DataType.INT64, extents)
        source_weights = graph.input("source_weights", ir.DataType.FLOAT, extents)
        target = graph.input("target_ids", ir.DataType.INT64, extents)
        labels = graph.input("labels", ir.DataType.INT64, extents)
        word_weights = graph.input("word_weights", ir.DataType.FLOAT, extents)
        time = TimeAxis.of(graph)
        mask = graph.root.sub("decoder.attention.padding")
        padding = mask.op("Sub", source_weights, mask.floats(1.0))
        padding = mask.op("Mul", padding, mask.floats(_FAR))
        attend = partial(NormalisedAttention.over, padding=padding)
        outputs = self._translate(graph.root, source, target, time, attend)
        projection = graph.root.sub("projection")
        loss = SequenceLoss.with_weights(projection, self.hidden, self.vocab, self.chunk)
        graph.output(loss.mean(outputs, labels, word_weights), "loss", ir.DataType.FLOAT, [])
        return graph.model()
