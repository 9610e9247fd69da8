"""Why a dimension can be divided or not."""

from __future__ import annotations

import pytest

from mcm_passes.parallelism.classes.factor_graph import FactorGraph
from mcm_passes.parallelism.classes.provenance import explain, render

NET = """
g (float[4,6] x, float[6,8] w1, float[8,10] w2, float[10,12] w3) => (float[4,12] y) {
  h = MatMul(x, w1)
  r = Relu(h)
  k = MatMul(r, w2)
  t = Tanh(k)
  s = Softmax<axis = 1>(t)
  y = MatMul(s, w3)
}
"""


@pytest.fixture
def found(classes):
    return classes(NET)


def test_the_way_to_the_op_that_forbids(found):
    steps = FactorGraph(found).why("w2", 1)
    assert [(step.tensor, step.dim) for step in steps] == [("w2", 1), ("k", 1), ("t", 1), ("t", 1)]
    ops = {node.name: node.op_type for node in found.ruled.nodes}
    assert [ops.get(step.node) for step in steps] == [None, "MatMul", "Tanh", "Softmax"]
    assert "needs the dimension whole" in steps[-1].text
    assert "k+" in steps[1].rule
    assert render(steps).count("\n-> ") == 3
    assert FactorGraph(found).why("w2", -1) == steps


def test_nothing_forbids(found):
    assert FactorGraph(found).why("w1", 1) == []
    assert FactorGraph(found).why("w3", 1) == []


def test_names_and_dimensions_that_are_not_there(found):
    with pytest.raises(KeyError):
        FactorGraph(found).why("w9", 0)
    with pytest.raises(IndexError, match="2 dimensions"):
        FactorGraph(found).why("w1", 2)
    with pytest.raises(IndexError, match="2 dimensions"):
        explain(found, "w1", -3)


def test_the_way_from_one_to_another(found):
    steps = FactorGraph(found).why_linked(("w1", 1), ("w2", 0))
    assert [(s.tensor, s.dim) for s in steps] == [("w1", 1), ("h", 1), ("r", 1), ("w2", 0)]
    assert FactorGraph(found).why_linked(("w1", 0), ("w2", 0)) == []


def test_the_way_to_where_two_meet(found):
    steps = FactorGraph(found).why_conflict(("w1", 1), ("x", 1))
    assert [(s.tensor, s.dim) for s in steps] == [("w1", 1), ("x", 1)]
    assert "cannot divide both" in steps[1].text
    assert FactorGraph(found).why_conflict(("w1", 0), ("w3", 1)) == []
    longer = FactorGraph(found).why_conflict(("w1", 1), ("y", 0))
    assert longer[0].tensor == "w1"
    assert (longer[-1].tensor, longer[-1].dim) == ("y", 0)


def test_normalisations_and_reasons_without_rules_are_named(classes):
    found = classes(
        """g (float[4,6] x, float[6] w) => (float[4,6] y, float[4,6] z) {
          sq = Mul(x, x)
          v = ReduceMean<axes = [-1]>(sq)
          d = Sqrt(v)
          n = Div(x, d)
          y = Mul(n, w)
          u = Add(x, w)
          z = com.acme.Mystery(u)
        }"""
    )
    assert "normalise along it" in str(FactorGraph(found).why("sq", 1)[-1])
    assert FactorGraph(found).why("z", 0)[-1].node is not None


def test_a_dimension_that_meets_itself(classes):
    found = classes(
        """g (float[2,6,4] x) => (float[2,6,6] y) {
          t = Transpose<perm = [0, 2, 1]>(x)
          y = MatMul(x, t)
        }"""
    )
    steps = FactorGraph(found).why("y", 2)
    assert "which are divided together" in " ".join(step.text for step in steps)
    assert len({(s.tensor, s.dim) for s in steps}) > 1


def test_a_dimension_of_size_one(classes):
    found = classes("g (float[1,6] x) => (float[1,6] y) { y = Relu(x) }")
    assert "size 1" in FactorGraph(found).why("x", 0)[-1].text


def test_too_few_units(classes):
    found = classes(
        """g (float[4,12] x, float[12,12] w) => (float[4,3,4] y) <int64[3] shape = {4, 3, 4}> {
          h = MatMul(x, w)
          y = Reshape(h, shape)
        }"""
    )
    assert FactorGraph(found).why("w", 1) == []
    assert [step.tensor for step in FactorGraph(found).why_small("w", 1, 4)] == ["w", "h"]
    assert FactorGraph(found).why_small("w", 1, 3) == []
    assert "3 units, fewer than 4 devices" in explain(found, "w", 1, degree=4)


def test_explanations(found):
    names = ("w1", "w2", "w3")
    text = explain(found, "w1", 1, tensors=names)
    assert "can be divided, into up to 8 parts" in text
    assert "divided with it: 'w2' dim 0" in text
    assert "cannot be divided" in explain(found, "w2", 1)
    plan = {"w1": 1, "w2": 0, "w3": -1}
    assert explain(found, "w2", 0, plan=plan).endswith("the plan divides it")
    assert "'w1' dim 1, which excludes it" in explain(found, "w1", 0, plan=plan)
    assert "keeps it whole" in explain(found, "w3", 1, plan=plan)
