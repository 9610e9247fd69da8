"""The problem of a round by arrays, against that of the graph of the round."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_passes.mapping.problem.partition_problem import CloningLimits, build_problem
from mcm_passes.mapping.problem.unrolled_problem import unrolled
from mcm_passes.parallelism.replicas.unrolling import unroll
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
    limits = CloningLimits(work_share=CloningLimits().work_share / classes)
    plan = FUSION_PLAN.get(model)
    built = build_problem(model, target, "relay", plan, cloning=limits)
    assert_same(unrolled(problem, classes), built)


def test_a_round_of_one_is_the_problem_itself():
    make, options = SMALL["plain-cnn"]
    target = load_target("mcm4")
    model, _, _ = run_passes(make(**options).build(), target, OPTIONS)
    problem = build_problem(model, target, "relay", FUSION_PLAN.get(model))
    assert unrolled(problem, 1) is problem
