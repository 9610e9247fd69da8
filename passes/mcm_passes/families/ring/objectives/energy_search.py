"""The partition that takes the least energy, by chains of order ideals or along orders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Ints, LowerBound, PartitionProblem
from mcm_compiler.text.units import count_text
from mcm_passes.families.ring.exact.ideal_chain import SLACK, ChipLimits
from mcm_passes.families.ring.exact.ideal_dp import IdealLattice
from mcm_passes.families.ring.exact.triangle_readings import TriangleReading, Triangles
from mcm_passes.families.ring.loads.chip_demands import chip_demands
from mcm_passes.families.ring.objectives import energy_chain
from mcm_passes.families.ring.objectives.joules import joule_problem
from mcm_passes.families.ring.order_encoding.cpsat_model import Incumbent
from mcm_passes.mapping.problem.order_ideals import OrderIdeals
from mcm_passes.mapping.problem.rule_graph import RuleGraph, rule_graph
from mcm_passes.mapping.problem.topological_orders import topological_orders

PROOF = "energy_chains"

ORDERS = 4
"""Orders whose beginnings are tried where a graph has too many ideals."""


@dataclass(frozen=True)
class Effort:
    """What a search may look at: most ideals, and most windows between two of them."""

    ideals: int
    windows: int


@dataclass(frozen=True, eq=False)
class EnergyOptimum:
    """What a search over chains came to.

    Attributes:
        chip_of: `[N]`, the partition with the least energy up to the ceiling, of such that with the
            least period; None where there is none.
        least_j: its energy, up to rounding; infinite where there is none.
        complete: whether all chains up to the ceiling were looked at.
        windows: that were weighed.
    """

    chip_of: Ints | None
    least_j: float
    complete: bool
    windows: int


class EnergyIdeals(IdealLattice):
    """A problem with its `energy`, prepared for chains of its ideals."""

    def __init__(self, problem: PartitionProblem, ideals: OrderIdeals) -> None:
        super().__init__(problem, ideals)
        self._priced_problem = joule_problem(problem).reached()
        self._joules = joules = chip_demands(self._priced_problem, self._graph.units)
        self._host_rate = self._priced_problem.limits.host_bytes_per_s
        self._always_j = 0.0
        if problem.limits.at_ends:
            # What several chips read may enter once for all of them.
            once = joules.items._replace(in_bytes=np.zeros_like(joules.items.in_bytes))
            self._always_j = int(joules.items.in_bytes.sum()) / self._host_rate
            self._joules = joules._replace(items=once)
        self._beyond = energy_chain.least_beyond(self._joules, self._cuts, self._host_rate)

    def of_problem(self, problem: PartitionProblem) -> EnergyIdeals:
        """The lattice of a problem with the same units and dependencies, and other memory."""
        return EnergyIdeals(problem, self._ideals)

    @property
    def count(self) -> int:
        """How many ideals there are."""
        return self._ideals.count

    def least(self, reading: TriangleReading, ceiling_j: float, most_windows: int) -> EnergyOptimum:
        """The partition with the least energy up to a ceiling, by a reading of the triangle rule.

        Args:
            reading: how windows treat long dependencies.
            ceiling_j: what takes more is not looked for; may be infinite.
            most_windows: gives up beyond so many.
        """
        lattice = energy_chain.EnergyLattice(
            self._joules,
            self._demands,
            self._cuts,
            self._covers,
            self._pinned,
            self._priced(),
            self._chips,
            Triangles(reading == "adjacent", reading == "between", *self._closure),
            *self._beyond,
            self._always_j,
            int(self._chips.sram_room.max()),
        )
        chains, windows = energy_chain.energy_chains(lattice, ceiling_j, most_windows)
        complete = windows <= most_windows
        last = self._ideals.count - 1
        least_j = float(chains.least_j[last].min())
        if not np.isfinite(least_j):
            return EnergyOptimum(None, np.inf, complete, windows)
        # The fewest chips of those that tie.
        chips = int((chains.energy_j[last] <= least_j * (1.0 + 2.0 * energy_chain.TIE)).argmax())
        chip_of = np.zeros(self._problem.num_units, np.int32)
        members, at = self._ideals.members, last
        for chip in range(chips - 1, -1, -1):
            before = int(chains.came_from[at, chip + 1])
            inside = members[at] & ~members[before]
            bits = np.unpackbits(inside.astype("<u8").view(np.uint8), bitorder="little")
            chip_of[self._graph.units[np.flatnonzero(bits)]] = chip
            at = before
        return EnergyOptimum(chip_of, least_j, complete, windows)

    def _priced(self) -> ChipLimits:
        limits = self._priced_problem.limits
        return self._chips._replace(
            speed=np.ones_like(self._chips.speed),
            link_bytes_per_s=limits.link_bytes_per_s,
            host_bytes_per_s=limits.host_bytes_per_s,
            stream_bytes_per_s=limits.stream_bytes_per_s,
        )


def least_energy_of(known: Incumbent, problem: PartitionProblem, effort: Effort) -> str:
    """Improves a partition and a bound on the energy.

    Where a graph has too many ideals, the beginnings of some orders stand for them, which proves
    nothing.

    Args:
        known: what there is, and what comes.
        problem: with its `energy`. Bounds hold for what every memory plan needs at least.
        effort: what may be looked at.

    Returns:
        Why there is no partition; empty where the search says nothing of that.
    """
    if known.must_stop() or known.closed(SLACK):
        return ""
    lattice = EnergyIdeals.of(problem.at_need(), effort.ideals)
    if lattice is not None:
        found = _offer_least(known, lattice, problem, effort)
        if found.complete:
            return _conclude(known, found, lattice.count, problem)
    graph = rule_graph(problem)
    if graph.num_nodes < effort.ideals:
        for order in topological_orders(problem, ORDERS):
            if not known.must_stop():
                beginnings = EnergyIdeals(problem, beginnings_of(graph, order.units))
                _offer_least(known, beginnings, problem, effort)
    return ""


def _offer_least(
    known: Incumbent, lattice: EnergyIdeals, problem: PartitionProblem, effort: Effort
) -> EnergyOptimum:
    """Offers the best chains of ideals; what the reading says that leaves out the least."""
    strict = problem.routing == "strict"
    reading: TriangleReading = "adjacent" if strict else "none"
    found = lattice.least(reading, known.period_s, effort.windows)
    fits = found.chip_of is None or known.offer(found.chip_of)
    if not fits and problem.memory == "estimate":
        roomy = lattice.of_problem(problem).least(reading, known.period_s, effort.windows)
        if roomy.chip_of is not None:
            known.offer(roomy.chip_of)
    if strict:
        found = lattice.least("none", known.period_s, effort.windows)
        if found.chip_of is not None:
            known.offer(found.chip_of)
    return found


def _conclude(
    known: Incumbent, found: EnergyOptimum, ideals: int, problem: PartitionProblem
) -> str:
    """Takes note of what all chains show; why there is no partition, or empty."""
    chains = f"chains of {count_text(ideals, 'order ideal')}"
    if found.chip_of is None and known.chip_of is None:
        known.exhausted = True
        return f"none exists: none of all {chains} fits memory and rules"
    # No chain is below what is known by more than rounding.
    least_j = min(found.least_j, known.period_s)
    optimal = least_j * (1.0 + 10.0 * SLACK) >= known.period_s
    argument = f"best of all {chains}" if optimal else f"more is taken by all {chains}"
    if problem.routing == "strict":
        argument += ", the triangle rule left out"
    known.prove(LowerBound(least_j * (1.0 - 5.0 * SLACK), argument, PROOF))
    return ""


def beginnings_of(graph: RuleGraph, units: Ints) -> OrderIdeals:
    """The ideals that are beginnings of an order.

    Args:
        graph: of n nodes.
        units: `[n]`, the units of its nodes in that order.
    """
    n = graph.num_nodes
    node_of = np.full(int(graph.units.max(initial=-1)) + 1, -1, np.int64)
    node_of[graph.units] = np.arange(n)
    order = node_of[units]
    members = np.zeros((n + 1, (n + 63) // 64), np.uint64)
    for k, node in enumerate(order.tolist()):
        members[k + 1] = members[k]
        members[k + 1, node >> 6] |= np.uint64(1) << np.uint64(node & 63)
    ptr = np.minimum(np.arange(n + 2), n).astype(np.int64)
    following = np.arange(1, n + 1, dtype=np.int32)
    return OrderIdeals(members, ptr, following, order.astype(np.int32))
