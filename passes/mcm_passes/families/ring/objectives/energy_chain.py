"""The chain of order ideals that takes the least energy, and of such the one with the least period.

Energy is a sum over windows, so that the least energy up to an ideal is a shortest path. Chains
within rounding of the least are told apart by their period.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_passes.families.ring.exact.ideal_chain import (
    SLACK,
    ChipLimits,
    Covers,
    streamed_blocks,
    window_period,
)
from mcm_passes.families.ring.exact.triangle_readings import Triangles, keeps_rule
from mcm_passes.families.ring.loads.chip_demands import ChipDemands
from mcm_passes.families.ring.loads.crossings import IdealCrossings, holds
from mcm_passes.families.ring.loads.window_costs import (
    Window,
    WindowCost,
    window_cost,
    window_scratch,
)
from mcm_passes.families.ring.objectives.label_chain import queue_larger

TIE = 1e-12
"""Energies nearer than this share of the least are equal."""


class EnergyLattice(NamedTuple):
    """A problem and its ideals as the search takes them.

    Attributes:
        joules: the demands with joules for seconds.
        seconds: the demands, for periods.
        cuts: what crosses its ideals.
        covers: of the ideals.
        pinned: as for `best_chain`.
        priced: the chips with bytes per joule for bytes per second, all of speed 1.
        package: the chips.
        triangles: how long dependencies are judged.
        nodes_j: `[I]`, joules of the nodes that an ideal lacks, with what they give to the host.
        beyond_j: `[I]`, the same and once all that some of them need: what a chain that hands over
            there spends beyond at least.
        always_j: joules of every chain beside its windows.
        most_sram: blocks of the largest SRAM.
    """

    joules: ChipDemands
    seconds: ChipDemands
    cuts: IdealCrossings
    covers: Covers
    pinned: Longs
    priced: ChipLimits
    package: ChipLimits
    triangles: Triangles
    nodes_j: Floats
    beyond_j: Floats
    always_j: float
    most_sram: int


class EnergyChains(NamedTuple):
    """What is known of k chips up to each of I ideals; infinite where there is no chain.

    Attributes:
        least_j: `[I, C + 1]`, the least energy.
        energy_j: `[I, C + 1]`, that of the chain that is kept, which is within `TIE` of it.
        period_s: `[I, C + 1]`, the period of the chain that is kept.
        came_from: `[I, C + 1]`, the ideal before.
    """

    least_j: Floats
    energy_j: Floats
    period_s: Floats
    came_from: Ints


@entry_njit
def energy_chains(
    lattice: EnergyLattice, ceiling_j: float, most_windows: int
) -> tuple[EnergyChains, int]:
    """The least energy of k chips up to each ideal, where it may be part of a chain to a ceiling.

    Args:
        lattice: the problem.
        ceiling_j: chains beyond it are left out; may be infinite.
        most_windows: gives up beyond so many.

    Returns:
        The chains, and the number of windows, which is beyond `most_windows` where it gave up.
    """
    cuts, package, covers = lattice.cuts, lattice.package, lattice.covers
    count, words = cuts.members.shape
    chips = package.speed.size
    chains = EnergyChains(
        np.full((count, chips + 1), np.inf),
        np.full((count, chips + 1), np.inf),
        np.full((count, chips + 1), np.inf),
        np.full((count, chips + 1), -1, np.int32),
    )
    chains.least_j[0, 0] = chains.energy_j[0, 0] = lattice.always_j
    chains.period_s[0, 0] = lattice.seconds.host_s
    ceiling_j *= 1.0 + SLACK
    scratch = window_scratch(lattice.joules)
    inside = np.zeros(words, np.uint64)
    seen = np.full(count, -1, np.int64)
    queue = np.empty(count, np.int64)
    windows = 0
    for i in range(count - 1):
        before_j = chains.least_j[i].min()
        if not before_j + lattice.beyond_j[i] <= ceiling_j:
            continue
        head, tail = 0, 1
        queue[0] = i
        while head < tail:
            j = queue[head]
            head += 1
            if j != i:
                windows += 1
                if windows > most_windows:
                    return chains, windows
                for w in range(words):
                    inside[w] = cuts.members[j, w] & ~cuts.members[i, w]
                window = Window(i, j, inside)
                packing = package.packing
                # Marks differ between the two kinds of demands, which share what is marked.
                cost = window_cost(lattice.joules, cuts, window, scratch, 2 * windows, packing)
                left_j = ceiling_j - before_j
                # What a larger window needs as well is not needed beyond.
                if not _may_grow(lattice, cost, left_j - lattice.nodes_j[j]):
                    continue
                if _may_end(lattice, cost, left_j - lattice.beyond_j[j]) and keeps_rule(
                    lattice.joules.tensors, cuts, lattice.triangles, window
                ):
                    mark = 2 * windows + 1
                    timed = window_cost(lattice.seconds, cuts, window, scratch, mark, packing)
                    _extend(lattice, chains, window, cost, timed, ceiling_j)
            tail = queue_larger(covers, seen, queue, tail, i, j)
    return chains, windows


@lean_inner_njit
def _may_grow(lattice: EnergyLattice, cost: WindowCost, left_j: float) -> bool:
    """Whether a window or a larger one may be part of a chain: what is counted only grows."""
    if cost.weight_room > lattice.package.most_room:
        return False
    over = cost.weight_room - lattice.most_sram
    return bool(_kept_j(cost, lattice.priced) + _streamed_j(lattice.priced, over) <= left_j)


@lean_inner_njit
def _may_end(lattice: EnergyLattice, cost: WindowCost, left_j: float) -> bool:
    """Whether a chain below what is left may hand over at the end of a window."""
    crossing_j = cost.relay_s + cost.link_bytes / lattice.priced.link_bytes_per_s
    return bool(_kept_j(cost, lattice.priced) + crossing_j <= left_j)


@lean_inner_njit
def _kept_j(cost: WindowCost, priced: ChipLimits) -> float:
    """Joules of what a window does by itself: units, copies, and what the host sends and gets."""
    return float(cost.seconds + (cost.in_bytes + cost.out_bytes) / priced.host_bytes_per_s)


@lean_inner_njit
def _streamed_j(priced: ChipLimits, blocks: int) -> float:
    if blocks <= 0:
        return 0.0
    return float(priced.block_bytes * blocks / priced.stream_bytes_per_s)


@lean_inner_njit
def _extend(
    lattice: EnergyLattice,
    chains: EnergyChains,
    window: Window,
    cost: WindowCost,
    timed: WindowCost,
    ceiling_j: float,
) -> None:
    """Goes on with a window on every chip that may hold it."""
    package, priced = lattice.package, lattice.priced
    i, j, chips = window.start, window.end, package.speed.size
    is_last = j == lattice.cuts.members.shape[0] - 1
    own_j = _kept_j(cost, priced) + cost.relay_s + cost.link_bytes / priced.link_bytes_per_s
    for k in range(chips):
        if not chains.least_j[i, k] < np.inf or (k + 1 == chips and not is_last):
            continue
        own = lattice.pinned[j, k] - lattice.pinned[i, k]
        if lattice.pinned[j, chips] - lattice.pinned[i, chips] != own:
            continue
        streamed = streamed_blocks(package, cost, k)
        if streamed < 0:
            continue
        window_j = own_j + _streamed_j(priced, streamed)
        least_j = chains.least_j[i, k] + window_j
        if not least_j + lattice.beyond_j[j] <= ceiling_j:
            continue
        chains.least_j[j, k + 1] = min(chains.least_j[j, k + 1], least_j)
        energy_j = chains.energy_j[i, k] + window_j
        period_s = max(chains.period_s[i, k], window_period(package, timed, k))
        most_j = chains.least_j[j, k + 1] * (1.0 + TIE)
        kept = chains.energy_j[j, k + 1] <= most_j
        if energy_j <= most_j and (not kept or period_s < chains.period_s[j, k + 1]):
            chains.energy_j[j, k + 1] = energy_j
            chains.period_s[j, k + 1] = period_s
            chains.came_from[j, k + 1] = i


@entry_njit
def least_beyond(
    d: ChipDemands, cuts: IdealCrossings, host_bytes_per_s: float
) -> tuple[Floats, Floats]:
    """`nodes_j` and `beyond_j` of `EnergyLattice`.

    Args:
        d: the demands with joules for seconds.
        cuts: what crosses the ideals.
        host_bytes_per_s: bytes per joule.
    """
    count = cuts.members.shape[0]
    nodes, beyond = np.zeros(count), np.zeros(count)
    for i in range(count):
        for v in range(d.nodes.work_s.size):
            if not holds(cuts.members, i, v):
                nodes[i] += d.nodes.work_s[v] + d.nodes.out_bytes[v] / host_bytes_per_s
        beyond[i] = nodes[i]
        for item in range(d.items.busy_s.size):
            for e in range(d.items.users.ptr[item], d.items.users.ptr[item + 1]):
                if not holds(cuts.members, i, d.items.users.entries[e]):
                    beyond[i] += d.items.busy_s[item] + d.items.in_bytes[item] / host_bytes_per_s
                    break
    return nodes, beyond
