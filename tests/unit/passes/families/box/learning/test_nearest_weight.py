"""Ops join the weight that is nearest."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.boxes.step import INPUT
from mcm_models.cluster_policy.synthetic_builder import DeviceRates, StepBuilder
from mcm_passes.families.box.learning.nearest_weight import nearest_weight_groups
from tests.generators.step_problems import random_box


def test_two_layers_and_their_updates():
    step = StepBuilder()
    value = step.op(INPUT, (), (8,))[0]
    for layer in range(2):
        weight = step.variable(100, layer)
        value = step.op("MatMul", (value, weight), (8,), 1.0, layer)[0]
        value = step.op("Relu", (value,), (8,), layer=layer)[0]
        value = step.op("Relu", (value,), (8,), layer=layer)[0]
    step.train(step.op("Nll", (value,), (4,), layer=1)[0])
    rates = (DeviceRates(1.0, 1.0, 0.0),) * 2
    problem = step.problem(random_box(np.random.default_rng(0)), rates)
    groups = nearest_weight_groups(problem)
    assert groups.max() == 1
    for layer in range(2):
        members = np.flatnonzero(problem.layer == layer)
        kinds = [problem.op_types[n] for n in members]
        near = [n for n, kind in zip(members, kinds, strict=True) if kind in {"MatMul", "Adam"}]
        assert len({int(groups[n]) for n in near}) == 1
    assert groups[1] != groups[5]


def test_steps_without_weights_are_one_group():
    step = StepBuilder()
    value = step.op(INPUT, (), (8,))[0]
    step.op("Relu", (value,), (8,))
    problem = step.problem(random_box(np.random.default_rng(0)), (DeviceRates(1.0, 1.0, 0.0),) * 2)
    assert nearest_weight_groups(problem).tolist() == [0, 0]


def test_numbers_have_no_gaps(case):
    groups = nearest_weight_groups(case.problem)
    assert sorted(set(groups.tolist())) == list(range(groups.max() + 1))
    first = np.unique(case.problem.together, return_index=True)[1]
    assert (groups == groups[first[case.problem.together]]).all()
