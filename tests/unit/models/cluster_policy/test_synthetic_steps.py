"""Random steps can be simulated, and are the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_hardware.families.box.box_package import BoxPackage
from mcm_models.cluster_policy.synthetic_builder import DeviceRates
from mcm_models.cluster_policy.synthetic_steps import FAMILIES, recurrent_step, synthetic_case
from tests.generators.step_problems import random_box


@pytest.mark.parametrize("family", FAMILIES)
def test_steps_of_each_family_are_whole(family: str):
    rng = np.random.default_rng(1)
    rates = (DeviceRates(1e12, 1e11, 1e-6),) * 2
    problem = FAMILIES[family](rng).problem(random_box(rng), rates)
    assert (problem.edges[:, 0] < problem.edges[:, 1]).all()
    assert np.isfinite(problem.time_s).all()
    trained = problem.op_types.count("Adam")
    weights = problem.op_types.count("Variable")
    assert trained > 0
    assert weights == 3 * trained


def test_cases_follow_from_seed_and_index():
    one, same, other = synthetic_case(1, 2), synthetic_case(1, 2), synthetic_case(1, 3)
    assert one.box_text == same.box_text
    assert one.step.ops == same.step.ops
    assert one.box_text != other.box_text


def test_boxes_are_described_as_they_are_meant():
    case = synthetic_case(1, 2)
    target = BoxPackage.from_text("random", case.box_text)
    kind = target.spec.kinds[target.box.kind_of[1]]
    rates = case.rates[kind.name]
    found = (kind.flops_per_s, kind.memory_bytes_per_s, kind.launch_s)
    np.testing.assert_allclose(found, (rates.flops, rates.bytes_per_s, rates.launch_s))
    problem = case.problem(target.box)
    placement = np.where(problem.allowed[:, 1], 1, 0).astype(np.int32)
    results = target.step_evaluator(problem).evaluate(placement[None])
    assert results.seconds[0] > problem.time_s[:, target.box.kind_of[1]].max()


def test_attention_reads_every_state():
    plain = recurrent_step(2, 3, 4, 2)
    attending = recurrent_step(2, 3, 4, 2, attention=True)
    kinds = [op.kind for op in attending.ops]
    assert len(attending.ops) > len(plain.ops)
    joined = [op for op in attending.ops if op.kind == "Concat"]
    assert [len(op.reads) for op in joined] == [3, 3, 3]
    assert kinds.count("Softmax") == 3
