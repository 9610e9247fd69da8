"""Device configurations of nodes, read as `onnx_ir` reads them."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from mcm_compiler.graph.map_types import with_device_configurations

MODEL = """
<ir_version: 11, opset_import: ["" : 21]>
nested (bool[1] c, float[2] x) => (float[2] y, float[2] z) {
  a = Relu (x)
  y = If (c) <then_branch = inner () => (b) { a0 = Exp (a)  b = Neg (a0) },
              else_branch = other () => (d) { d = Abs (x) }>
  z = Neg (y)
}
"""


def configure(node, name, stage=None, tensors=()):
    added = node.device_configurations.add(configuration_id=name)
    if stage is not None:
        added.pipeline_stage = stage
    for tensor in tensors:
        spec = added.sharding_spec.add(tensor_name=tensor, device=[0, 1])
        spec.sharded_dim.add(axis=0).simple_sharding.add(num_shards=2, dim_value=2)


@pytest.fixture
def configured():
    """Nodes of the graph and of a branch, with stages and with tensors of all scopes."""
    proto = parser.parse_model(MODEL)
    proto.configuration.add(name="ring", num_devices=2)
    relu, choice, _ = proto.graph.node
    exp, neg = choice.attribute[0].g.node
    configure(relu, "ring", 0, ["a"])
    configure(relu, "elsewhere", 3)
    configure(choice, "ring", 1)
    configure(exp, "ring", None, ["a", "a0"])
    configure(neg, "other", 1, ["x", "missing"])
    return proto


def described(model):
    nodes = {node.name or node.op_type + str(node.outputs[0].name): node for node in all_of(model)}
    return {name: repr(node.device_configurations) for name, node in nodes.items()}


def all_of(model):
    return list(ir.traversal.RecursiveGraphIterator(model.graph))


def test_same_as_onnx_ir_reads_them(configured):
    before = configured.SerializeToString()
    ours, theirs = with_device_configurations(configured, ir.from_proto), ir.from_proto(configured)
    assert configured.SerializeToString() == before
    assert described(ours) == described(theirs)
    assert ir.to_proto(ours).SerializeToString() == ir.to_proto(theirs).SerializeToString()


def test_they_point_to_values_and_configurations_of_the_model(configured):
    model = with_device_configurations(configured, ir.from_proto)
    nodes = {node.op_type: node for node in all_of(model)}
    (ring,) = model.device_configurations
    (known,) = nodes["Exp"].device_configurations
    assert known.configuration is ring
    outer, own = (spec.value for spec in known.sharding_specs)
    assert outer is nodes["Relu"].outputs[0]
    assert own is nodes["Exp"].outputs[0]
    assert not nodes["Abs"].device_configurations


def test_they_are_put_back_where_reading_fails(configured):
    before = configured.SerializeToString()

    def fail(proto):
        assert not any(node.device_configurations for node in proto.graph.node)
        raise ValueError("unread")

    with pytest.raises(ValueError, match="unread"):
        with_device_configurations(configured, fail)
    assert configured.SerializeToString() == before


def test_no_values_are_collected_for_stages_alone(monkeypatch):
    """Each look at all values of a graph, once a node, would take time quadratic in the nodes."""
    looks = []
    node_outputs = ir.Node.outputs.fget
    monkeypatch.setattr(
        ir.Node, "outputs", property(lambda node: looks.append(node) or node_outputs(node))
    )
    counts = []
    for size in (50, 100):
        nodes = [onnx.helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(size)]
        for node in nodes:
            configure(node, "ring", 0, [node.output[0]])
        ends = [onnx.helper.make_tensor_value_info(f"v{k}", 1, [2]) for k in (0, size)]
        graph = onnx.helper.make_graph(nodes, "chain", ends[:1], ends[1:])
        looks.clear()
        with_device_configurations(onnx.helper.make_model(graph), ir.from_proto)
        counts.append(len(looks))
    assert counts[1] < 2.2 * counts[0]
