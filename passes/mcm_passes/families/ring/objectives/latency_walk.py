"""Local search for the least latency: lists of units, then moves between chips.

For divided graphs, whose order ideals are too many. A list gives unit after unit the chip where it
ends soonest. A step of a walk moves one unit, or all that have to move with it, and is accepted as
in annealing. Every list and every step is played. Memory is counted here as in the estimate of the
problem; whether a placement keeps all rules is asked of the best list and of the best of each walk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_passes.families.ring.objectives.chip_play import (
    PlayedProblem,
    PlayScratch,
    play_chip,
    play_scratch,
)
from mcm_passes.families.ring.solver.random_stream import streams, uniform
from mcm_passes.mapping.loads.chip_demands import CROSSED, ENTERED, LIVE, PASSED, RECEIVED, SENT
from mcm_passes.mapping.models import evaluate
from mcm_passes.mapping.problem.rule_graph import Words, rule_graph
from mcm_passes.mapping.search.search import Search

HEATS = (0.01, 0.01, 0.003, 0.01, 0.003, 0.01, 0.003, 0.003)
"""Temperature at first, as a share of the latency, of walks that each begin at the best."""

PLAYED = 30_000_000
"""Nodes, tensors and chips that all steps of a search look at."""

PRICES = tuple(0.02 * 1.25**step for step in range(24))
"""Prices of another chip that lists are made with, as shares of the work of each chip."""

REACHES = (1, 4)
"""Chips beyond the first possible one that lists look at."""

SHARES = (1.0, 0.8, 0.6)
"""Shares of memory that lists fill."""

ALONE, UP = 0.5, 0.75
"""Below the first a unit moves alone, below the second with what depends on it."""


class _Walk(NamedTuple):
    """Data that walks have in common, and their space.

    Attributes:
        played: the problem of n nodes on C chips.
        behind: `[n]` rows of the nodes that depend on each.
        before: `[n]` rows of the nodes that each depends on.
        stream: `[1]`, of random numbers.
        scratch: for playing.
        nodes: `[n]`, by chip.
        first: `[C + 2]`, where the nodes of each chip begin.
        crossing: tensors by the link that they cross.
        link: `[C + 2]`, where those of each link begin.
        holder: `[I]`, the chip that was the last to count each item.
        ends: `[T]`, the last node that reads each tensor.
        freed: `[n]`, blocks that are free after each node.
    """

    played: PlayedProblem
    behind: Rows
    before: Rows
    stream: Words
    scratch: PlayScratch
    nodes: Ints
    first: Longs
    crossing: Ints
    link: Longs
    holder: Longs
    ends: Longs
    freed: Longs


def walk_from_best(known: Search, rng: np.random.Generator) -> None:
    """Walks from the best placement, if no unit is pinned and the host reaches every chip."""
    problem, graph = known.problem, rule_graph(known.problem)
    played = PlayedProblem.of(problem, graph)
    bound = bool((problem.pinned_chip >= 0).any()) or problem.routing == "strict"
    if known.best is None or bound or played.last_chip >= 0:
        return
    n, chips, demands = graph.num_nodes, problem.num_chips, played.demands
    tensors, items = demands.tensors.producer.size, demands.items.busy_s.size
    room = np.array(problem.limits.sram_bytes) // problem.limits.buffer_alignment_bytes
    walk = _Walk(
        played=played,
        behind=graph.after,
        before=graph.before,
        stream=streams(rng, 1),
        scratch=play_scratch(demands),
        nodes=np.zeros(n, np.int32),
        first=np.zeros(chips + 2, np.int64),
        crossing=np.zeros(tensors * chips, np.int32),
        link=np.zeros(chips + 2, np.int64),
        holder=np.zeros(items, np.int64),
        ends=demands.tensors.last.astype(np.int64),
        freed=np.zeros(n, np.int64),
    )
    _list_starts(known, walk, graph.units, room)
    steps = max(PLAYED // len(HEATS) // (n + tensors + chips), 1)
    for heat in HEATS:
        if known.must_stop():
            return
        chip_of = known.best.copy()
        chip_of[graph.units] = _walk(walk, known.best[graph.units], room, steps, heat)
        if not known.admit(chip_of):
            # Walks leave as much memory free as this one lacked.
            excess = (evaluate(problem, chip_of).memory_bytes - problem.limits.sram_bytes).max()
            room -= max(-(-int(excess) // problem.limits.buffer_alignment_bytes), 0)


def _list_starts(known: Search, walk: _Walk, units: Ints, room: Longs) -> None:
    """Offers lists, the soonest first, until one keeps all rules."""
    assert known.best is not None
    chip_of, share_s = known.best.copy(), float(known.problem.compute_s.sum()) / room.size
    prices = [price * share_s for price in PRICES]
    lists = [
        _listed(walk, room, (room * share).astype(np.int64), price_s, reach)
        for share in SHARES
        for reach in REACHES
        for price_s in prices
    ]
    for seconds, found in sorted(lists, key=lambda one: one[0]):
        if seconds >= known.best_period_s:
            return
        chip_of[units] = found
        if known.admit(chip_of):
            return


@entry_njit
def _listed(w: _Walk, room: Longs, most: Longs, price_s: float, reach: int) -> tuple[float, Ints]:
    """A placement that gives each node, in order, the chip where it ends soonest; its latency.

    Another chip counts as `price_s`, since no later node can be on those before.
    """
    d, speed = w.played.demands, w.played.speed
    tensors, n, chips = d.tensors, d.nodes.work_s.size, most.size
    chip, last = np.zeros(n, np.int32), np.zeros(tensors.producer.size, np.int64)
    engine_s, begin_s = np.zeros(chips), np.full(chips, np.inf)
    blocks, live = np.zeros(chips, np.int64), np.zeros(chips, np.int64)
    peak, w.holder[:] = np.zeros(chips, np.int64), -1
    there_s = np.zeros((tensors.producer.size, chips))
    for v in range(n):
        low, best = 0, chips - 1
        for e in range(w.before.ptr[v], w.before.ptr[v + 1]):
            low = max(low, chip[w.before.entries[e]])
        made = _made_blocks(w, v)
        best_s, end_s = np.inf, engine_s[best] + d.nodes.work_s[v] / speed[best]
        left = reach
        for c in range(low, chips):
            taken = blocks[c] + max(peak[c], live[c] + made)
            if taken + _more_blocks(w, v, c, chip, last) > most[c]:
                continue
            if left < 0:
                break
            left -= 1
            ready_s, late_s = _ready(w, v, c, chip, last, there_s, begin_s)
            then_s = max(ready_s, engine_s[c]) + d.nodes.work_s[v] / speed[c]
            if then_s + late_s + price_s * (c - low) < best_s:
                best_s, best, end_s = then_s + late_s + price_s * (c - low), c, then_s
        chip[v], engine_s[best] = best, end_s
        begin_s[best] = min(begin_s[best], end_s - d.nodes.work_s[v] / speed[best])
        blocks[best] += _more_blocks(w, v, best, chip, last)
        live[best] += made
        peak[best] = max(peak[best], live[best])
        for e in range(d.nodes.items.ptr[v], d.nodes.items.ptr[v + 1]):
            w.holder[d.nodes.items.entries[e]] = best
        for e in range(w.played.reads.ptr[v], w.played.reads.ptr[v + 1]):
            t = w.played.reads.entries[e]
            for c in range(last[t], best):
                blocks[c] += tensors.amount[t, SENT if c == chip[tensors.producer[t]] else PASSED]
                blocks[c + 1] += tensors.amount[t, RECEIVED] if c + 1 < best else 0
            last[t] = max(last[t], best)
            if w.ends[t] == v and tensors.producer[t] >= 0:
                live[chip[tensors.producer[t]]] -= tensors.amount[t, LIVE]
        for e in range(d.nodes.made.ptr[v], d.nodes.made.ptr[v + 1]):
            last[d.nodes.made.entries[e]] = best
            _send(w, d.nodes.made.entries[e], best, end_s, there_s)
    _close_ranks(chip, chips)
    return _latency(w, chip, room, np.inf), chip


@lean_inner_njit
def _send(w: _Walk, t: int, chip: int, end_s: float, there_s: Floats) -> None:
    """When a tensor that a chip makes is on each chip behind it, if no link is taken."""
    tensors, there_s[t, chip] = w.played.demands.tensors, end_s
    for c in range(chip, there_s.shape[1] - 1):
        at_s = there_s[t, c] + (tensors.passed_s[t] / w.played.speed[c] if c > chip else 0.0)
        at_s += tensors.amount[t, CROSSED] / w.played.link_bytes_per_s
        there_s[t, c + 1] = at_s + w.played.link_latency_s[c]


@lean_inner_njit
def _made_blocks(w: _Walk, v: int) -> int:
    blocks, made = 0, w.played.demands.nodes.made
    for e in range(made.ptr[v], made.ptr[v + 1]):
        blocks += w.played.demands.tensors.amount[made.entries[e], LIVE]
    return int(blocks)


@lean_inner_njit
def _more_blocks(w: _Walk, v: int, c: int, chip: Ints, last: Longs) -> int:
    """Blocks of memory that a node takes on a chip besides what is there."""
    d = w.played.demands
    blocks = d.nodes.out_room[v]
    for e in range(d.nodes.items.ptr[v], d.nodes.items.ptr[v + 1]):
        i = d.nodes.items.entries[e]
        if w.holder[i] != c:
            blocks += d.items.weight[i] + d.items.held[i]
    for e in range(w.played.reads.ptr[v], w.played.reads.ptr[v + 1]):
        t = w.played.reads.entries[e]
        if d.tensors.producer[t] >= 0 and last[t] < c:
            blocks += d.tensors.amount[t, RECEIVED]
    return int(blocks)


@lean_inner_njit
def _ready(
    w: _Walk, v: int, c: int, chip: Ints, last: Longs, there_s: Floats, begin_s: Floats
) -> tuple[float, float]:
    """When a chip has all that a node reads, and how much later others begin that pass it on."""
    tensors, ready_s, late_s = w.played.demands.tensors, 0.0, 0.0
    for e in range(w.played.reads.ptr[v], w.played.reads.ptr[v + 1]):
        t = w.played.reads.entries[e]
        if tensors.producer[t] < 0:
            at_s = tensors.amount[t, ENTERED] / w.played.host_bytes_per_s
            ready_s = max(ready_s, at_s + w.played.host_latency_s)
            continue
        ready_s = max(ready_s, there_s[t, c])
        for k in range(max(last[t], chip[tensors.producer[t]] + 1), c):
            # A relay runs before all nodes of its chip.
            late_s = max(late_s, there_s[t, k] - begin_s[k])
    return ready_s, late_s


@entry_njit
def _walk(w: _Walk, start: Ints, most: Longs, steps: int, heat: float) -> Ints:
    """The best placement `[n]` of a walk; `most` has the blocks of memory of each chip."""
    now, trial = start.copy(), start.copy()
    _close_ranks(now, most.size)
    now_s = _latency(w, now, most, np.inf)
    best, best_s, heat_s = now.copy(), now_s, heat * now_s
    for step in range(steps):
        trial[:] = now
        if best_s == np.inf or not _moved(w, trial, most.size):
            continue
        _close_ranks(trial, most.size)
        cooled_s = heat_s * (1.0 - step / steps)
        limit_s = now_s - cooled_s * np.log(max(uniform(w.stream, 0), 1e-12))
        trial_s = _latency(w, trial, most, limit_s)
        if trial_s < np.inf:
            now[:], now_s = trial, trial_s
            if now_s < best_s:
                best[:], best_s = now, now_s
    return best


@inner_njit
def _close_ranks(chip: Ints, chips: int) -> None:
    """Renames chips so that none is skipped."""
    rank = np.zeros(chips + 1, np.int32)
    for c in chip:
        rank[c + 1] = 1
    for c in range(chips):
        rank[c + 1] += rank[c]
    for v in range(chip.size):
        chip[v] = rank[chip[v]]


@lean_inner_njit
def _moved(w: _Walk, chip: Ints, chips: int) -> bool:
    """Moves a node, and perhaps others, so that dependencies point forwards; False if it cannot."""
    v, kind = int(uniform(w.stream, 0) * chip.size), uniform(w.stream, 0)
    if kind < ALONE:
        low, high, old = 0, chips - 1, chip[v]
        for e in range(w.before.ptr[v], w.before.ptr[v + 1]):
            low = max(low, chip[w.before.entries[e]])
        for e in range(w.behind.ptr[v], w.behind.ptr[v + 1]):
            high = min(high, chip[w.behind.entries[e]])
        to = low + int(uniform(w.stream, 0) * (high - low + 1))
        if uniform(w.stream, 0) < 0.5:
            to = old + 1 if uniform(w.stream, 0) < 0.5 else old - 1
        chip[v] = to
        return bool(to != old and low <= to <= high)
    far = 1 + int(uniform(w.stream, 0) ** 3 * 4)
    to = chip[v] + far if kind < UP else chip[v] - far
    if not 0 <= to < chips:
        return False
    chip[v] = to
    for k in range(v + 1, chip.size) if kind < UP else range(v - 1, -1, -1):
        if kind < UP:
            for e in range(w.before.ptr[k], w.before.ptr[k + 1]):
                chip[k] = max(chip[k], chip[w.before.entries[e]])
        else:
            for e in range(w.behind.ptr[k], w.behind.ptr[k + 1]):
                chip[k] = min(chip[k], chip[w.behind.entries[e]])
    return True


@lean_inner_njit
def _latency(w: _Walk, chip: Ints, most: Longs, limit_s: float) -> float:
    """When the answer is there; infinite above a limit, or where a chip has too little memory."""
    played, tensors, scratch = w.played, w.played.demands.tensors, w.scratch
    w.first[:] = 0
    w.link[:] = 0
    for v in range(chip.size):
        w.first[chip[v] + 2] += 1
    for t in range(tensors.producer.size):
        last = source = chip[tensors.producer[t]]
        for e in range(tensors.readers.ptr[t], tensors.readers.ptr[t + 1]):
            last = max(last, chip[tensors.readers.entries[e]])
        scratch.last[t] = last
        for c in range(source, last):
            w.link[c + 2] += 1
    for c in range(most.size):
        w.first[c + 2] += w.first[c + 1]
        w.link[c + 2] += w.link[c + 1]
    for v in range(chip.size):
        w.nodes[w.first[chip[v] + 1]] = v
        w.first[chip[v] + 1] += 1
    for t in range(tensors.producer.size):
        for c in range(chip[tensors.producer[t]], scratch.last[t]):
            w.crossing[w.link[c + 1]] = t
            w.link[c + 1] += 1
    end_s, w.holder[:], scratch.clock_s[:] = 0.0, -1, 0.0
    for c in range(most.size):
        nodes = w.nodes[w.first[c] : w.first[c + 1]]
        leaving = w.crossing[w.link[c] : w.link[c + 1]]
        arriving = w.crossing[w.link[max(c, 1) - 1] : w.link[c]] if c else leaving[:0]
        if not nodes.size or _blocks(w, c, nodes, arriving, leaving) > most[c]:
            return np.inf if nodes.size else end_s
        end_s = max(end_s, play_chip(played, c, nodes, leaving, leaving[:0], 0.0, scratch))
        if end_s > limit_s:
            return np.inf
        for t in leaving:
            scratch.arrival_s[t] = scratch.done_s[t]
    return end_s


@lean_inner_njit
def _blocks(w: _Walk, c: int, nodes: Ints, arriving: Ints, leaving: Ints) -> int:
    """Blocks of memory that nodes on a chip take, with what arrives there and leaves."""
    d, amount = w.played.demands, w.played.demands.tensors.amount
    rows, items, blocks, stays, peak = d.nodes.items, d.items, 0, 0, 0
    for t in arriving:
        blocks += amount[t, RECEIVED]
    for t in leaving:
        blocks += amount[t, PASSED]
    for v in nodes:
        blocks += d.nodes.out_room[v]
        for e in range(rows.ptr[v], rows.ptr[v + 1]):
            i = rows.entries[e]
            if w.holder[i] != c:
                w.holder[i] = c
                blocks += items.weight[i] + items.held[i]
        for e in range(d.nodes.made.ptr[v], d.nodes.made.ptr[v + 1]):
            t = d.nodes.made.entries[e]
            if w.scratch.last[t] > c:
                blocks += amount[t, SENT] - amount[t, PASSED]
            else:
                stays += amount[t, LIVE]
                w.freed[max(w.ends[t], v)] += amount[t, LIVE]
        peak = max(peak, stays)
        stays -= w.freed[v]
        w.freed[v] = 0
    return int(blocks + peak)
