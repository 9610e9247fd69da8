"""Machines whose devices do not all reach each other, nor the host: what is valid there."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget
from mcm_compiler.machines.machine import HOST, Machine
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_passes.mapping.models import evaluate, periods_of
from mcm_passes.mapping.search.named import strategy_of
from tests.generators.partition_problems import make_problem

DEVICES = 3


def one_way() -> Machine:
    """A line from device 0 to the last; inputs enter at the first, outputs leave at the last."""
    links = MachineBuilder(DEVICES)
    steps = [links.channel(c, c + 1, 1e9) for c in range(DEVICES - 1)]
    for source in range(DEVICES):
        for target in range(source + 1, DEVICES):
            links.route(source, target, steps[source:target])
    links.route(HOST, 0, [links.channel(HOST, 0, 1e9)])
    links.route(DEVICES - 1, HOST, [links.channel(DEVICES - 1, HOST, 1e9)])
    return links.machine("line", [1 << 30] * DEVICES, [1.0] * DEVICES)


@pytest.mark.parametrize("seed", range(25))
def test_no_placement_is_valid_that_has_no_route(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = [(u, v) for u in range(5) for v in range(u + 1, 5) if rng.random() < 0.4]
    problem = make_problem([1, 2, 3, 2, 1], edges, chips=DEVICES, routing="strict")
    problem = replace(problem, given_machine=one_way())
    periods = periods_of(problem)
    valid: list[float] = []
    for row in itertools.product(range(DEVICES), repeat=5):
        chip_of = np.array(row, np.int32)
        forwards = all(row[u] <= row[v] for u, v in edges)
        enters = leaves = True
        for t, maker in enumerate(problem.tensor_producer.tolist()):
            readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
            if maker < 0:
                enters &= all(row[u] == 0 for u in readers.tolist())
            elif problem.tensor_to_host[t]:
                leaves &= row[maker] == DEVICES - 1
        found = evaluate(problem, chip_of)
        assert found.valid == (forwards and enters and leaves)
        assert {v.rule for v in found.violations} <= {"unreachable", "acyclic"}
        if found.valid:
            valid.append(periods(chip_of))
    outcome = strategy_of("local_search").solve(problem, periods, rng, Budget(evaluations=4_000))
    if not valid:
        assert outcome.chip_of is None
        return
    assert outcome.chip_of is not None
    assert periods(outcome.chip_of) == pytest.approx(min(valid))


def test_the_message_names_what_has_no_way() -> None:
    problem = make_problem([1, 2], [(0, 1)], chips=DEVICES, routing="strict")
    problem = replace(problem, given_machine=one_way())
    messages = [v.message for v in evaluate(problem, np.array([1, 0], np.int32)).violations]
    assert any("no route leads there" in message for message in messages)
