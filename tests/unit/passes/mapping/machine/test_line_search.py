"""Strategies on small machines of every topology, against all placements by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget, PartitionProblem
from mcm_compiler.machines.machine import Machine
from mcm_compiler.registry import PROOF_CHECKERS
from mcm_hardware.families.package.package_target import TopologyPackage, mesh36
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.machine.any_machine import ANY_MACHINE
from mcm_passes.mapping.machine.line_search import exact_bound
from mcm_passes.mapping.models import periods_of
from mcm_passes.mapping.search.named import strategy_of
from mcm_passes.mapping.search.search import Search
from tests.acme_mesh.tests.plain_mesh import all_placements, is_valid, period_s
from tests.acme_mesh.tests.random_meshes import mesh_case

TOPOLOGIES = (
    'kind = "line"\nsize = [3]\ntwo_way = false',
    'kind = "line"\nsize = [4]',
    'kind = "ring"\nsize = [3]\nvirtual_channels = 2',
    'kind = "ring"\nsize = [4]\nvirtual_channels = 2\ntwo_way = false',
    'kind = "mesh"\nsize = [2, 2]',
    'kind = "torus"\nsize = [1, 4]\nvirtual_channels = 2',
    'kind = "links"\nlinks = [[0, 1], [0, 2], [1, 3], [2, 3], [3, 0]]\nvirtual_channels = 3',
)
SPEEDS = (
    "",
    "\n\n[[override]]\nchips = [1]\nspeed = 0.5",
    "\n\n[[override]]\nchips = [0]\nspeed = 2.0\nsram_mib = 32",
)

ACTIVATIONS = 400_000
"""More bytes than the tensors of a case take on one chip with all their buffers."""


@dataclass(frozen=True)
class ByHand:
    """A machine as `plain_mesh` reads one: the way of a tensor as pairs of places."""

    machine: Machine
    link: float
    host: float

    def way(self, source: int, target: int) -> list[tuple[int, int]]:
        ends = self.machine.channel_ends
        return [tuple(ends[c].tolist()) for c in self.machine.route(source, target)]


@dataclass(frozen=True)
class Case:
    problem: PartitionProblem
    machine: ByHand

    @property
    def best_s(self) -> float:
        """The least period of all placements that fit with room for every tensor."""
        limits = self.problem.limits
        least = tuple(size - ACTIVATIONS for size in limits.sram_bytes)
        tight = Case(replace(self.problem, limits=replace(limits, sram_bytes=least)), self.machine)
        valid = (row for row in all_placements(self.problem) if tight.holds(row))
        return min((period_s(self.problem, self.machine, row) for row in valid), default=np.inf)

    def holds(self, row) -> bool:
        """Whether a placement has no circle, weights that fit, and a route for every tensor."""
        problem, reaches = self.problem, self.machine.machine.reaches
        for t, maker in enumerate(problem.tensor_producer.tolist()):
            first, last = problem.tensor_ptr[t], problem.tensor_ptr[t + 1]
            readers = problem.tensor_consumers[first:last].tolist() if maker >= 0 else []
            if not all(reaches[row[maker], row[reader]] for reader in readers):
                return False
        return is_valid(problem, row)


def case(seed: int) -> Case:
    draw = np.random.default_rng(seed)
    head, _, rest = mesh36().source_text.partition("[topology]")
    rate = draw.choice([1, 8, 64])
    rest = rest[rest.index("[chip]") :].replace(
        "[link]\nbandwidth_gb_per_s = 32", f"[link]\nbandwidth_gb_per_s = {rate}"
    )
    topology, speed = draw.choice(TOPOLOGIES), draw.choice(SPEEDS)
    package = TopologyPackage.from_text("small", f"{head}[topology]\n{topology}\n\n{rest}{speed}")
    few = mesh_case(seed, shape=(1, 2), units=int(draw.integers(2, 5))).problem
    limits = package.limits
    if draw.random() < 0.5:
        room = int(few.weight_bytes.max() + draw.integers(0, few.weight_bytes.sum())) + ACTIVATIONS
        limits = replace(limits, sram_bytes=(room,) * limits.num_chips)
    problem = replace(few, limits=limits, given_machine=package.machine)
    link = 1.0 / package.spec.link_bytes_per_s
    return Case(problem, ByHand(package.machine, link, 1.0 / limits.host_bytes_per_s))


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_no_bound_is_above_the_best_of_all_placements(first: int) -> None:
    for seed in range(first, first + 20):
        found = case(seed)
        problem, best_s = found.problem, found.best_s
        search = Search(problem, periods_of(problem), Budget())
        exact = exact_bound(problem, np.random.default_rng(0), search)
        for bound in (lower_bound(problem), exact):
            if bound is None:
                continue
            assert bound.seconds <= best_s * (1 + 1e-9), f"seed {seed}: {bound.argument}"
            checker = PROOF_CHECKERS.get(bound.proof)
            shown = checker.rules_out(problem.at_need(), bound.seconds * (1 - 1e-6))
            assert shown is not False, f"seed {seed}: {bound.proof}"


@pytest.mark.parametrize("text", ["local_search", "multilevel", "reorder", "portfolio"])
def test_strategies_find_valid_placements_near_the_best(text: str) -> None:
    ratios = []
    for seed in range(16):
        found = case(seed)
        problem, periods = found.problem, periods_of(found.problem)
        along = ANY_MACHINE.adapted(text, strategy_of(text))
        assert along is not None
        rng, budget = np.random.default_rng(0), Budget(evaluations=2_000)
        outcome = along.solve(problem, periods, rng, budget)
        if outcome.chip_of is None:
            continue
        row = outcome.chip_of.tolist()
        assert found.holds(row)
        assert periods(outcome.chip_of) == pytest.approx(period_s(problem, found.machine, row))
        ratios.append(periods(outcome.chip_of) / found.best_s)
        if outcome.bound is not None:
            assert outcome.bound.seconds <= found.best_s * (1 + 1e-9)
    assert len(ratios) >= 8
    assert np.median(ratios) < 1.0 + 1e-9
    assert max(ratios) < 1.3


@pytest.mark.parametrize("seed", [3, 5])
def test_where_the_first_order_of_devices_has_no_room_others_are_searched(seed: int) -> None:
    found = case(seed)
    problem, periods = found.problem, periods_of(found.problem)
    assert np.isfinite(found.best_s)
    search = strategy_of("local_search")
    outcome = search.solve(problem, periods, np.random.default_rng(0), Budget(evaluations=2_000))
    assert outcome.chip_of is not None
    assert found.holds(outcome.chip_of.tolist())
