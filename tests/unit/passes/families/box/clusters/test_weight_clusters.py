"""Tests for clusters around weights."""

import dataclasses

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.box import VARIABLE
from mcm_passes.families.box.clusters.weight_clusters import (
    by_slack,
    divided,
    fastest_times,
    in_order,
    is_weight,
    weight_clusters,
)
from mcm_passes.families.box.search.coarse_steps import prepared
from tests.generators.step_problems import random_box, random_step
from tests.generators.unrolled_steps import UnrolledSize, unrolled_box, unrolled_step


def test_layers_of_an_unrolled_network_are_found_without_names() -> None:
    box = unrolled_box(2)
    size = UnrolledSize(layers=3, steps=6, hidden=64, batch=8, vocabulary=512)
    problem = unrolled_step(size, box)
    clusters = weight_clusters(problem)
    layers = [problem.layer[clusters == k] for k in range(int(clusters.max()) + 1)]
    usual = [int(np.bincount(of_ops[of_ops >= 0]).argmax()) for of_ops in layers]
    assert set(usual) == {0, 1, 2}
    for layer, of_ops in zip(usual, layers, strict=True):
        assert (of_ops == layer).mean() > 0.9


def test_what_an_optimizer_keeps_is_with_its_variable() -> None:
    problem = unrolled_step(UnrolledSize(layers=2, steps=3), unrolled_box(2))
    clusters = weight_clusters(problem)
    for n, kind in enumerate(problem.op_types):
        if kind == "Adam":
            kept = problem.reads[problem.read_begin[n] : problem.read_begin[n + 1]]
            variables = [int(problem.producer[v]) for v in kept]
            variables = [v for v in variables if problem.op_types[v] == VARIABLE]
            assert {int(clusters[v]) for v in variables} == {int(clusters[n])}


@pytest.mark.parametrize("seed", range(4))
def test_labels_have_no_gaps_and_divide_nothing_that_runs_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_step(rng, random_box(rng), 40)
    label = weight_clusters(problem)
    assert set(label.tolist()) == set(range(int(label.max()) + 1))
    for group in range(problem.num_groups):
        assert len(set(label[problem.together == group].tolist())) == 1


def test_clusters_are_joined_until_there_are_few_enough() -> None:
    problem = unrolled_step(UnrolledSize(layers=3, steps=3), unrolled_box(2))
    assert int(weight_clusters(problem).max()) + 1 > 2
    assert int(weight_clusters(problem, most=2).max()) + 1 == 2


def test_parts_are_about_equal_and_in_order_of_depth() -> None:
    depth = np.arange(12.0)[::-1]
    label = np.zeros(12, np.int32)
    parts = divided(label, np.arange(12, dtype=np.int32), depth, np.ones(12), 3)
    assert parts.tolist() == [2] * 4 + [1] * 4 + [0] * 4


def test_slack_is_what_the_longest_path_leaves() -> None:
    rng = np.random.default_rng(3)
    box = random_box(rng)
    problem = random_step(rng, box, 30)
    duration = fastest_times(problem, box)
    step = prepared(problem, box)
    # By paths, one op after the other, from both ends.
    before, after = np.zeros(30), np.zeros(30)
    for source, target in problem.edges.tolist():
        before[target] = max(before[target], before[source] + duration[source])
    for source, target in problem.edges.tolist()[::-1]:
        after[source] = max(after[source], after[target] + duration[target])
    through = before + duration + after
    np.testing.assert_allclose(step.depth, before)
    np.testing.assert_allclose(step.slack, through.max() - through, atol=1e-12)


def test_urgent_ops_are_apart_from_those_that_can_wait() -> None:
    label = np.zeros(3, np.int32)
    together = np.arange(3, dtype=np.int32)
    found = by_slack(label, together, np.array([0.0, 0.1, 0.9]), 1.0)
    assert found.tolist() == [0, 1, 2]


def test_labels_in_the_order_in_which_they_occur() -> None:
    assert in_order(np.array([7, 3, 7, 9], np.int32)).tolist() == [0, 1, 0, 2]


def test_a_step_without_weights_is_one_cluster() -> None:
    problem = random_step(np.random.default_rng(0), random_box(np.random.default_rng(0)))
    types = tuple("Relu" if kind == VARIABLE else kind for kind in problem.op_types)
    weightless = dataclasses.replace(
        problem, op_types=types, producer=np.maximum(problem.producer, 0)
    )
    assert not is_weight(weightless).any()
    assert not weight_clusters(weightless).any()
