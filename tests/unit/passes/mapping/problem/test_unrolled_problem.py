"""The problem of a round by arrays, against that of the graph of the round."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import pytest

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_passes.mapping.problem.partition_problem import build_problem
from mcm_passes.mapping.problem.unrolled_problem import unrolled
from mcm_passes.parallelism.replicas.unrolling import own_weights, unroll
from tests.generators.small_zoo import SMALL

OPTIONS = CompileOptions(passes="simplify,fuse,annotate_cost")


def assert_same(one, other):
    """All fields of two records, which may be records themselves."""
    for field in dataclasses.fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, field.name
            np.testing.assert_array_equal(left, right, err_msg=field.name)
        elif dataclasses.is_dataclass(left) and field.name in {"kinds", "copies"}:
            assert_same(left, right)
        else:
            assert left == right, field.name


@pytest.mark.parametrize("target_name", ["mcm4", "mixed16"])
@pytest.mark.parametrize("name", ["bert", "unet-cnn", "encoder-decoder-rnn"])
def test_same_as_that_of_the_graph(name, target_name):
    make, options = SMALL[name]
    target, classes = load_target(target_name), 3
    model, _, _ = run_passes(make(**options).build(), target, OPTIONS)
    problem = build_problem(model, target, "relay", FUSION_PLAN.get(model))
    unroll(model, classes, OPTIONS)
    # What may be copied is a share of the work of one inference.
    assert_same(
        unrolled(problem, classes), build_problem(model, target, "relay", FUSION_PLAN.get(model))
    )


def test_what_ops_store_is_of_each_class(tmp_path):
    """Weights of a body and data of a vocabulary, next to a weight that is read twice."""
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (string[2] x, bool k) '
        "=> (float[2] y, float[2] z) <float[2] w = {1.0, 2.0}> { y = Add (v, w) z = Mul (u, w) "
        'i = ai.onnx.ml.LabelEncoder <keys_strings = ["a"], values_floats = [3.0]> (x) '
        "u = If (k) <then_branch = t () => (float[2] p) <float[2] q = {3.0, 4.0}> "
        "{ p = Add (i, q) }, else_branch = e () => (float[2] o) { o = Neg (i) }> v = Relu (i) }"
    )
    nodes = {node.output[0]: node for node in proto.graph.node}
    del proto.graph.node[:]
    proto.graph.node.extend(nodes[name] for name in "iuvyz")
    onnx.save(proto, tmp_path / "m.onnx")
    target = load_target("mcm4")
    model, _, _ = run_passes(tmp_path / "m.onnx", target, OPTIONS)
    problem = build_problem(model, target, "relay", FUSION_PLAN.get(model))
    own = own_weights(model, 3)
    unroll(model, 3, OPTIONS)
    built = build_problem(model, target, "relay", FUSION_PLAN.get(model))
    found = dataclasses.replace(unrolled(problem, 3, own), clonable=built.clonable)
    assert_same(found, built)
    assert built.weight_names.count("w") == 1
    assert built.weight_names.count("q") == 3


def test_a_round_of_one_is_the_problem_itself():
    make, options = SMALL["plain-cnn"]
    target = load_target("mcm4")
    model, _, _ = run_passes(make(**options).build(), target, OPTIONS)
    problem = build_problem(model, target, "relay", FUSION_PLAN.get(model))
    assert unrolled(problem, 1) is problem
