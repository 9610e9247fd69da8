"""Parts that are made of several runs of elements."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_passes.parallelism.classes.factor_graph import FactorGraph
from mcm_passes.parallelism.classes.joined_dimensions import division_runs
from mcm_passes.parallelism.classes.provenance import explain
from mcm_passes.parallelism.rules.rule_templates import Block

FUSED = """
g (float[2,6,12] x, float[12,36] w, float[36] w2) => (float[2,6,3,4] y)
<int64[3] sizes = {12, 12, 12}, int64[4] shape = {2, 6, 3, 4}> {
  p = MatMul(x, w)
  b = Add(p, w2)
  q, k, v = Split<axis = -1>(b, sizes)
  qk = Mul(q, k)
  t = Sub(qk, v)
  y = Reshape(t, shape)
}
"""


def test_queries_keys_and_values_of_one_projection(classes, dim_of):
    found = classes(FUSED)
    index, runs, size, block = dim_of(found, "w", 1)
    assert (runs, size, block) == (3, 3, Block.NONE)
    assert dim_of(found, "w2", 0) == (index, 3, 3, Block.NONE)
    for name in ("q", "k", "v", "y"):
        assert dim_of(found, name, 2) == (index, 1, 3, Block.NONE)
    assert dim_of(found, "y", 3)[3] is Block.MINOR
    text = explain(found, "w", 1, tensors=("w", "w2"))
    assert "into up to 3 parts, each 3 runs of consecutive elements" in text
    assert "divided with it: 'w2' dim 0" in text


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        (
            "a, b = Split<axis = 1>(x, two)  c, d = Split<axis = 1>(a, one)",
            {"x": 4, "a": 2, "c": 1},
        ),
        ("a, b = Split<axis = 1>(x, two)  c, d, f = Split<axis = 1>(x, three)", {"x": 6, "a": 3}),
        ("a = Concat<axis = 1>(x, x)  b, c = Split<axis = 1>(a, all)", {"x": 1, "a": 2}),
        ("a = Slice(x, s, e, axes)  b = Concat<axis = 1>(a, x)", {"x": 3, "a": 1, "b": 4}),
    ],
)
def test_runs_follow_from_each_other(ops, expected, classes, dim_of):
    found = classes(
        f"""g (float[5,24] x) => (float[5,24] y)
        <int64[2] two = {{12, 12}}, int64[2] one = {{6, 6}}, int64[3] three = {{8, 8, 8}},
         int64[2] all = {{24, 24}}, int64[1] s = {{8}}, int64[1] e = {{16}}, int64[1] axes = {{1}}>
        {{ {ops} y = Relu(x) }}"""
    )
    index = dim_of(found, "x", 1)[0]
    for name, runs in expected.items():
        assert dim_of(found, name, 1) == (index, runs, 24 // expected["x"], Block.NONE)


def test_what_has_no_common_divisor_is_not_divided(classes, dim_of):
    found = classes(
        """g (float[5,7] x) => (float[5,3] a, float[5,4] b) <int64[2] sizes = {3, 4}> {
          a, b = Split<axis = 1>(x, sizes)
        }"""
    )
    assert dim_of(found, "x", 1)[3] is Block.SCATTERED
    assert dim_of(found, "b", 1)[3] is Block.SCATTERED


def test_ops_that_ask_for_runs_of_other_lengths(classes, dim_of):
    """The first half of three rows is one and a half of them."""
    found = classes(
        """g (float[5,12] x) => (float[5,6] a, float[5,3,4] y)
        <int64[2] sizes = {6, 6}, int64[3] shape = {5, 3, 4}> {
          a, b = Split<axis = 1>(x, sizes)
          r = Reshape(x, shape)
          y = Softmax<axis = -1>(r)
        }"""
    )
    assert dim_of(found, "x", 1)[3] is Block.RUNS
    steps = FactorGraph(found).why("a", 1)
    assert [step.tensor for step in steps] == ["a", "x", "x"]
    assert "runs of another length" in steps[-1].text
    assert "cannot be divided" in explain(found, "x", 1)


def test_heads_that_share_keys_contradict_runs_of_equal_length(classes, dim_of):
    """Four heads that read one key are one run of the queries, and four of the projection."""
    found = classes(
        """g (float[2,5,48] x) => (float[2,5,8,4] y)
        <int64[3] sizes = {32, 8, 8}, int64[4] qs = {2, 5, 8, 4}, int64[5] ks = {2, 5, 2, 1, 4},
         int64[5] spread = {2, 5, 2, 4, 4}> {
          q, k, v = Split<axis = -1>(x, sizes)
          qh = Reshape(q, qs)
          kh = Reshape(k, ks)
          ke = Expand(kh, spread)
          kf = Reshape(ke, qs)
          m = Mul(qh, kf)
          y = Softmax<axis = -1>(m)
        }"""
    )
    assert dim_of(found, "x", 2)[3] is Block.RUNS
    assert dim_of(found, "y", 2)[3] is Block.RUNS
    steps = FactorGraph(found).why("x", 2)
    assert (steps[0].tensor, steps[0].dim) == ("x", 2)
    assert "runs of another length" in steps[-1].text


def test_the_least_whole_numbers_are_taken():
    """Dimension 0 has 3 runs of the first loop and 2 of the second; 3 has nothing to do with it."""
    dim = np.array([0, 1, 0, 2, 3, 4], dtype=np.int32)
    factor = np.array([0, 0, 1, 1, 2, 2], dtype=np.int32)
    above = np.array([3, 1, 2, 1, 1, 1], dtype=np.int32)
    classes = np.array([0, 0, 0, 0, 1, 1], dtype=np.int32)
    runs, apart = division_runs(6, dim, factor, above, classes)
    assert runs.tolist() == [6, 2, 3, 1, 1, 1]
    assert apart == {}


def test_a_loop_that_contradicts_another_is_named():
    dim = np.array([0, 1, 0, 1], dtype=np.int32)
    factor = np.array([4, 4, 7, 7], dtype=np.int32)
    above = np.array([2, 1, 3, 1], dtype=np.int32)
    runs, apart = division_runs(2, dim, factor, above, np.array([5, 5, 5, 5], dtype=np.int32))
    assert runs.tolist() == [1, 1]
    assert list(apart) == [5]
    assert apart[5] in (4, 7)
