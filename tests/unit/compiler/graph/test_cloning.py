"""Copies of models, and what graphs weigh that nothing is known about."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from onnx_ir._metadata import MetadataStore

from mcm_compiler.graph.annotations import AnnotationKey
from mcm_compiler.graph.constants import attribute_data
from mcm_compiler.graph.map_types import load_model, model_from_proto, model_to_proto
from mcm_compiler.ir.reading.copying import clone
from mcm_compiler.ir.reading.importer import import_onnx

NOTE: AnnotationKey[str] = AnnotationKey("test_cloning.note", on="node")
OPS = 40


@pytest.fixture(autouse=True)
def _others_are_not_counted() -> Iterator[None]:
    """What other tests hold takes a second to look through."""
    gc.freeze()
    yield
    gc.unfreeze()


def stores() -> int:
    gc.collect()
    return sum(type(one) is MetadataStore for one in gc.get_objects())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A chain of ops with weights, and a branch at its end."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("x", "y")]
    weights = [helper.make_tensor(f"w{k}", TensorProto.FLOAT, [2], [k, 1.0]) for k in range(OPS)]
    nodes = [
        helper.make_node("Add", [f"v{k - 1}" if k else "x", f"w{k}"], [f"v{k}"], name=f"n{k}")
        for k in range(OPS)
    ]
    inner = helper.make_graph(
        [helper.make_node("Relu", [f"v{OPS - 1}"], ["r"], name="inner")],
        "body",
        [],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, [2])],
    )
    weights.append(helper.make_tensor("always", TensorProto.BOOL, [], [True]))
    nodes.append(
        helper.make_node("If", ["always"], ["y"], then_branch=inner, else_branch=inner, name="if")
    )
    graph = helper.make_graph(nodes, "chain", values[:1], values[1:], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_copies_are_equal_keep_facts_and_give_ops_no_empty_stores(path: Path):
    before = stores()
    model = load_model(path)
    NOTE.set(model.graph[3], "known")
    text = model_to_proto(model).SerializeToString(deterministic=True)
    copy = clone(model)
    assert model_to_proto(copy).SerializeToString(deterministic=True) == text
    assert model_to_proto(model).SerializeToString(deterministic=True) == text
    assert NOTE.find(copy.graph[3]) == NOTE.find(model.graph[3]) == "known"
    assert stores() - before < OPS / 2


def test_asking_for_facts_and_writing_a_graph_leave_it_as_light_as_it_was(path: Path):
    model = load_model(path)
    before = stores()
    for node in model.graph:
        assert NOTE.find(node) is None
        assert attribute_data(node) == ()
    assert not NOTE.present(model)
    NOTE.drop(model)
    model_to_proto(model)
    assert stores() - before < OPS / 2


def test_an_import_holds_no_empty_stores(path: Path):
    before = stores()
    model = import_onnx(path)
    assert stores() - before < OPS / 2
    del model


def test_copies_of_rare_ops_are_equal_too():
    text = """<ir_version: 9, opset_import: ["" : 17, "local" : 1]>
    g (float[4] x, float low, seq(float[4]) s) => (float[4] y, float[4] z)
    <float[4] w = {1, 2, 3, 4}> {
        [clip] c = Clip (x, , low)
        [drop] d, unread = Dropout (c)
        [call] e = local.f <a = 2.0> (d)
        [pick] p = SequenceAt (s, i)
        [i] i = Constant <value_int = 0> ()
        y = Add (e, w)
        z = Mul (p, y)
    }
    <domain: "local", opset_import: ["" : 17]> f <a> (u) => (v) {
        k = Constant <value_float : float = @a> ()
        v = Mul (u, k)
    }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.node.insert(0, proto.graph.node.pop(4))
    proto.graph.node[1].metadata_props.add(key="k", value="v")
    model = model_from_proto(proto)
    model.graph[2].outputs[0].metadata_props["read"] = "yes"
    NOTE.set(model.graph[3], "known")
    written = model_to_proto(model).SerializeToString(deterministic=True)
    copy = clone(model)
    assert model_to_proto(copy).SerializeToString(deterministic=True) == written
    assert NOTE.find(copy.graph[3]) == "known"
    assert {id(v) for n in copy.graph for v in n.outputs}.isdisjoint(
        id(v) for n in model.graph for v in n.outputs
    )
    assert copy.graph[2].outputs[0].metadata_props == {"read": "yes"}
