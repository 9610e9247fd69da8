"""Classifiers with loss: the batch's statistics count, and the running ones follow."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from hier_study.training_models import InceptionV3Training, ResNet50Training, classifier_with_loss

from mcm_models.zoo.cnn_families import ResidualCnn
from mcm_models.zoo.image_networks import InceptionV3, ResNet50


@pytest.mark.parametrize("builder", [InceptionV3Training(), ResNet50Training()])
def test_every_normalisation_is_trained(builder):
    model = builder.build()
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    norms = [node for node in model.graph if node.op_type == "BatchNormalization"]
    assert all(node.attributes["training_mode"].value == 1 for node in norms)
    ends = {value.name: value.shape.numpy() for value in model.graph.outputs}
    assert len(ends) == 1 + 2 * len(norms)
    assert ends["loss"] == ()
    for node in norms:
        assert node.outputs[1].name == f"{node.inputs[3].name}.next" in ends
        assert node.outputs[2].name == f"{node.inputs[4].name}.next" in ends


def test_weights_are_those_of_the_network():
    for plain, trained in (
        (InceptionV3(), InceptionV3Training(shape_only=False)),
        (ResNet50(), ResNet50Training(shape_only=False)),
    ):
        assert set(plain.build().graph.initializers) == set(trained.build().graph.initializers)


def test_loss_is_that_of_normalised_batches():
    """A scaled image gives the same loss: the first normalisation undoes it."""
    small = ResidualCnn(image_size=16, stages=2, blocks=1, width=8, classes=5, batch=8)
    model = classifier_with_loss(small)
    first = next(node for node in model.graph if node.op_type == "BatchNormalization")
    before, after = first.inputs[3], first.outputs[1]
    content = ir.to_proto(model).SerializeToString()
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    image = np.random.default_rng(0).standard_normal((8, 3, 16, 16), dtype=np.float32)
    found = []
    for scale in (1, 3):
        feeds = {"input": scale * image, "labels": np.arange(8) % 5}
        loss, mean = session.run(["loss", after.name], feeds)
        found.append((loss, (mean - 0.9 * before.const_value.numpy()) / 0.1))
    (loss, mean), (of_scaled, scaled_mean) = found
    assert 0.1 < loss < 10
    np.testing.assert_allclose(of_scaled, loss, rtol=1e-3)
    np.testing.assert_allclose(scaled_mean, 3 * mean, atol=1e-5)
