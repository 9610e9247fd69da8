"""Which outputs differ from run to run."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from mcm_compiler.graph.constants import random_outputs

HEAD = '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>\n'


def random_of(text):
    outputs, nodes = random_outputs(ir.from_onnx_text(HEAD + text))
    return outputs, [node.op_type for node in nodes]


def test_what_depends_on_a_random_op_is_random():
    found = random_of(
        "m (float[4] x) => (float[4] y, float[4] z) {"
        " r = RandomNormalLike (x) y = Add (r, x) z = Neg (x) }"
    )
    assert found == (["y"], ["RandomNormalLike"])


def test_a_seed_makes_an_op_reproducible():
    text = "m (float[4] x) => (float[4] y) { y = Bernoulli <seed = 1.0> (x) }"
    assert random_of(text) == ([], [])


@pytest.mark.parametrize(
    ("initializers", "drawn"),
    [
        ("float ratio = {0.5}, bool training = {1}", True),
        ("float ratio = {0.5}, bool training = {0}", False),
        ("float ratio = {0}, bool training = {1}", False),
    ],
)
def test_dropout_draws_in_training_only(initializers, drawn):
    outputs, _ = random_of(
        f"m (float[4] x) => (float[4] y) <{initializers}> {{ y = Dropout (x, ratio, training) }}"
    )
    assert outputs == (["y"] if drawn else [])


def test_dropout_whose_mode_is_an_input_may_draw():
    text = "m (float[4] x, bool t) => (float[4] y) { y = Dropout (x, , t) }"
    assert random_of(text)[0] == ["y"]


def test_subgraphs_and_functions_are_looked_into():
    branches = "then_branch = a () => (float[4] r) { r = RandomNormalLike (x) }"
    branches += ", else_branch = b () => (float[4] s) { s = Neg (x) }"
    text = f"m (float[4] x, bool c) => (float[4] y) {{ y = If (c) <{branches}> }}"
    assert random_of(text) == (["y"], ["If"])
    text = """m (float[4] x) => (float[4] y) { y = local.noisy (x) }
        <domain: "local", opset_import: ["" : 17]> noisy (v) => (r) { r = RandomUniformLike (v) }"""
    assert random_of(text) == (["y"], ["noisy"])
