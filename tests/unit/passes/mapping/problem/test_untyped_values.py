"""Units that a value without a type keeps together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcm_compiler.contracts.fusion import FusionGroup, FusionPlan
from mcm_passes.mapping.problem.contraction import contract, joined_units, untyped_note
from mcm_passes.mapping.problem.partition_problem import build_problem

WAY_AROUND = """
    g (float[2] x) => (float[2] y)
    <float[2] a, float[2] b, float[2] c, float[2] d, float[2] e> {
        a = Relu(x)
        b = Neg(a)
        c = Exp(a)
        d = Exp(c)
        e = Add(b, d)
        y = Relu(e)
    }"""


def without_types(model, *names):
    for node in model.graph:
        for value in node.outputs:
            if value.name in names:
                value.type = value.shape = None
    return model


def test_units_between_join_and_others_do_not(make_model):
    model = without_types(make_model(WAY_AROUND), "b")
    units = contract(list(model.graph), FusionPlan(()))
    # Neg makes b, Add reads it; Exp and Exp go another way from Relu to Add.
    assert [[n.name for n in u.nodes] for u in units] == [
        ["Relu_0"],
        ["Exp_2"],
        ["Exp_3"],
        ["Neg_1", "Add_4"],
        ["Relu_5"],
    ]
    model = without_types(make_model(WAY_AROUND), "a")
    units = contract(list(model.graph), FusionPlan(()))
    assert [u.name for u in units] == ["Exp_2", "Exp_3", "Add_4", "Relu_5"]
    assert [n.name for n in units[0].nodes] == ["Relu_0", "Neg_1", "Exp_2"]


def test_what_lies_on_a_path_between_joins(make_model):
    text = """
        g (float[2] x) => (float[2] y) <float[2] a, float[2] b, float[2] c> {
            a = Relu(x)
            b = Neg(a)
            c = Exp(b)
            y = Add(a, c)
        }"""
    model = make_model(text)
    model.graph[0].outputs[0].type = None
    units = contract(list(model.graph), FusionPlan(()))
    assert [len(u.nodes) for u in units] == [4]


def test_joined_kernels_keep_their_groups_their_order_and_their_cost(make_model, make_target):
    plan = FusionPlan((FusionGroup("Exp_3", "test", ("Exp_2", "Exp_3")),))
    model = without_types(make_model(WAY_AROUND), "d", "b")
    target = make_target()
    (_, joined, _) = contract(list(model.graph), plan)
    assert [[n.name for n in kernel] for kernel in joined.kernels] == [
        ["Neg_1"],
        ["Exp_2", "Exp_3"],
        ["Add_4"],
    ]
    problem = build_problem(model, target, "relay", plan)
    assert problem.compute_s[1] == 4e-6
    assert "d" not in problem.tensor_names
    note = untyped_note(model.graph, plan)
    assert note.code == "MCM-P014"
    assert "2 values" in note.message
    assert untyped_note(make_model(WAY_AROUND).graph, plan) is None


def test_a_value_without_a_type_inside_a_kernel_joins_nothing(make_model):
    plan = FusionPlan((FusionGroup("Exp_3", "test", ("Exp_2", "Exp_3")),))
    model = without_types(make_model(WAY_AROUND), "c")
    assert len(contract(list(model.graph), plan)) == 5
    assert untyped_note(model.graph, plan) is None


def test_a_long_chain_needs_no_recursion():
    count = 50_000
    successors = [[i + 1] for i in range(count - 1)] + [[]]
    assert len(set(joined_units(successors, [(0, count - 1)]))) == 1
    assert len(set(joined_units(successors, [(0, 1)]))) == count - 1


@given(st.data())
def test_components_are_the_smallest_closed_sets(data):
    count = data.draw(st.integers(2, 8))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    edges = data.draw(st.sets(st.sampled_from(pairs)))
    together = data.draw(st.sets(st.sampled_from(sorted(edges)))) if edges else set()
    successors = [[b for a, b in sorted(edges) if a == u] for u in range(count)]
    component = joined_units(successors, sorted(together))
    steps = edges | {(b, a) for a, b in together}
    reach = {(u, u) for u in range(count)} | steps
    for middle in range(count):
        for a in range(count):
            for b in range(count):
                if (a, middle) in reach and (middle, b) in reach:
                    reach.add((a, b))
    for a in range(count):
        for b in range(count):
            assert (component[a] == component[b]) == ((a, b) in reach and (b, a) in reach)
