"""The convolutional and recurrent families: what their options do."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

from mcm_models.zoo.cnn_families import (
    BranchedCnn,
    DenseCnn,
    EnsembleCnn,
    PlainCnn,
    ResidualCnn,
    SeparableCnn,
)
from mcm_models.zoo.rnn_families import BidirectionalRnn, EncoderDecoderRnn, StackedRnn
from mcm_models.zoo.unet_cnn import UnetCnn

CNN = {"image_size": 16, "stages": 2, "blocks": 2, "width": 8, "classes": 5}
DENSE = {"image_size": 16, "stages": 2, "blocks": 3, "growth": 8, "classes": 5}
RNN = {"layers": 2, "steps": 3, "hidden": 16}


def _kinds(builder):
    return Counter(node.op_type for node in builder.build().graph)


def _inputs_of(builder, op_type):
    return [len(node.inputs) for node in builder.build().graph if node.op_type == op_type]


@pytest.mark.parametrize(
    ("builder", "convolutions"),
    [
        (PlainCnn(**CNN | {"stages": 3, "blocks": 5}), 3 * 5),
        (ResidualCnn(**CNN), 1 + 2 * 2 * 2 + 1),
        (ResidualCnn(**CNN, block="bottleneck"), 1 + 2 * 2 * 3 + 2),
        (ResidualCnn(**CNN, gated=True), 1 + 2 * 2 * 4 + 1),
        (DenseCnn(**DENSE), 1 + 2 * 3 * 2 + 1),
        (BranchedCnn(**CNN, branches=3), 1 + 2 * 2 * (1 + 2 + 3 + 1)),
        (SeparableCnn(**CNN), 1 + 2 * 2 * 2),
        (SeparableCnn(**CNN, expansion=2), 1 + 2 * 2 * 3),
        (UnetCnn(**CNN | {"stages": 3}), 3 * 2 + 2 * 2 + 1),
        (EnsembleCnn(**CNN, members=3), 3 * 2 * 2),
    ],
)
def test_every_block_has_its_convolutions(builder, convolutions):
    assert _kinds(builder)["Conv"] == convolutions


@pytest.mark.parametrize("family", [PlainCnn, ResidualCnn, SeparableCnn])
@pytest.mark.parametrize(
    ("widen", "widths"), [(1.0, [24, 24, 24]), (1.25, [24, 32, 40]), (3.0, [24, 72, 216])]
)
def test_stages_widen(family, widen, widths):
    builder = family(**CNN | {"stages": 3, "blocks": 1, "width": 24}, widen=widen)
    shapes = {
        name: value.shape.numpy() for name, value in builder.build().graph.initializers.items()
    }
    written = [s[0] for name, s in shapes.items() if name.endswith("conv.weight") and len(s) == 4]
    assert sorted(set(written)) == sorted(set(widths))
    assert shapes["fc.weight"] == (CNN["classes"], widths[-1])


def test_residual_blocks_add_and_only_gated_ones_scale():
    assert _kinds(ResidualCnn(**CNN))["Add"] == 2 * 2
    assert _kinds(ResidualCnn(**CNN))["Mul"] == 0
    assert _kinds(ResidualCnn(**CNN, gated=True))["Mul"] == 2 * 2


def test_a_dense_layer_reads_all_before_it():
    assert _inputs_of(DenseCnn(**DENSE), "Concat") == [2, 3, 4] * 2


def test_a_module_joins_its_branches():
    assert _inputs_of(BranchedCnn(**CNN, branches=4), "Concat") == [5] * 4


def test_depthwise_convolutions_have_a_group_per_channel():
    graph = SeparableCnn(**CNN, kernel=5).build().graph
    groups = [node.attributes["group"].value for node in graph if node.op_type == "Conv"]
    assert groups == [1, 8, 1, 8, 1, 8, 1, 16, 1]


def test_the_gates_of_a_grouped_bottleneck_have_no_groups():
    graph = ResidualCnn(**CNN, block="bottleneck", groups=4, gated=True).build().graph
    groups = Counter(node.attributes["group"].value for node in graph if node.op_type == "Conv")
    assert groups[4] == 2 * 2
    assert set(groups) == {1, 4}


def test_an_expanding_stage_reads_the_contracting_one_of_its_size():
    graph = UnetCnn(**CNN | {"stages": 3}).build().graph
    skips = [node.inputs[0].producer().name for node in graph if node.op_type == "Concat"]
    assert skips == ["/down.1/block.1/Relu", "/down.0/block.1/Relu"]


def _ancestors(value, stop):
    found, ahead = set(), [value]
    while ahead:
        node = ahead.pop().producer()
        if node is not None and node.name not in found and node.op_type not in stop:
            found.add(node.name)
            ahead += [value for value in node.inputs if value is not None]
    return found


def test_members_of_an_ensemble_share_nothing_but_the_image():
    graph = EnsembleCnn(**CNN, members=3).build().graph
    (average,) = [node for node in graph if node.op_type == "Mean"]
    parts = [_ancestors(value, {"Constant"}) for value in average.inputs]
    assert len(parts) == 3
    assert sum(map(len, parts)) == len(set().union(*parts)) == len(list(graph)) - 1


@pytest.mark.parametrize(("cell", "products", "ops"), [("lstm", 1, 13), ("gru", 2, 16)])
def test_every_cell_has_its_ops(cell, products, ops):
    short = StackedRnn(**RNN, cell=cell)
    long = dataclasses.replace(short, steps=short.steps + 5)
    grown = _kinds(long) - _kinds(short)
    assert grown["MatMul"] == products * 2 * 5
    # A step takes its input apart with one more Squeeze.
    assert grown.total() == ops * 2 * 5 + 5


def _graph_of_gru(weights, steps, features, hidden):
    """ONNX's own operator with the weights of `layer.0`."""
    stacked = [
        weights["input.weight"].T[None],
        weights["state.weight"].T[None],
        np.concatenate([weights["input.bias"], weights["state.bias"]])[None],
    ]
    constants = [
        ir.Value(name=f"w{i}", const_value=ir.tensor(np.ascontiguousarray(array)))
        for i, array in enumerate(stacked)
    ]
    read = ir.Value(
        name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([steps, 2, features])
    )
    node = ir.node(
        "GRU", [read, *constants], {"hidden_size": hidden, "linear_before_reset": 1}, name="gru"
    )
    (output,) = node.outputs
    output.name, output.type = "y", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph(
        [read],
        [output],
        nodes=[node],
        initializers=constants,
        opset_imports={"": 14},
        name="reference",
    )
    return ir.Model(graph, ir_version=8)


def test_gru_cells_compute_what_the_operator_does(run):
    steps, features, hidden = 4, 6, 8
    builder = StackedRnn("gru", layers=1, steps=steps, hidden=hidden, batch=2, features=features)
    model = builder.build()
    weights = {name: value.const_value.numpy() for name, value in model.graph.initializers.items()}
    sequence = np.random.default_rng(0).standard_normal((2, steps, features), dtype=np.float32)
    layer = {
        name.removeprefix("layer.0."): array
        for name, array in weights.items()
        if name.startswith("layer.0.")
    }
    (outputs,) = run(
        _graph_of_gru(layer, steps, features, hidden), {"x": sequence.transpose(1, 0, 2).copy()}
    )
    expected = outputs[:, 0].mean(axis=0) @ weights["head.weight"] + weights["head.bias"]
    (logits,) = run(model, {"features": sequence})
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_the_decoder_starts_where_the_encoder_ends():
    graph = EncoderDecoderRnn(**RNN, vocab=50).build().graph
    firsts = [
        node
        for node in graph
        if node.op_type == "Concat" and node.name.startswith("/decoder") and "step.0/" in node.name
    ]
    assert len(firsts) == RNN["layers"]
    # The source is read backwards, so that its last step is number 0.
    for number, node in enumerate(firsts):
        assert node.inputs[1].producer().name.startswith(f"/encoder/layer.{number}/step.0/")


def test_a_bidirectional_layer_reads_from_both_ends():
    graph = BidirectionalRnn(**RNN | {"layers": 1}, vocab=50).build().graph
    order = [
        node.name.split("/")[2:4]
        for node in graph
        if node.op_type == "Split" and node.name.startswith("/layer.0")
    ]
    assert order == [
        *(["forward", f"step.{number}"] for number in (0, 1, 2)),
        *(["backward", f"step.{number}"] for number in (2, 1, 0)),
    ]
