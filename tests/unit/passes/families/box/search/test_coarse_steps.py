"""Coarse steps have no circle and all of the work; with one op a group they are the step."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions
from mcm_hardware.families.box.step_simulator import StepSimulator
from mcm_passes.families.box.clusters.weight_clusters import fastest_times, heads_and_tails
from mcm_passes.families.box.search.coarse_steps import CoarseStep, coarse_step
from mcm_passes.families.box.search.units import fallbacks
from tests.generators.step_problems import random_box, random_placements, random_step, with_copies

SEEDS = st.integers(0, 2**20)


def drawn_together(problem: StepProblem, box: Box, piece: np.ndarray, buckets: int) -> CoarseStep:
    depth = heads_and_tails(problem.edges, fastest_times(problem, box))[0]
    return coarse_step(problem, box, piece, depth, fallbacks(problem, box).instead, buckets)


def random_case(seed: int, pieces: int) -> tuple[Box, StepProblem, np.ndarray, Any]:
    """A box where copies take as long as their bytes, a step, and pieces of it."""
    rng = np.random.default_rng(seed)
    box = random_box(rng)
    box = with_copies(box, box.copy_bytes_per_s, np.zeros_like(box.copy_latency_s))
    problem = random_step(rng, box, 40)
    piece = rng.integers(0, pieces, problem.num_groups)[problem.together].astype(np.int32)
    return box, problem, np.unique(piece, return_inverse=True)[1].astype(np.int32), rng


@given(SEEDS, st.integers(1, 12), st.integers(1, 9))
def test_groups_have_no_circle_and_all_the_work(seed: int, pieces: int, buckets: int) -> None:
    box, problem, piece, _ = random_case(seed, pieces)
    coarse = drawn_together(problem, box, piece, buckets)
    group, groups = coarse.group_of, coarse.problem.num_ops
    assert group.shape == (problem.num_ops,)
    assert np.unique(group).tolist() == list(range(groups))
    # An edge between groups leads from the lower number to the higher one.
    ends = group[problem.edges]
    assert (ends[:, 0] <= ends[:, 1]).all()
    assert (coarse.problem.edges[:, 0] < coarse.problem.edges[:, 1]).all()
    np.testing.assert_allclose(coarse.problem.time_s.sum(axis=0), problem.time_s.sum(axis=0))
    assert (piece == piece[coarse.first[group]]).all()
    assert (problem.allowed == coarse.problem.allowed[group]).all()
    stays = coarse.problem.value_bytes[coarse.problem.stays].sum()
    assert stays == problem.value_bytes[problem.stays].sum()


@given(SEEDS, st.integers(1, 12), st.integers(1, 9))
def test_devices_are_as_busy_and_send_as_much(seed: int, pieces: int, buckets: int) -> None:
    box, problem, piece, rng = random_case(seed, pieces)
    coarse = drawn_together(problem, box, piece, buckets)
    ways = fallbacks(problem, box)
    devices = rng.integers(0, box.num_devices, int(piece.max()) + 1)
    place = ways.placement(devices[piece])
    of_groups = coarse.placement(place)
    assert (of_groups[coarse.group_of] == place).all()
    wanted = coarse.ways(ways).placement(devices[piece[coarse.first]])
    assert wanted.tolist() == of_groups.tolist()
    whole = StepSimulator(problem, box, StepConditions()).evaluate(place[None])
    about = StepSimulator(coarse.problem, box, StepConditions()).evaluate(of_groups[None])
    np.testing.assert_allclose(about.busy_s, whole.busy_s)
    np.testing.assert_allclose(about.copy_s, whole.copy_s)


@given(SEEDS, st.integers(1, 9), st.sampled_from(["fifo", "critical_path"]))
def test_with_one_op_a_group_times_are_those_of_the_step(
    seed: int, buckets: int, order: Any
) -> None:
    rng = np.random.default_rng(seed)
    box = random_box(rng)
    every = np.arange(30, dtype=np.int32)
    problem = dataclasses.replace(random_step(rng, box, 30), together=every)
    coarse = drawn_together(problem, box, every, buckets)
    read = np.isin(np.arange(problem.num_values), problem.reads)
    # Two values of an op that the same ops read are one.
    assume(coarse.problem.num_values == (read | problem.stays | problem.kept).sum())
    assert coarse.group_of.tolist() == every.tolist()
    places = random_placements(rng, problem, 5)
    one, same = (
        StepSimulator(each, box, StepConditions(order=order)).evaluate(places)
        for each in (problem, coarse.problem)
    )
    assert one.seconds.tolist() == same.seconds.tolist()
    assert one.copy_s.tolist() == same.copy_s.tolist()


def chain(piece: list[int], buckets: int = 1) -> CoarseStep:
    """Ops of 1 s one after another, each of which makes two values of 10 bytes for the next."""
    ops = len(piece)
    rng = np.random.default_rng(0)
    box = random_box(rng)
    latency = np.ones_like(box.copy_latency_s)
    box = with_copies(box, np.full_like(latency, 3.0), latency)
    values = 2 * ops
    problem = StepProblem(
        names=tuple(f"op{n}" for n in range(ops)),
        op_types=("MatMul",) * ops,
        time_s=np.ones((ops, 2)),
        value_names=tuple(f"v{v}" for v in range(values)),
        value_bytes=np.full(values, 10, np.int64),
        producer=np.repeat(np.arange(ops, dtype=np.int32), 2),
        view_of=np.full(values, -1, np.int32),
        stays=np.zeros(values, np.bool_),
        kept=np.zeros(values, np.bool_),
        read_begin=2 * np.maximum(np.arange(ops + 1) - 1, 0).astype(np.int64),
        reads=np.arange(values - 2, dtype=np.int32),
        together=np.arange(ops, dtype=np.int32),
        allowed=np.ones((ops, box.num_devices), np.bool_),
    )
    return drawn_together(problem, box, np.array(piece, np.int32), buckets)


@pytest.mark.parametrize(
    ("piece", "buckets", "groups"),
    [
        ([0, 0, 0, 0], 1, [0, 0, 0, 0]),
        ([0, 0, 1, 0], 1, [0, 0, 1, 2]),
        ([0, 0, 0, 0], 2, [0, 0, 1, 1]),
        ([0, 1, 1, 0], 2, [0, 1, 2, 3]),
    ],
)
def test_groups_end_where_pieces_and_buckets_do(
    piece: list[int], buckets: int, groups: list[int]
) -> None:
    assert chain(piece, buckets).group_of.tolist() == groups


def test_values_that_the_same_parts_read_are_one_with_the_latency_of_both() -> None:
    coarse = chain([0, 0, 1]).problem
    assert coarse.value_bytes.tolist() == [10 + 10 + 3]
    assert coarse.time_s[:, 0].tolist() == [2.0, 1.0]
    assert coarse.reads.tolist() == [0]


def test_a_step_without_ops_has_no_groups() -> None:
    assert chain([]).problem.num_ops == 0
