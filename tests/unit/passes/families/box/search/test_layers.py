"""Tests for placements by layers."""

import dataclasses

import numpy as np
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_passes.families.box.search.units import has_layers, layered_placements, layers_of_all
from tests.generators.step_problems import random_step
from tests.generators.unrolled_steps import UnrolledSize, unrolled_box, unrolled_step


def test_layers_go_round_the_devices_once_or_twice() -> None:
    box = unrolled_box(2)
    size = UnrolledSize(layers=4, steps=2, hidden=1024, batch=64, vocabulary=8000)
    problem = unrolled_step(size, box)
    layer = layers_of_all(problem)
    free = problem.allowed.all(axis=1)
    for placement, stacks in zip(layered_placements(problem, box), (1, 2), strict=True):
        devices = [set(placement[free & (layer == k)].tolist()) for k in range(layer.max() + 1)]
        assert all(len(found) == 1 for found in devices)
        order = [found.pop() for found in devices]
        assert 1 + np.count_nonzero(np.diff(order)) == 2 * stacks


def test_ops_without_a_layer_go_with_the_nearest() -> None:
    box = unrolled_box(2)
    size = UnrolledSize(layers=2, steps=2, hidden=64, batch=8, vocabulary=100)
    problem = unrolled_step(size, box)
    last = int(np.flatnonzero(problem.layer >= 0)[-1])
    lost = problem.layer.copy()
    lost[last] = -1
    found = layers_of_all(dataclasses.replace(problem, layer=lost))
    assert (found >= 0).all()
    assert found[last] == layers_of_all(problem)[last]


def test_names_without_layers_are_told() -> None:
    box = unrolled_box(2)
    problem = random_step(np.random.default_rng(0), box)
    assert not has_layers(problem)
    with pytest.raises(CompileError) as caught:
        layers_of_all(problem)
    assert caught.value.diagnostics[0].code == "MCM-D050"
