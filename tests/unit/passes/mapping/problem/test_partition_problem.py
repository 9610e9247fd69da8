from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.fusion import FusionGroup, FusionPlan
from mcm_compiler.diagnostics import CompileError
from mcm_passes.mapping.problem.partition_problem import (
    CloneFacts,
    CloningLimits,
    build_problem,
    choose_clonable,
)

TIED = """
    g (float[3,3] x) => (float[3,3] y)
    <float[3,3] a, float[3,3] b, float[3,3] t, float[3,3] w = {1,2,3,4,5,6,7,8,9}> {
        a = MatMul(x, w)
        t = Transpose(w)
        b = MatMul(a, t)
        y = MatMul(b, w)
    }"""
DIAMOND = """
    g (float[2] x) => (float[2] y) <float[2] a, float[2] b, float[2] c> {
        a = Relu(x)
        b = Neg(a)
        c = Exp(a)
        y = Add(b, c)
    }"""
MASK = """
    g (float[2] x, float[2] k) => (float[2] y)
    <float[2] m, float[2] a, float[2] b, float[2] c, float[2] d> {
        m = Neg(k)
        a = Relu(x)
        b = Add(a, m)
        c = Relu(b)
        y = Add(c, m)
    }"""


def rows(ptr, flat):
    return [flat[a:b].tolist() for a, b in itertools.pairwise(ptr)]


def test_weights_are_shared_and_constant_nodes_are_no_units(make_problem):
    problem = make_problem(TIED)
    assert problem.names == ("MatMul_0", "MatMul_2", "MatMul_3")
    assert problem.weight_names == ("w", "t")
    assert problem.weight_bytes.tolist() == [36, 36]
    assert rows(problem.weight_ptr, problem.weight_users) == [[0, 2], [1]]


def test_views_of_a_weight_and_a_packed_one_in_another_order_share_its_memory(make_problem):
    problem = make_problem(
        """
        g (float[3,4] x, float[4,3] z) => (float[3,4] y, float[4,3] u, float[3,3] v, float[4,3] o)
        <float[3,4] w = {1,2,3,4,5,6,7,8,9,1,2,3}, int64[2] s = {4, 3}, float[4,3] r,
         int8[3,4] p = {1,2,3,4,5,6,7,8,9,1,2,3}, float[1] k = {0.5},
         float[3,4] d, float[4,3] t> {
            y = Add(x, w)
            r = Reshape(w, s)
            u = Add(z, r)
            d = DequantizeLinear(p, k)
            t = Transpose(d)
            v = MatMul(d, z)
            o = Add(z, t)
        }"""
    )
    assert problem.weight_names == ("w", "d")
    assert rows(problem.weight_ptr, problem.weight_users) == [[0, 1], [2, 3]]


def test_tensors_are_what_crosses_units_and_the_host(make_problem):
    problem = make_problem(DIAMOND, groups=[("Relu_0", "Neg_1")])
    assert problem.names == ("Neg_1", "Exp_2", "Add_3")
    assert problem.members == (("Relu_0", "Neg_1"), ("Exp_2",), ("Add_3",))
    assert problem.compute_s.tolist() == [2e-6, 1e-6, 1e-6]
    assert problem.tensor_names == ("x", "a", "b", "c", "y")
    assert problem.tensor_producer.tolist() == [-1, 0, 0, 1, 2]
    assert rows(problem.tensor_ptr, problem.tensor_consumers) == [[0], [1], [2], [2], []]
    assert problem.tensor_to_host.tolist() == [False] * 4 + [True]
    assert problem.tensor_bytes.tolist() == [8] * 5
    assert problem.relay_s.tolist() == [1e-6] * 5
    with pytest.raises(ValueError, match="read-only"):
        problem.compute_s[0] = 0.0


def test_groups_are_ordered_after_all_that_they_read(make_problem):
    """Exp stands between the group's ops in the file, and before the group in the problem."""
    text = """
        g (float[2] x) => (float[2] y) <float[2] a, float[2] b> {
            a = Relu(x)
            b = Exp(x)
            y = Add(a, b)
        }"""
    problem = make_problem(text, groups=[("Relu_0", "Add_2")])
    assert problem.names == ("Exp_1", "Add_2")


def test_a_group_on_a_cycle_is_named(make_model, make_target):
    plan = FusionPlan((FusionGroup("Add_3", "bad", ("Relu_0", "Add_3")),))
    with pytest.raises(CompileError) as caught:
        build_problem(make_model(DIAMOND), make_target(), "relay", plan)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MCM-P001"
    assert "'Add_3' of 2 ops" in diagnostic.message


def test_values_that_a_subgraph_captures_are_read_by_its_op(make_problem):
    text = """
        g (float[2] x, bool k) => (float[2] y) <float[2] a, float[2] w = {1, 2}> {
            a = Relu(x)
            y = If (k) <
                then_branch = t () => (float[2] p) { p = Add(a, w) },
                else_branch = e () => (float[2] q) <float[2] v = {3, 4}> { q = Sub(a, v) }
            >
        }"""
    problem = make_problem(text)
    tensors = dict(
        zip(problem.tensor_names, rows(problem.tensor_ptr, problem.tensor_consumers), strict=True)
    )
    assert tensors == {"x": [0], "k": [1], "a": [1], "y": []}
    assert sorted(problem.weight_names) == ["v", "w"]


def test_pins_hold_for_the_unit_of_a_node(make_problem):
    problem = make_problem(DIAMOND, groups=[("Relu_0", "Neg_1")], pins={"Relu_0": 2, "Exp_2": 0})
    assert problem.pinned_chip.tolist() == [2, 0, -1]


def test_a_mask_with_two_readers_is_clonable_and_a_single_reader_is_not(make_problem):
    problem = make_problem(MASK, clones=True)
    assert dict(zip(problem.names, problem.clonable.tolist(), strict=True)) == {
        "Neg_0": True,
        "Relu_1": False,
        "Add_2": False,
        "Relu_3": False,
        "Add_4": False,
    }
    assert not make_problem(MASK, clones=False).clonable.any()


def facts(seconds, producers, held=None, allowed=None):
    n = len(seconds)
    return CloneFacts(
        np.array(seconds), np.array(held or [0] * n), np.array(allowed or [True] * n), producers
    )


CHAIN = [[], [0], [1], [1], [2, 3]]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [True, True, False, False, False]),
        ({"seconds": [1.0, 4.0, 100.0, 100.0, 0.0]}, [False, False, False, False, False]),
        ({"held": [0, 200, 0, 0, 0]}, [False, False, False, False, False]),
        ({"allowed": [True, False, True, True, True]}, [False] * 5),
        ({"max_chain": 1}, [False] * 5),
    ],
    ids=["within limits", "too slow", "too large", "not allowed", "too long"],
)
def test_a_chain_is_cloned_whole_and_within_its_limits(change, expected):
    """Units 0 and 1 are a chain that 2 and 3 read; 2 and 3 are too slow to be cloned."""
    given = facts(
        change.get("seconds", [1.0, 1.0, 100.0, 100.0, 0.0]),
        CHAIN,
        change.get("held"),
        change.get("allowed"),
    )
    limits = CloningLimits(0.02, 0.1, change.get("max_chain", 16))
    assert choose_clonable(given, 1, 1000, limits).tolist() == expected


@dataclass
class OfReadOps:
    """The costs of another model; in a graph, ops whose results nobody reads take no time."""

    own: Any
    read: list[ir.Node] | None = None

    @property
    def name(self):
        return self.own.name

    def of_graph(self, graph):
        ends = set(graph.outputs)
        read = [n for n in graph if any(v.uses() or v in ends for v in n.outputs)]
        return OfReadOps(self.own, read)

    def node_cost(self, node):
        return self.group_cost([node])

    def group_cost(self, nodes):
        read = nodes if self.read is None else [node for node in nodes if node in self.read]
        return self.own.group_cost(read)

    def storage_bytes(self, value):
        return self.own.storage_bytes(value)


def test_costs_are_those_in_the_graph_whatever_its_ops_carry(make_model, make_target):
    text = """
        g (float[2] x) => (float[2] y) {
            a = Exp(x)
            y = Relu(x)
            b = Neg(y)
        }"""
    target = make_target(microseconds={"Relu": 3.0})
    model = make_model(text, target.costs)
    target.costs = OfReadOps(target.costs)
    plan = FusionPlan((FusionGroup("Neg_2", "test", ("Relu_1", "Neg_2")),))
    problem = build_problem(model, target, "relay", plan)
    assert dict(zip(problem.names, problem.compute_s.tolist(), strict=True)) == {
        "Exp_0": 0.0,
        "Neg_2": 3e-6,
    }
