"""Loads of a partition that are kept up to date while units move: the inner loop of refinement.

An evaluation in full looks at every unit; a move changes the loads of the chips between the old
place and the new one, through the unit's own tensors and items. So a move costs as much as the
unit has tensors and items, whatever the size of the graph.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from mcm_compiler.lean_kernels import lean_njit
from mcm_compiler.partition import Bools, Floats, Ints, Longs
from mcm_compiler.ring_routes import COLLECTED, FROM_HOST, TO_HOST
from mcm_passes.mapping.loads import ring_kernels as rows
from mcm_passes.mapping.loads.ring_kernels import RECEIVED, count_host, count_way
from mcm_passes.solver.random_stream import uniform
from mcm_passes.strategies.unit_items import UnitItems

Words = npt.NDArray[np.uint64]

BUSY, LINK, HOST_OUT, HOST_IN, MEMORY = (
    0,
    *(1 + row for row in (rows.LINK, rows.HOST_OUT, rows.HOST_IN, rows.HELD)),
)
"""Rows of `Loads.now`: seconds, and then those of `ring_kernels`."""


class Travels(NamedTuple):
    """The tensors that move from chip to chip, and what moving them takes.

    Attributes:
        kind: `[T]`, as in `TensorColumns`, like the next two.
        amount: `[T, 8]`, bytes; each tensor has buffers of its own, at need as well.
        passed_s: `[T]`.
        live: `[T]`, bytes in SRAM where the tensor stays on its chip.
        maker_ptr: `[N + 1]`, CSR of the tensors that each unit makes.
        makes: likewise.
        reader_ptr: `[T + 1]`, CSR of the units that read each tensor.
        readers: likewise.
        read_ptr: `[N + 1]`, CSR of the tensors that each unit reads.
        reads: likewise.
    """

    kind: Longs
    amount: Longs
    passed_s: Floats
    live: Floats
    maker_ptr: Longs
    makes: Ints
    reader_ptr: Longs
    readers: Ints
    read_ptr: Longs
    reads: Ints


class MoveGraph(NamedTuple):
    """Dependencies between units with a place of their own, by unit.

    Attributes:
        next_ptr: `[N + 1]`, CSR of successors.
        next_units: successors, once for each tensor between.
        before_ptr: `[N + 1]`, CSR of predecessors.
        before_units: predecessors, likewise.
    """

    next_ptr: Longs
    next_units: Ints
    before_ptr: Longs
    before_units: Ints


class Ring(NamedTuple):
    """The package and the rules.

    Attributes:
        rate: `[4, C]`, what a second of a chip, link and host channel does: work at normal speed,
            or bytes.
        sram: `[C]`, bytes.
        relay: whether long dependencies are relayed.
        ends: whether only the ends of the ring reach the host.
        last_used: the highest chip with a unit; it stays so.
    """

    rate: Floats
    sram: Floats
    relay: bool
    ends: bool
    last_used: int


class Loads(NamedTuple):
    """A partition and its loads; all arrays change with each move.

    Attributes:
        chip_of: `[N]`.
        source: `[T]`, chip that each tensor comes from.
        last: `[T]`, its last reader's chip, or -1.
        at_last: `[T]`, readers on that chip.
        held: `[I, C]`, units on each chip that need each item.
        units_on: `[C]`, units with a place of their own on each chip.
        now: `[5, C]`, seconds of work, bytes of links and host channels, and bytes of memory, in
            the order of the constants above.
    """

    chip_of: Ints
    source: Ints
    last: Ints
    at_last: Ints
    held: Ints
    units_on: Ints
    now: Floats


@njit(cache=True, nogil=True)
def place(p: UnitItems, t: Travels, loads: Loads, fixed: Bools) -> None:
    """Fills all of `loads` but `now` from `chip_of`; `fixed[N]` are the units with a place."""
    loads.held[:] = 0
    loads.units_on[:] = 0
    loads.source[:] = 0
    loads.last[:] = -1
    loads.at_last[:] = 0
    for u in range(fixed.size):
        if not fixed[u]:
            continue
        c = loads.chip_of[u]
        loads.units_on[c] += 1
        for k in range(p.ptr[u], p.ptr[u + 1]):
            loads.held[p.items[k], c] += 1
        for k in range(t.maker_ptr[u], t.maker_ptr[u + 1]):
            loads.source[t.makes[k]] = c
    for tensor in range(t.kind.size):
        _find_last(t, loads, tensor)


@njit(cache=True, nogil=True)
def _find_last(t: Travels, loads: Loads, tensor: int) -> None:
    last, count = -1, 0
    for k in range(t.reader_ptr[tensor], t.reader_ptr[tensor + 1]):
        c = loads.chip_of[t.readers[k]]
        if c > last:
            last, count = c, 1
        elif c == last:
            count += 1
    loads.last[tensor] = last
    loads.at_last[tensor] = count


@lean_njit
def _count(t: Travels, ring: Ring, loads: Loads, tensor: int, sign: int) -> None:
    """Adds, or with `sign` -1 takes away, what a tensor loads where it is now."""
    kind = t.kind[tensor]
    source, last = loads.source[tensor], loads.last[tensor]
    if kind & TO_HOST:
        count_host(t.kind, t.amount, tensor, source, ring.last_used, sign, loads.now[1:])
        if kind & COLLECTED:
            last = max(last, ring.last_used)
    if last <= source:
        if sign > 0 and not kind & (FROM_HOST | TO_HOST):
            # Peaks are known only once all is counted anew: they are taken to grow, not to shrink.
            loads.now[MEMORY, source] += t.live[tensor]
        return
    busy, totals = loads.now[BUSY], loads.now[1:]
    if count_way(t.kind, t.amount, t.passed_s, tensor, source, last, sign, busy, totals):
        # Dependencies span one chip, or do so again once all of a step has moved.
        loads.now[MEMORY, last] += sign * t.amount[tensor, RECEIVED]


@njit(cache=True, nogil=True)
def shift(
    p: UnitItems, t: Travels, ring: Ring, loads: Loads, work_s: Floats, u: int, to: int
) -> None:
    """Moves one unit, whatever the rules say, and keeps the loads up to date."""
    now = loads.now
    old = loads.chip_of[u]
    loads.units_on[old] -= 1
    loads.units_on[to] += 1
    now[BUSY, old] -= work_s[u]
    now[BUSY, to] += work_s[u]
    for k in range(p.ptr[u], p.ptr[u + 1]):
        item = p.items[k]
        loads.held[item, old] -= 1
        if loads.held[item, old] == 0:
            now[BUSY, old] -= p.seconds[item]
            now[MEMORY, old] -= p.memory[item]
            now[HOST_IN, old] -= p.arriving[item]
        if loads.held[item, to] == 0:
            now[BUSY, to] += p.seconds[item]
            now[MEMORY, to] += p.memory[item]
            now[HOST_IN, to] += p.arriving[item]
        loads.held[item, to] += 1
    for k in range(t.maker_ptr[u], t.maker_ptr[u + 1]):
        tensor = t.makes[k]
        _count(t, ring, loads, tensor, -1)
        loads.source[tensor] = to
        _count(t, ring, loads, tensor, 1)
    loads.chip_of[u] = to
    for k in range(t.read_ptr[u], t.read_ptr[u + 1]):
        tensor = t.reads[k]
        last = loads.last[tensor]
        if old < last and to < last:
            continue
        if old < last and to == last:
            loads.at_last[tensor] += 1
            continue
        if old == last and to < last and loads.at_last[tensor] > 1:
            loads.at_last[tensor] -= 1
            continue
        _count(t, ring, loads, tensor, -1)
        if to > last:
            loads.last[tensor] = to
            loads.at_last[tensor] = 1
        else:
            _find_last(t, loads, tensor)
        _count(t, ring, loads, tensor, 1)


@njit(cache=True, nogil=True)
def score_between(
    ring: Ring, loads: Loads, reference_s: float, squarings: int, low: int, high: int
) -> float:
    """Sum of the powers of the loads of chips `low` to `high`, relative to `reference_s`."""
    total = 0.0
    for k in range(MEMORY):
        for c in range(low, high + 1):
            x = loads.now[k, c] / (ring.rate[k, c] * reference_s)
            for _ in range(squarings):
                x *= x
            total += x
    return total


@njit(cache=True, nogil=True)
def refine(
    p: UnitItems,
    t: Travels,
    ring: Ring,
    g: MoveGraph,
    loads: Loads,
    work_s: Floats,
    pinned: Ints,
    candidates: Ints,
    reference_s: float,
    squarings: int,
    heat: float,
    steps: int,
    most_moved: int,
    stream: Words,
) -> float:
    """Makes `steps` moves, annealed; returns the score at the end.

    A step takes a unit that may leave its chip, or one with up to `most_moved` others that must
    not stay behind or before it, to another chip. No chip runs empty, none gets more memory than
    it has or had, pinned units stay, and where nothing is relayed dependencies span at most one
    chip.

    Args:
        p: items of the units.
        t: tensors that travel.
        ring: the package.
        g: dependencies.
        loads: where the walk is.
        work_s: `[N]`.
        pinned: `[N]`, or -1.
        candidates: units to start at.
        reference_s: the period that scores are relative to.
        squarings: how often loads are squared: scores are sums of their `2 ** squarings`th powers.
        heat: temperature at the first step, as a share of the mean score of a chip.
        steps: steps to make.
        most_moved: most units of one step.
        stream: `[1]`, state of a random stream.
    """
    chips = ring.sram.size
    score = score_between(ring, loads, reference_s, squarings, 0, chips - 1)
    moved = np.empty(most_moved, np.int32)
    moved_from = np.empty(most_moved, np.int32)
    kept = np.empty((5, chips))
    for step in range(steps):
        u = candidates[int(uniform(stream, 0) * candidates.size)]
        low, high = _window(g, loads.chip_of, u)
        old = int(loads.chip_of[u])
        high = min(high, ring.last_used)
        alone = uniform(stream, 0) < 0.8
        if alone:
            if low == high:
                continue
            to = low + int(uniform(stream, 0) * (high - low))
            if to >= old:
                to += 1
            # Far moves are rarely good; half of the steps go next door where they can.
            if uniform(stream, 0) < 0.5:
                to = old + 1 if to > old else old - 1
        else:
            to = old + 1 if uniform(stream, 0) < 0.5 else old - 1
            if to < 0 or to > ring.last_used:
                continue
        first, final = min(old, to), max(old, to)
        count = _followers(g, loads.chip_of, pinned, u, to, moved, moved_from)
        if count <= 0:
            for k in range(-count):
                loads.chip_of[moved[k]] = moved_from[k]
            continue
        for k in range(count):
            first = min(first, int(moved_from[k]))
            final = max(final, int(moved_from[k]))
            loads.chip_of[moved[k]] = moved_from[k]
        if not ring.relay and not _adjacent(g, loads.chip_of, moved, moved_from, count, to):
            continue
        # What a tensor loads changes up to the chips where the units were and are.
        for k in range(5):
            for c in range(first, final + 1):
                kept[k, c] = loads.now[k, c]
        before = score_between(ring, loads, reference_s, squarings, first, final)
        for k in range(count):
            shift(p, t, ring, loads, work_s, moved[k], to)
        accepted = True
        for c in range(first, final + 1):
            memory = loads.now[MEMORY, c]
            if loads.units_on[c] == 0 or (memory > ring.sram[c] and memory > kept[MEMORY, c]):
                accepted = False
                break
        if accepted:
            after = score_between(ring, loads, reference_s, squarings, first, final)
            new = score + after - before
            cooling = heat * (1.0 - step / steps) * score / chips
            accepted = new <= score - cooling * np.log(max(uniform(stream, 0), 1e-12))
            if accepted:
                score = new
        if not accepted:
            for k in range(count - 1, -1, -1):
                shift(p, t, ring, loads, work_s, moved[k], moved_from[k])
            for k in range(5):
                for c in range(first, final + 1):
                    loads.now[k, c] = kept[k, c]
    return score


@njit(cache=True, nogil=True)
def _window(g: MoveGraph, chip_of: Ints, u: int) -> tuple[int, int]:
    """The chips that a unit may be on while all others stay."""
    low, high = 0, np.iinfo(np.int32).max
    for k in range(g.before_ptr[u], g.before_ptr[u + 1]):
        low = max(low, int(chip_of[g.before_units[k]]))
    for k in range(g.next_ptr[u], g.next_ptr[u + 1]):
        high = min(high, int(chip_of[g.next_units[k]]))
    return low, high


@njit(cache=True, nogil=True)
def _followers(
    g: MoveGraph, chip_of: Ints, pinned: Ints, u: int, to: int, moved: Ints, moved_from: Ints
) -> int:
    """Sets `chip_of` to `to` for a unit and all that must move along.

    Returns:
        How many moved; the negative of it where there are too many or one is pinned.
    """
    if pinned[u] >= 0:
        return 0
    up = to > chip_of[u]
    moved[0], moved_from[0] = u, chip_of[u]
    chip_of[u] = to
    count, done = 1, 0
    while done < count:
        x = moved[done]
        done += 1
        begin = g.next_ptr[x] if up else g.before_ptr[x]
        end = g.next_ptr[x + 1] if up else g.before_ptr[x + 1]
        for k in range(begin, end):
            v = g.next_units[k] if up else g.before_units[k]
            if chip_of[v] < to if up else chip_of[v] > to:
                if pinned[v] >= 0 or count == moved.size:
                    return -count
                moved[count], moved_from[count] = v, chip_of[v]
                chip_of[v] = to
                count += 1
    return count


@njit(cache=True, nogil=True)
def _adjacent(
    g: MoveGraph, chip_of: Ints, moved: Ints, moved_from: Ints, count: int, to: int
) -> bool:
    """Whether dependencies of the moved units span at most one chip once they are on `to`."""
    for k in range(count):
        chip_of[moved[k]] = to
    fine = True
    for k in range(count):
        low, high = to, to
        u = moved[k]
        for e in range(g.before_ptr[u], g.before_ptr[u + 1]):
            low = min(low, chip_of[g.before_units[e]])
        for e in range(g.next_ptr[u], g.next_ptr[u + 1]):
            high = max(high, chip_of[g.next_units[e]])
        if high - to > 1 or to - low > 1:
            fine = False
            break
    for k in range(count):
        chip_of[moved[k]] = moved_from[k]
    return fine
