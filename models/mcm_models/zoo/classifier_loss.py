"""Image classifiers as they are trained: with labels, a loss, and statistics of the batch."""

from __future__ import annotations

import onnx_ir as ir

from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.layers.graph_builder import GraphBuilder, declare

_OPSET = 17


def classifier_with_loss(classifier: ImageClassifier) -> ir.Model:
    """The network up to the mean cross-entropy of a batch.

    Normalisations use the statistics of the batch, and give running statistics for the next step.

    Returns:
        A model with inputs `input` `[batch, 3, size, size]` and `labels`, int64 `[batch]`. Outputs
        are `loss`, and for each statistic `<layer>.running_mean` one `<layer>.running_mean.next`.
    """
    graph = GraphBuilder(
        classifier.name,
        opset=_OPSET,
        ir_version=8,
        seed=classifier.seed,
        shape_only=classifier.shape_only,
    )
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
        declare(value, ir.DataType.FLOAT, _extents(before))
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
