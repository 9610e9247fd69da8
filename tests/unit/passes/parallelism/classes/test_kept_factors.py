"""What is below a factor that has to stay whole can be divided."""

from __future__ import annotations

from mcm_passes.parallelism.classes.factor_graph import FactorGraph
from mcm_passes.parallelism.classes.provenance import explain
from mcm_passes.parallelism.rules.rule_templates import Block

STACKED = """
g (float[5,12] x, float[12,36] w, float[36] w2) => (float[3,5,4] y)
<int64[4] shape = {5, 3, 3, 4}, int64 zero = {0}, int64 one = {1}, int64 two = {2}> {
  p = MatMul(x, w)
  b = Add(p, w2)
  r = Reshape(b, shape)
  t = Transpose<perm = [1, 2, 0, 3]>(r)
  q = Gather(t, zero)
  k = Gather(t, one)
  v = Gather(t, two)
  qk = Mul(q, k)
  y = Sub(qk, v)
}
"""


def test_heads_below_the_three_of_queries_keys_and_values(classes, dim_of):
    found = classes(STACKED)
    index, runs, size, block = dim_of(found, "w", 1)
    assert (runs, size, block) == (3, 3, Block.NONE)
    assert (
        dim_of(found, "w2", 0)[0] == dim_of(found, "r", 2)[0] == dim_of(found, "y", 0)[0] == index
    )
    assert dim_of(found, "r", 2)[1:] == (1, 3, Block.NONE)
    assert dim_of(found, "r", 3)[3] is Block.MINOR
    assert "3 runs" in explain(found, "w", 1)


def test_the_three_are_whole_because_of_what_takes_them_apart(classes, dim_of):
    found = classes(STACKED)
    assert dim_of(found, "r", 1)[3] is Block.WHOLE
    steps = FactorGraph(found).why("r", 1)
    ops = {node.name: node.op_type for node in found.ruled.nodes}
    assert ops[steps[-1].node] == "Gather"
    assert [step.tensor for step in steps] == ["r", "t", "t"]


def test_a_batch_below_the_sequence(classes, dim_of):
    """As in models that have the sequence first, and merge both before a product."""
    found = classes(
        """g (float[5,2,6] x, float[6,8] w) => (float[5,2,8] y)
        <int64[2] flat = {10, 6}, int64[3] shape = {5, 2, 8}> {
          s = Softmax<axis = 0>(x)
          f = Reshape(s, flat)
          m = MatMul(f, w)
          y = Reshape(m, shape)
        }"""
    )
    index = dim_of(found, "x", 1)[0]
    assert dim_of(found, "x", 1) == (index, 1, 2, Block.NONE)
    assert dim_of(found, "m", 0) == (index, 5, 2, Block.NONE)
    assert dim_of(found, "y", 1) == (index, 1, 2, Block.NONE)


def test_what_can_be_divided_is_not_given_up_for_what_is_below(classes, dim_of):
    """The batch is above the heads, and nothing keeps it whole."""
    found = classes(
        """g (float[2,3,5] x) => (float[6,5] y) <int64[2] flat = {6, 5}> {
          y = Reshape(x, flat)
        }"""
    )
    assert dim_of(found, "x", 0)[1:] == (1, 2, Block.NONE)
    assert dim_of(found, "y", 0)[0] == dim_of(found, "x", 0)[0]
    assert dim_of(found, "x", 1)[3] is Block.MINOR


def test_ops_are_read_as_they_are_where_nothing_is_won(classes, dim_of):
    """All that is merged has to stay whole."""
    found = classes(
        """g (float[2,3,5] x) => (float[6,5] y) <int64[2] flat = {6, 5}> {
          s = Softmax<axis = 0>(x)
          r = Reshape(s, flat)
          y = Softmax<axis = 0>(r)
        }"""
    )
    assert [str(found.ruled.rule_of(n).rule) for n in range(3)] == [
        "!a b c -> !a b c",
        "a b c, _ -> (a b) c",
        "!a b -> !a b",
    ]
    assert dim_of(found, "x", 1)[3] is Block.MINOR
    assert "needs the dimension whole" in FactorGraph(found).why("x", 0)[-1].text


def test_a_dimension_that_is_kept_for_the_sake_of_others_says_so(classes, dim_of):
    """Half of three rows is one and a half of them; of four columns it is two."""
    found = classes(
        """g (float[5,12] x) => (float[5,6] a, float[5,3,4] y)
        <int64[2] sizes = {6, 6}, int64[3] shape = {5, 3, 4}> {
          a, b = Split<axis = 1>(x, sizes)
          y = Reshape(x, shape)
        }"""
    )
    index = dim_of(found, "y", 2)[0]
    assert dim_of(found, "y", 2) == (index, 2, 2, Block.NONE)
    assert dim_of(found, "x", 1) == (index, 6, 2, Block.NONE)
    assert dim_of(found, "a", 1) == (index, 3, 2, Block.NONE)
    assert dim_of(found, "y", 1)[3] is Block.KEPT
    steps = FactorGraph(found).why("y", 1)
    assert [step.tensor for step in steps] == ["y", "y"]
    assert "keeps it whole, so that what it merges below can be divided" in steps[-1].text
