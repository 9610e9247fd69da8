"""An independent check of `heavy_chains`: chips take over the heaviest units in order.

Shares no code with the search. Ideals are whole numbers that are grown unit by unit. Flows along
shortest paths show the least load of a chip, up to the period that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mcm_compiler.contracts.partition import Bools, Floats, Longs, PartitionProblem
from mcm_passes.mapping.bound_checks.plain_need import plain_copies
from mcm_passes.mapping.bound_checks.window_check import Network, closure_of, network_of

MOST_UNITS = 2_000
"""Units up to which the check is tried."""

MOST_IDEALS = 400
"""Ideals of the heavy units."""

MOST_FLOWS = 30_000
"""Flows after which the check gives up."""


def no_chain_of_heavy_units(problem: PartitionProblem, period_s: float) -> bool | None:
    """Return True if no chain of ideals of the heaviest units has all chips within a period."""
    if not 0 < int((~problem.clonable).sum()) <= MOST_UNITS:
        return None
    fixed, above, edges = closure_of(problem)
    work = problem.compute_s[fixed] / float(problem.chip_speed.max())
    heavy, grown_of = _few_ideals(work, above)
    network = _network(problem, work, edges) if problem.relays else None
    before, behind = above[heavy], above[:, heavy].T.copy()
    own = np.eye(fixed.size, dtype=np.bool_)[heavy]
    chips, flows = problem.num_chips, 0
    whole = (1 << heavy.size) - 1

    def members(bits: int) -> Bools:
        return np.array([bits >> i & 1 for i in range(heavy.size)], np.bool_)

    def needed(units: Bools) -> int:
        return int(np.ceil(work[units].sum() / period_s * (1.0 - 1e-9)))

    fewest = {0: 0}
    for held in sorted(grown_of, key=int.bit_count):
        if held == whole or fewest.get(held, chips) >= chips:
            continue
        earlier = np.logical_or.reduce((before | own)[members(held)])
        queue, seen = [held], {held}
        for grown in queue:
            new = members(grown & ~held)
            inside = np.logical_or.reduce(before[new]) & np.logical_or.reduce(
                behind[new]
            ) | np.logical_or.reduce(own[new])
            if work[inside].sum() >= period_s * (1.0 + 1e-9):
                continue
            more = [larger for larger in grown_of[grown] if larger not in seen]
            seen.update(more)
            queue += more
            up_to = np.logical_or.reduce((before | own)[members(grown)])
            later = np.logical_or.reduce((behind | own)[members(whole & ~grown)])
            count = max(fewest[held] + 1, needed(up_to))
            useful = count < fewest.get(grown, chips + 1) and count + needed(later) <= chips
            if grown == held or not useful:
                continue
            flows += 1
            if flows > MOST_FLOWS:
                return None
            if network is None or not _takes(network, earlier, inside, later, period_s):
                fewest[grown] = count
    return whole not in fewest


def _few_ideals(work: Floats, above: Bools) -> tuple[Longs, dict[int, list[int]]]:
    """The heaviest units with few ideals, ascending; and which ideals each ideal grows to."""
    by_work = sorted(range(work.size), key=lambda u: (-work[u], u))
    low, high = 1, len(by_work)
    heavy, found = np.array(by_work[:1]), {0: [1], 1: list[int]()}
    while low <= high:
        middle = (low + high) // 2
        chosen = np.sort(np.array(by_work[:middle]))
        leads = [sum(1 << int(i) for i in np.flatnonzero(above[u, chosen])) for u in chosen]
        ideals = _grown(leads)
        if ideals is None:
            high = middle - 1
        else:
            heavy, found, low = chosen, ideals, middle + 1
    return heavy, found


def _grown(leads: list[int]) -> dict[int, list[int]] | None:
    """The ideals that each ideal grows to by one unit; None where there are too many."""

    def larger(held: int) -> Iterator[int]:
        for i, lead in enumerate(leads):
            if not (held >> i & 1 or lead & ~held):
                yield held | 1 << i

    found: dict[int, list[int]] = {}
    waiting = {0}
    while waiting:
        held = waiting.pop()
        found[held] = list(larger(held))
        waiting.update(one for one in found[held] if one not in found)
        if len(found) + len(waiting) > MOST_IDEALS:
            return None
    return found


def _takes(network: Network, earlier: Bools, inside: Bools, later: Bools, period_s: float) -> bool:
    """Return True if a chip takes a period at least, with units before, on and behind it."""
    side = np.zeros(network.ptr.size - 1, np.int8)
    n = earlier.size
    side[:n][earlier] = side[n : 2 * n][earlier | inside] = 1
    side[:n][inside | later] = side[n : 2 * n][later] = 2
    return network.carries(side, period_s)


def _network(problem: PartitionProblem, work: Floats, edges: list[tuple[int, int]]) -> Network:
    """The choices of a chip: n units, n again, and T tensors."""
    n, speed, readers = work.size, float(problem.chip_speed.max()), problem.placed_readers
    number = {u: i for i, u in enumerate(np.flatnonzero(~problem.clonable).tolist())}
    arcs: list[tuple[int, int, float]] = []
    for u in range(n):
        arcs += [(n + u, u, float(work[u])), (u, n + u, np.inf)]
    for u, v in edges:
        arcs += [(v, u, np.inf), (n + v, n + u, np.inf)]
    relay_s: list[float] = problem.relay_s.tolist()
    vertex = 2 * n + len(relay_s)
    for written, views, seconds in _copied_once(problem):
        for t in (written, *views):
            relay_s[t] -= seconds
        arcs.append((number[int(problem.tensor_producer[written])], vertex, seconds / speed))
        arcs += [(vertex, n + number[v], np.inf) for v in readers.row(views[-1]).tolist()]
        vertex += 1
    for t, u in enumerate(problem.tensor_producer.tolist()):
        if u in number:
            arcs.append((number[u], 2 * n + t, relay_s[t] / speed))
            arcs += [(2 * n + t, n + number[v], np.inf) for v in readers.row(t).tolist()]
    return network_of(arcs, vertex)


def _copied_once(problem: PartitionProblem) -> list[tuple[int, list[int], float]]:
    """Tensors that are written, one chain of views of each, and the least that passing on takes.

    Wherever the units that make the views are, a chip between the first maker and a reader of the
    last view relays one of these tensors or copies a view.
    """
    copied = plain_copies(problem)
    used: set[int] = set()
    found: list[tuple[int, list[int], float]] = []
    for t, (writer, _) in copied.items():
        views = [t]
        while (source := int(problem.tensor_alias[views[0]])) in copied:
            views.insert(0, source)
        makers = [int(problem.tensor_producer[x]) for x in (source, *views)] if source >= 0 else []
        if writer < 0 or not makers or makers[0] != writer or problem.clonable[makers].any():
            continue
        if used.isdisjoint((source, *views)):
            used.update((source, *views))
            passed = [float(problem.relay_s[x]) for x in (source, *views)]
            found.append((source, views, min(passed + [copied[x][1] for x in views])))
    return found
