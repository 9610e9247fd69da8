"""Costs that are kept for kernels that are alike."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from mcm_hardware.chip.kernel_work import kernel_work, likeness

GRAPH = """
g (float[4,8] x, float[4,8] u, float[8] b, float[1,8] r) => (float[4,8] z)
<float[4,8] w = {0}, float two = {{2.0}}, float half = {{0.5}}> {{
  {1}
  z = Neg (x)
}}
"""


def first(model, ops: str) -> ir.Node:
    zeros = "{" + ", ".join(["0.0"] * 32) + "}"
    return next(iter(model(GRAPH.format(zeros, ops)).graph))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("y = Add (x, u)", "y = Add (u, x)"),
        ("y = Relu (x)", "y = Relu (u)"),
        ("y = LeakyRelu <alpha = 0.5> (x)", "y = LeakyRelu <alpha = 0.25> (x)"),
        ("y = Softmax <axis = 1> (x)", "y = Softmax <axis = 1> (u)"),
        ("y = Pow (x, two)", "y = Pow (u, two)"),
    ],
)
def test_equal_work(model, roofline, one, other):
    left, right = first(model, one), first(model, other)
    assert likeness((left,)) is not None
    assert likeness((left,)) == likeness((right,))
    storage = roofline.chip.storage
    assert kernel_work((left,), storage) == kernel_work((right,), storage)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("y = Add (x, u)", "y = Add (x, x)"),  # one operand, read once
        ("y = Add (x, u)", "y = Add (x, w)"),  # a weight
        ("y = Add (x, b)", "y = Add (x, r)"),
        ("y = Relu (x)", "y = Exp (x)"),
        ("y = Clip (x, , w)", "y = Clip (x, w)"),
        ("y = Pow (x, two)", "y = Pow (x, half)"),
        ("y = Pow (x, two)", "y = Pow (x, x)"),
        ("y = Softmax <axis = 0> (x)", "y = Softmax <axis = 1> (x)"),
        ("y = Concat <axis = 0> (x, u)", "y = Concat <axis = 0> (x, w)"),
    ],
)
def test_other_work(model, one, other):
    left, right = likeness((first(model, one),)), likeness((first(model, other),))
    assert left is not None
    assert right is not None
    assert left != right


@pytest.mark.parametrize(
    "ops",
    [
        "y = Unknown (x, u)",  # no formula
        "y = Constant <value_floats = [1.0, 2.0]> ()",  # data in an attribute
        "y = Relu (o)",  # no type
    ],
)
def test_not_known_by_shapes(model, ops):
    node = first(model, ops.replace("(o)", "(x)"))
    if "(o)" in ops:
        node.inputs[0].type = None
    assert likeness((node,)) is None


def test_open_dimensions_are_looked_at_each_time(model):
    node = first(model, "y = Relu (x)")
    node.inputs[0].shape = ir.Shape(["n", 8])
    assert likeness((node,)) is None


def test_kept_costs_are_those_of_the_op_itself(model, roofline):
    for op in ("Add (x, u)", "Add (x, x)", "Add (x, w)", "Add (u, x)"):
        node = first(model, f"y = {op}")
        again = type(roofline)(roofline.chip, roofline.timing, roofline.name)
        assert roofline.node_cost(node) == again.node_cost(node), op


def test_a_changed_shape_is_another_cost(model, roofline):
    node = first(model, "y = Relu (x)")
    before = roofline.node_cost(node)
    for value in (*node.inputs, *node.outputs):
        value.shape = ir.Shape([400, 800])
    assert roofline.node_cost(node).read_bytes == 10_000 * before.read_bytes


GROUPS = [
    "a = Relu (x)\n  y = Neg (a)",
    "a = Relu (u)\n  y = Neg (a)",
    "a = Relu (x)\n  y = Add (a, x)",
    "a = Relu (x)\n  y = Add (a, u)",
    "a = Relu (x)\n  y = Add (x, a)",
    "a = Relu (x)\n  y = Add (a, w)",
    "a = Relu (x)\n  y = Add (a, a)",
    "a = Relu (x)\n  y = Neg (x)",
    "a = Relu (x)\n  y = Neg (a)\n  q = Abs (a)",  # read outside
    "a = Relu (x)\n  y = Neg (a)\n  q = Abs (x)",
]


def test_groups_that_are_alike_have_equal_work(model, roofline):
    """Of all pairs; those that differ may, and those that are alike must, cost the same."""
    found = []
    for ops in GROUPS:
        zeros = "{" + ", ".join(["0.0"] * 32) + "}"
        nodes = tuple(model(GRAPH.format(zeros, ops)).graph)[:2]
        found.append((likeness(nodes), kernel_work(nodes, roofline.chip.storage), nodes))
    assert found[0][0] == found[1][0] == found[9][0] != found[8][0]
    for like, work, _ in found:
        assert like is not None
        for other, its_work, _ in found:
            assert like != other or work == its_work
    for _, _, nodes in found:
        again = type(roofline)(roofline.chip, roofline.timing, roofline.name)
        assert roofline.group_cost(nodes) == again.group_cost(nodes)
