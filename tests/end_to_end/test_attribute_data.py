"""Data that ops hold in attributes take memory and time on chips, as weights do."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from mcm_compiler import CompileOptions
from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.diagnostics import CompileError
from tests.generators.tight_models import package

MIB = 1 << 20
ENTRIES = 40_000


def model_of(node, x, y):
    value = helper.make_tensor_value_info
    graph = helper.make_graph([node], "data", [value("x", *x)], [value("y", *y)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def trees():
    """One complete tree."""
    nodes, inner = 2**15 - 1, 2**14 - 1
    whole = {
        "nodes_treeids": [0] * nodes,
        "nodes_nodeids": list(range(nodes)),
        "nodes_featureids": [0] * nodes,
        "nodes_values": [float(k) for k in range(nodes)],
        "nodes_modes": ["BRANCH_LEQ" if k < inner else "LEAF" for k in range(nodes)],
        "nodes_truenodeids": [2 * k + 1 if k < inner else 0 for k in range(nodes)],
        "nodes_falsenodeids": [2 * k + 2 if k < inner else 0 for k in range(nodes)],
        "target_treeids": [0] * (nodes - inner),
        "target_nodeids": list(range(inner, nodes)),
        "target_ids": [0] * (nodes - inner),
        "target_weights": [1.0] * (nodes - inner),
    }
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], "op", domain="ai.onnx.ml", n_targets=1, **whole
    )
    return model_of(node, (TensorProto.FLOAT, [4, 1]), (TensorProto.FLOAT, [4, 1]))


def vectors():
    rng = np.random.default_rng(0)
    node = helper.make_node(
        "SVMRegressor", ["x"], ["y"], "op", domain="ai.onnx.ml", kernel_type="RBF",
        kernel_params=[0.1, 0.0, 3.0], n_supports=ENTRIES // 16, rho=[0.0],
        coefficients=rng.standard_normal(ENTRIES // 16).tolist(),
        support_vectors=rng.standard_normal(ENTRIES).tolist(),
    )  # fmt: skip
    return model_of(node, (TensorProto.FLOAT, [4, 16]), (TensorProto.FLOAT, [4, 1]))


def labels():
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], "op", domain="ai.onnx.ml",
        keys_strings=[f"word {k}" for k in range(ENTRIES)], values_int64s=list(range(ENTRIES)),
    )  # fmt: skip
    return model_of(node, (TensorProto.STRING, [4]), (TensorProto.INT64, [4]))


def vocabulary():
    node = helper.make_node(
        "TfIdfVectorizer", ["x"], ["y"], "op", mode="TF", min_gram_length=1, max_gram_length=1,
        max_skip_count=0, ngram_counts=[0], ngram_indexes=list(range(ENTRIES)),
        pool_int64s=list(range(ENTRIES)),
    )  # fmt: skip
    return model_of(node, (TensorProto.INT64, [4]), (TensorProto.FLOAT, [ENTRIES]))


def bytes_in_attributes(model, integer_bytes, float_bytes):
    """Written again from the ONNX standard: texts count as UTF-8."""
    total = 0
    for attribute in ir.to_proto(model).graph.node[0].attribute:
        total += integer_bytes * len(attribute.ints) + float_bytes * len(attribute.floats)
        total += sum(map(len, attribute.strings))
    return total


@pytest.mark.parametrize("build", [trees, vectors, labels, vocabulary])
def test_their_bytes_are_planned_and_reported(build, tmp_path):
    model, target = build(), package(4, 64)
    options = CompileOptions(level=1, replicas=1, inferences=8)
    result = compile_model(model, target, options, output=tmp_path / "out")
    (chip,) = result.program.chips
    planned = sum(b.size_bytes for b in chip.buffers if b.kind == "weight")
    stored = bytes_in_attributes(model, integer_bytes=4, float_bytes=2)
    # Each attribute has a buffer of its own, aligned to 64 bytes.
    assert stored <= planned <= stored + 12 * 64
    whole = bytes_in_attributes(model, integer_bytes=8, float_bytes=4)
    assert result.report["model"]["weight_bytes"] == whole
    assert all(step.holds for step in check_folder(tmp_path / "out").steps)


@pytest.mark.parametrize("build", [trees, vectors, labels, vocabulary])
def test_a_chip_that_cannot_hold_them_is_refused(build):
    model = build()
    stored = bytes_in_attributes(model, integer_bytes=4, float_bytes=2)
    target = package(stored * 0.9 / MIB, 64)
    with pytest.raises(CompileError) as caught:
        compile_model(model, target, CompileOptions(level=0, replicas=1, inferences=8))
    assert caught.value.diagnostics[0].code == "MCM-P003"


@pytest.mark.parametrize(("build", "whole"), [(trees, False), (labels, False), (vectors, True)])
def test_tables_that_are_looked_up_are_not_read_whole(build, whole):
    """Each row visits one path of a tree and one entry of an encoder, and all vectors."""
    model, target = build(), package(4, 64)
    options = CompileOptions(level=0, replicas=1, inferences=8)
    seconds = compile_model(model, target, options).problem.compute_s.sum()
    at_least = bytes_in_attributes(model, integer_bytes=4, float_bytes=2) / 256e9
    assert (seconds > at_least) == whole
