"""Which dimensions are divided together, and which cannot be."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.sharding.notation import parse_rule
from mcm_passes.parallelism.classes.dimension_classes import classes_of
from mcm_passes.parallelism.classes.factor_graph import FactorGraph
from mcm_passes.parallelism.rules.rule_templates import Block
from mcm_passes.parallelism.rules.ruled_graph import ruled_graph

MLP = """
g (float[4,6] x, float[6,8] w1, float[8] w2, float[8,10] w3) => (float[4,10] y) {
  h = MatMul(x, w1)
  s = Add(h, w2)
  r = Relu(s)
  y = MatMul(r, w3)
}
"""


def _of(found, name):
    return found.of(found.value_by_name[name]).tolist()


def _block(found, name, dim):
    return Block(int(found.block[_of(found, name)[dim]]))


def test_an_inner_dimension_is_one_class_through_two_products(classes):
    found = classes(MLP)
    (inner,) = _of(found, "w2")
    assert _of(found, "w1")[1] == _of(found, "r")[1] == _of(found, "w3")[0] == inner
    assert _of(found, "x")[0] == _of(found, "y")[0]
    assert len(found.size) == 4
    assert found.size[inner] == 8
    assert not found.block.any()


def test_classes_that_meet_in_an_op_conflict(classes):
    found = classes(MLP)
    batch, wide = _of(found, "x")
    (inner,) = _of(found, "w2")
    out = _of(found, "y")[1]
    meets = found.conflicts()
    assert np.array_equal(np.flatnonzero(meets[inner]), sorted((batch, wide, out)))
    assert not meets[wide][out]
    few = found.conflicts(np.array([out, inner], dtype=np.int32))
    assert few.tolist() == [[False, True], [True, False]]


HEADS = """
g (float[2,6,12] x, float[12,12] wq, float[12,12] wk) => (float[2,3,6,6] y)
<int64[4] shape = {2, 6, 3, 4}> {
  q = MatMul(x, wq)
  k = MatMul(x, wk)
  qh = Reshape(q, shape)
  kh = Reshape(k, shape)
  qt = Transpose<perm = [0, 2, 1, 3]>(qh)
  kt = Transpose<perm = [0, 2, 3, 1]>(kh)
  y = MatMul(qt, kt)
}
"""


def test_a_merged_dimension_goes_with_its_major_factor(classes):
    found = classes(HEADS)
    heads = _of(found, "y")[1]
    assert _of(found, "wq")[1] == _of(found, "wk")[1] == heads
    assert found.size[heads] == 3
    assert _block(found, "y", 1) is Block.NONE
    assert _block(found, "qh", 3) is Block.MINOR


def test_a_sequence_that_asks_itself_is_blocked(classes):
    found = classes(HEADS)
    assert _of(found, "y")[2] == _of(found, "y")[3] == _of(found, "x")[1]
    assert _block(found, "x", 1) is Block.ITSELF
    at = int(found.met_at[_of(found, "x")[1]])
    assert found.ruled.nodes[at].outputs[0].name == "y"


def test_dimensions_of_size_one_are_of_no_class(classes):
    found = classes("g (float[1,5] x, float[4,1] z) => (float[4,5] y) { y = Mul(x, z) }")
    assert _of(found, "x")[0] == -1
    assert _of(found, "z")[1] == -1
    assert _of(found, "x")[1] == _of(found, "y")[1]


def test_ops_say_what_they_need_whole(classes):
    found = classes(
        """g (float[2,3,8,8] x, float[4,3,3,3] w) => (float[2,4,6,6] y) {
          c = Conv(x, w)
          y = Softmax<axis = 1>(c)
        }"""
    )
    assert _block(found, "x", 0) is Block.NONE
    assert _block(found, "x", 1) is Block.NONE
    assert _block(found, "x", 2) is Block.HALO
    assert _block(found, "y", 1) is Block.WHOLE
    assert _block(found, "w", 2) is Block.WHOLE


def test_unknown_ops_keep_all_they_touch_whole(classes):
    found = classes(
        """g (float[4,6] x, float[6,8] w) => (float[4,8] y) {
          h = com.acme.Mystery(x)
          r = Relu(x)
          y = MatMul(r, w)
        }"""
    )
    assert _block(found, "x", 0) is not Block.NONE
    assert _block(found, "w", 1) is Block.NONE


def test_bodies_keep_what_they_read_whole(classes):
    found = classes(
        """g (bool c, float[4,6] x, float[4,6] z) => (float[4,6] y, float[4,6] v) {
          y = If (c) <
            then_branch = a () => (float[4,6] t) { t = Relu(x) },
            else_branch = b () => (float[4,6] e) { e = Identity(x) }
          >
          v = Relu(z)
        }"""
    )
    assert _block(found, "x", 0) is not Block.NONE
    assert _block(found, "y", 1) is not Block.NONE
    assert _block(found, "z", 0) is Block.NONE


def test_weights_that_are_filled_can_be_divided_as_those_that_are_kept(classes):
    found = classes(
        """g (float[4,6] x) => (float[4,8] y) <int64[2] shape = {6, 8}> {
          w = ConstantOfShape(shape)
          y = MatMul(x, w)
        }"""
    )
    assert _block(found, "w", 1) is Block.NONE
    assert _of(found, "w")[1] == _of(found, "y")[1]


def test_what_has_another_rank_than_in_the_rule_is_kept_whole():
    """As with a value whose shape is not known."""
    x, y, z = (
        ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=shape)
        for name, shape in (("x", ir.Shape([4, 6])), ("y", None), ("z", ir.Shape([4, 6])))
    )
    rule = parse_rule("a b -> a b", {"a": 4, "b": 6})
    nodes = [ir.node("Relu", [x], outputs=[y]), ir.node("Relu", [y], outputs=[z])]
    graph = ir.Graph([x], [z], nodes=nodes, name="g")
    found = classes_of(ruled_graph(graph, [(node, rule) for node in nodes]))
    assert found.block.tolist() == [Block.UNKNOWN] * 4
    assert FactorGraph(found).why("x", 0)[-1].text == "has no rule that would divide it"


def test_units_of_several_reshapes_fall_together(classes):
    found = classes(
        """g (float[24] x) => (float[6,4] y, float[4,6] z)
        <int64[2] six = {6, 4}, int64[2] four = {4, 6}> {
          y = Reshape(x, six)
          z = Reshape(x, four)
        }"""
    )
    assert found.size[_of(found, "x")[0]] == 2
