"""Random steps can be simulated, and are the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_models.planner.synthetic_steps import (
    FAMILIES,
    RecurrentSize,
    random_accelerators,
    recurrent_step,
    synthetic_case,
)


@pytest.mark.parametrize("family", FAMILIES)
def test_steps_of_each_family_are_whole(family: str):
    rng = np.random.default_rng(1)
    box, rates = random_accelerators(rng)
    problem = FAMILIES[family](rng).problem(box, rates)
    assert (problem.edges[:, 0] < problem.edges[:, 1]).all()
    assert np.isfinite(problem.time_s).all()
    trained = problem.op_types.count("Adam")
    weights = problem.op_types.count("Variable")
    assert trained > 0
    assert weights == 3 * trained


def test_cases_follow_from_seed_and_index():
    one, same, other = synthetic_case(1, 2), synthetic_case(1, 2), synthetic_case(1, 3)
    assert (one.problem.reads == same.problem.reads).all()
    assert (one.problem.time_s == same.problem.time_s).all()
    assert (one.box.memory_bytes == same.box.memory_bytes).all()
    assert one.problem.num_ops != other.problem.num_ops


def test_attention_reads_every_state():
    plain = recurrent_step(RecurrentSize(2, 3, 4, 2))
    attending = recurrent_step(RecurrentSize(2, 3, 4, 2, attention=True))
    kinds = [op.kind for op in attending.ops]
    assert len(attending.ops) > len(plain.ops)
    joined = [op for op in attending.ops if op.kind == "Concat"]
    assert [len(op.reads) for op in joined] == [3, 3, 3]
    assert kinds.count("Softmax") == 3
