"""The simulator of steps against a plain one, by hand, and its faults."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.box import StepProblem
from mcm_compiler.contracts.boxes.evaluation import QueueOrder, StepConditions
from mcm_hardware.families.box.step_simulator import StepSimulator
from tests.generators.step_problems import random_box, random_placements, random_step
from tests.oracles.step_simulation import play


def _case(seed: int) -> tuple[np.random.Generator, StepProblem, StepSimulator, StepConditions]:
    rng = np.random.default_rng(seed)
    box = random_box(rng, gpus=int(rng.integers(1, 5)))
    problem = random_step(rng, box, ops=int(rng.integers(8, 50)))
    order: QueueOrder = "critical_path" if seed % 2 else "fifo"
    factors = rng.uniform(0.9, 1.1, problem.num_ops) if seed % 3 == 0 else np.empty(0)
    conditions = StepConditions(order, factors)
    return rng, problem, StepSimulator(problem, box, conditions), conditions


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_plain_simulator(seed: int) -> None:
    rng, problem, simulator, conditions = _case(seed)
    placements = random_placements(rng, problem, 4)
    results = simulator.evaluate(placements)
    for b, placement in enumerate(placements):
        played = play(problem, simulator.box, placement, conditions)
        assert results.seconds[b] == pytest.approx(played.seconds, rel=1e-12)
        assert results.peak_bytes[b].tolist() == played.peak_bytes
        assert results.busy_s[b] == pytest.approx(played.busy_s, rel=1e-9)
        assert results.copy_s[b] == pytest.approx(played.copy_s, rel=1e-9)
        trace = simulator.trace(placement)
        assert trace.start_s == pytest.approx([played.starts[n] for n in range(problem.num_ops)])
        moved = list(zip(trace.copy_value.tolist(), trace.copy_to.tolist(), strict=True))
        assert moved == played.copies
        assert trace.peak_bytes.tolist() == played.peak_bytes


@pytest.mark.parametrize("seed", range(10))
def test_critical_ops_are_a_chain_without_idle_time(seed: int) -> None:
    rng, problem, simulator, _ = _case(seed)
    trace = simulator.trace(random_placements(rng, problem, 1)[0])
    chain = trace.critical_ops.tolist()
    assert trace.end_s[chain[-1]] == trace.end_s.max()
    assert trace.start_s[chain[0]] == 0.0
    assert (np.diff(trace.start_s[chain]) >= 0).all()
    ends = set(trace.copy_end_s.tolist())
    for one, other in pairwise(chain):
        begins = trace.start_s[other]
        assert trace.end_s[one] == begins or (trace.end_s[one] < begins and begins in ends)


def test_one_at_a_time_and_many_are_the_same() -> None:
    rng, problem, simulator, _ = _case(5)
    placements = random_placements(rng, problem, 6)
    together = simulator.evaluate(placements)
    alone = [simulator.evaluate(placement[None]) for placement in placements]
    assert together.seconds.tolist() == [float(one.seconds[0]) for one in alone]
    assert np.array_equal(together.peak_bytes, np.concatenate([one.peak_bytes for one in alone]))


def test_placements_at_fault() -> None:
    rng, problem, simulator, _ = _case(3)
    (good,) = random_placements(rng, problem, 1)
    for op, device, word in ((7, 99, "does not exist"), (7, -1, "does not exist"), (0, 1, "may")):
        bad = good.copy()
        bad[op] = device
        with pytest.raises(ValueError, match=word):
            simulator.evaluate(bad[None])
    group = np.bincount(problem.together).argmax()
    assert (problem.together == group).sum() > 1
    free = replace(problem, allowed=np.ones_like(problem.allowed))
    bad = good.copy()
    last = np.flatnonzero(problem.together == group)[-1]
    bad[last] = (bad[last] + 1) % simulator.box.num_devices
    with pytest.raises(ValueError, match="together"):
        StepSimulator(free, simulator.box, StepConditions()).evaluate(bad[None])
    with pytest.raises(ValueError, match="ops"):
        simulator.evaluate(good[None, :-1])


def test_a_step_whose_ops_read_nothing_is_traced() -> None:
    _, problem, simulator, conditions = _case(1)
    alone = replace(
        problem, reads=np.empty(0, np.int32), read_begin=np.zeros(problem.num_ops + 1, np.int64)
    )
    alone = replace(alone, allowed=np.ones_like(alone.allowed))
    trace = StepSimulator(alone, simulator.box, conditions).trace(
        np.zeros(problem.num_ops, np.int32)
    )
    on_host = problem.time_s[:, simulator.box.kind_of[0]]
    assert trace.end_s == pytest.approx(trace.start_s + on_host)
    assert trace.critical_ops.size
