"""Local search for the least latency: units move between chips, and every step is played.

For divided graphs, whose order ideals are too many. A step moves one unit, or all that have to move
with it, and is accepted as in annealing. The walk counts weights and buffers; whether a placement
keeps all rules is asked of the best of each walk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Ints, Longs
from mcm_passes.families.ring.objectives.chip_play import (
    PlayedProblem,
    PlayScratch,
    play_chip,
    play_scratch,
)
from mcm_passes.families.ring.solver.random_stream import streams, uniform
from mcm_passes.mapping.problem.rule_graph import Words, rule_graph
from mcm_passes.mapping.search.search import Search

HEATS = (0.01, 0.01, 0.003, 0.01, 0.003, 0.01, 0.003, 0.003)
"""Temperature at first, as a share of the latency, of walks that each begin at the best."""

PLAYED = 30_000_000
"""Nodes, tensors and chips that all steps of a search look at."""

LESS_ROOM = 0.1
"""Share of memory that is left free more where a walk ended with too little of it."""

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
        behind=Rows(graph.next_ptr, graph.next_nodes.astype(np.int64)),
        before=Rows(graph.before_ptr, graph.before_nodes.astype(np.int64)),
        stream=streams(rng, 1),
        scratch=play_scratch(demands),
        nodes=np.zeros(n, np.int32),
        first=np.zeros(chips + 2, np.int64),
        crossing=np.zeros(tensors * chips, np.int32),
        link=np.zeros(chips + 2, np.int64),
        holder=np.zeros(items, np.int64),
    )
    steps, share = max(PLAYED // len(HEATS) // (n + tensors + chips), 1), 1.0
    for heat in HEATS:
        if known.must_stop():
            return
        chip_of, most = known.best.copy(), (room * share).astype(np.int64)
        chip_of[graph.units] = _walk(walk, known.best[graph.units], most, steps, heat)
        if not known.admit(chip_of):
            share -= LESS_ROOM


@entry_njit
def _walk(w: _Walk, start: Ints, most: Longs, steps: int, heat: float) -> Ints:
    """The best placement `[n]` of a walk; `most` has the blocks of memory of each chip."""
    now, best, trial = start.copy(), start.copy(), start.copy()
    rank = np.zeros(most.size + 1, np.int32)
    now_s = _latency(w, now, most, np.inf)
    best_s, heat_s = now_s, heat * now_s
    for step in range(steps):
        trial[:] = now
        if best_s == np.inf or not _moved(w, trial, most.size):
            continue
        # No chip is skipped.
        rank[:] = 0
        for v in range(trial.size):
            rank[trial[v] + 1] = 1
        for c in range(most.size):
            rank[c + 1] += rank[c]
        for v in range(trial.size):
            trial[v] = rank[trial[v]]
        cooled_s = heat_s * (1.0 - step / steps)
        limit_s = now_s - cooled_s * np.log(max(uniform(w.stream, 0), 1e-12))
        trial_s = _latency(w, trial, most, limit_s)
        if trial_s < np.inf:
            now[:], now_s = trial, trial_s
            if now_s < best_s:
                best[:], best_s = now, now_s
    return best


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
        if not nodes.size or _blocks(w, c, nodes) > most[c]:
            return np.inf if nodes.size else end_s
        end_s = max(end_s, play_chip(played, c, nodes, leaving, leaving[:0], 0.0, scratch))
        if end_s > limit_s:
            return np.inf
        for t in leaving:
            scratch.arrival_s[t] = scratch.done_s[t]
    return end_s


@lean_inner_njit
def _blocks(w: _Walk, c: int, nodes: Ints) -> int:
    """Blocks of memory for weights and buffers of what nodes on a chip need."""
    rows, items, blocks = w.played.demands.nodes.items, w.played.demands.items, 0
    for v in nodes:
        for e in range(rows.ptr[v], rows.ptr[v + 1]):
            i = rows.entries[e]
            if w.holder[i] != c:
                w.holder[i] = c
                blocks += items.weight[i] + items.held[i]
    return int(blocks)
