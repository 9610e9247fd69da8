"""What the network sees of a problem and of one of its mappings."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mapping_network import layout
from mapping_network.layout import STATIC_BRANCH, STATIC_UNIT, Singles
from mcm_compiler.arrays.kernels import lean_inner_njit
from mcm_compiler.arrays.types import Ints, Longs
from mcm_compiler.contracts.fabrics.fabric import EAST, NORTH, SOUTH, WEST, Fabric, MappingProblem
from mcm_passes.families.fabric.formulas.analytic import Formula, Room
from mcm_passes.families.fabric.formulas.terms import (
    BOUND,
    BUFFER,
    BURST,
    CHANNEL,
    LINK,
    NUM_TERMS,
    QUEUED,
    TRIP,
    Facts,
    work_out,
)
from mcm_passes.families.fabric.routing_trees import Routed

MOST = 4.0
"""Times are seen as at most so many bounds: what is far off says no more than that."""


def unit_features(problem: MappingProblem, fabric: Fabric, facts: Facts) -> Singles:
    """`[U, STATIC_UNIT]`, the first of `UNIT_COLUMNS`."""
    firings = np.maximum(problem.firings, 1)
    bound = facts.bound
    columns = (
        problem.firings * problem.cycles / bound,
        facts.arriving / bound,
        facts.leaving / bound,
        facts.serial / bound,
        np.log1p(problem.firings) / 8,
        np.log1p(problem.cycles) / 8,
        np.minimum(problem.burst, firings) / firings,
        np.where(problem.depth > 0, 1 / np.maximum(problem.depth, 1), 0),
        problem.memory_bytes / fabric.memory_bytes,
        (problem.stage + 0.5) / problem.num_stages,
    )
    return _bounded(columns, STATIC_UNIT)


def branch_features(problem: MappingProblem, fabric: Fabric, facts: Facts) -> Singles:
    """`[L, STATIC_BRANCH]`, the first of `BRANCH_COLUMNS`."""
    streams = problem.stream_of_leaf
    flits = problem.flits[streams].astype(np.float64)
    width = np.diff(problem.leaf_ptr)[streams]
    firings = np.maximum(problem.firings[problem.leaf], 1)
    bound, hop = facts.bound, 2.0 * facts.hop
    columns = (
        flits / bound,
        np.log(flits) / 10,
        np.log(width) / 3,
        np.minimum(flits / firings / fabric.window_flits, 1),
        facts.rounds * hop / bound,
        facts.burst_rounds * hop / bound,
        (facts.arriving[problem.leaf] - flits) / bound,
        (facts.leaving[problem.source[streams]] - flits) / bound,
    )
    return _bounded(columns, STATIC_BRANCH)


def _bounded(columns: tuple[np.ndarray, ...], count: int) -> Singles:
    assert len(columns) == count
    return np.minimum(np.stack(columns, axis=1), MOST).astype(np.float32)


LEAST = 1e-3
"""Logarithms are taken of at least this share of the bound."""

UNIT_MOVES, BRANCH_MOVES = (
    len(layout.UNIT_COLUMNS) - layout.STATIC_UNIT,
    len(layout.BRANCH_COLUMNS) - layout.STATIC_BRANCH,
)
"""Columns that depend on the mapping."""


class Seen(NamedTuple):
    """What is seen of one mapping; kernels fill it in place. Vectors lie along rows.

    Attributes:
        units: `[UNIT_MOVES, U]`.
        branches: `[BRANCH_MOVES, L]`.
        links: `[LINK_COLUMNS, 4 * switches]`, of which the first `sizes[0]` are used.
        pair_ptr: `[L + 1]`, CSR of the pairs by branch.
        pair_link: `[L * longest way]`, place in `links` of each link on the way.
        pair_weight: as long, flits over the bound; those of a stream that share a link share them.
        whole: `[GLOBAL_COLUMNS]`.
        sizes: `[1]`, links in use.
        place: `[4 * switches]`, scratch: place of each link in `links`, or -1.
        streams_on: `[2, 4 * switches]`, scratch: streams by virtual channel.
        branches_on: `[4 * switches]`, scratch: branches of the stream at hand; 0 between calls.
        busy_out: `[switches]`, scratch: load of the busiest link that leaves.
        busy_in: `[switches]`, scratch: of the busiest that leads there.
    """

    units: layout.Singles
    branches: layout.Singles
    links: layout.Singles
    pair_ptr: Ints
    pair_link: Ints
    pair_weight: layout.Singles
    whole: layout.Singles
    sizes: Ints
    place: Ints
    streams_on: Ints
    branches_on: Ints
    busy_out: Longs
    busy_in: Longs


def seen_for(formula: Formula) -> Seen:
    """Arrays of the right sizes."""
    grid, streams = formula.tables.grid, formula.tables.streams
    switches = grid.rows * grid.cols
    leaves = len(streams.leaf)
    longest = leaves * max(grid.rows + grid.cols - 2, 1)
    return Seen(
        np.zeros((UNIT_MOVES, len(streams.kind)), np.float32),
        np.zeros((BRANCH_MOVES, leaves), np.float32),
        np.zeros((len(layout.LINK_COLUMNS), 4 * switches), np.float32),
        np.zeros(leaves + 1, np.int32),
        np.zeros(longest, np.int32),
        np.zeros(longest, np.float32),
        np.zeros(len(layout.GLOBAL_COLUMNS), np.float32),
        np.zeros(1, np.int32),
        np.zeros(4 * switches, np.int32),
        np.zeros((2, 4 * switches), np.int32),
        np.zeros(4 * switches, np.int32),
        np.zeros(switches, np.int64),
        np.zeros(switches, np.int64),
    )


@lean_inner_njit
def look(formula: Formula, stages: int, state: Routed, room: Room, seen: Seen) -> None:
    """Fills `seen` for a mapping of so many stages whose loads are worked out."""
    work_out(formula.tables, formula.facts, state, formula.queueing, room.scratch, room.terms)
    _list_links(formula, state, seen)
    _walk(formula, state, seen)
    _see_links(formula, state, seen)
    _see_branches(formula, state, room, seen)
    _see_units(formula, state, room, seen)
    _see_whole(formula, room, stages, seen)


@lean_inner_njit
def _list_links(formula: Formula, state: Routed, seen: Seen) -> None:
    """Numbers the links in use, and finds the busiest at each switch."""
    grid = formula.tables.grid
    cols = grid.cols
    seen.busy_out[:] = 0
    seen.busy_in[:] = 0
    used = 0
    for link in range(len(seen.place)):
        seen.streams_on[0, link] = 0
        seen.streams_on[1, link] = 0
        load = state.load[0, link] + state.load[1, link]
        if load == 0:
            seen.place[link] = -1
            continue
        seen.place[link] = used
        used += 1
        at, way = link // 4, link % 4
        if way == EAST:
            to = at + 1
        elif way == WEST:
            to = at - 1
        elif way == NORTH:
            to = at - cols
        else:
            to = at + cols
        seen.busy_out[at] = max(seen.busy_out[at], load)
        seen.busy_in[to] = max(seen.busy_in[to], load)
    seen.sizes[0] = used


@lean_inner_njit
def _walk(formula: Formula, state: Routed, seen: Seen) -> None:
    """Lists the links on the way of each branch, and counts streams on links."""
    streams, cols = formula.tables.streams, formula.tables.grid.cols
    grid, ptr, pairs = formula.tables.grid, seen.pair_ptr, seen.pair_link
    end = 0
    for stream in range(len(streams.source)):
        home = state.site[streams.source[stream]]
        turn = state.turn[stream]
        begin, stop = streams.leaf_ptr[stream], streams.leaf_ptr[stream + 1]
        first = end
        for k in range(begin, stop):
            ptr[k] = end
            place = state.site[streams.leaf[k]]
            row, col = grid.row[home], grid.col[home]
            for leg in range(2):
                if leg == turn:
                    goal = grid.col[place]
                    while col != goal:
                        way = EAST if goal > col else WEST
                        pairs[end] = 4 * (row * cols + col) + way
                        end += 1
                        col += 1 if goal > col else -1
                else:
                    goal = grid.row[place]
                    while row != goal:
                        way = SOUTH if goal > row else NORTH
                        pairs[end] = 4 * (row * cols + col) + way
                        end += 1
                        row += 1 if goal > row else -1
        for p in range(first, end):
            link = pairs[p]
            if seen.branches_on[link] == 0:
                seen.streams_on[turn, link] += 1
            seen.branches_on[link] += 1
        weight = streams.flits[stream] / formula.facts.bound
        for p in range(first, end):
            seen.pair_weight[p] = weight / seen.branches_on[pairs[p]]
        for p in range(first, end):
            seen.branches_on[pairs[p]] = 0
    ptr[len(streams.leaf)] = end


@lean_inner_njit
def _see_links(formula: Formula, state: Routed, seen: Seen) -> None:
    bound = formula.facts.bound
    for link in range(len(seen.place)):
        k = seen.place[link]
        if k < 0:
            continue
        first, second = state.load[0, link] / bound, state.load[1, link] / bound
        seen.links[0, k] = min(first, MOST)
        seen.links[1, k] = min(second, MOST)
        seen.links[2, k] = min(first + second, MOST)
        seen.links[3, k] = seen.streams_on[0, link] / 8.0
        seen.links[4, k] = seen.streams_on[1, link] / 8.0


@lean_inner_njit
def _see_branches(formula: Formula, state: Routed, room: Room, seen: Seen) -> None:
    """Fills `branches`, and makes the pairs name places in `links`."""
    facts, streams, grid = formula.facts, formula.tables.streams, formula.tables.grid
    terms, out = room.terms, seen.branches
    bound, queueing = facts.bound, formula.queueing
    sides = float(grid.rows + grid.cols)
    full = 1.05 * max(bound, terms[LINK], terms[CHANNEL], terms[TRIP])
    for stream in range(len(streams.source)):
        source, turn = streams.source[stream], state.turn[stream]
        home, flits = state.site[source], streams.flits[stream]
        for k in range(streams.leaf_ptr[stream], streams.leaf_ptr[stream + 1]):
            leaf = streams.leaf[k]
            place = state.site[leaf]
            hops = seen.pair_ptr[k + 1] - seen.pair_ptr[k]
            others = facts.arriving[leaf] - flits
            queue = queueing * others / (full - others)
            others = facts.leaving[source] - flits
            queue += queueing * others / (full - others)
            busiest, same, total, crowd = 0, 0, 0, 0
            for p in range(seen.pair_ptr[k], seen.pair_ptr[k + 1]):
                link = seen.pair_link[p]
                mine = state.load[turn, link]
                load = mine + state.load[1 - turn, link]
                queue += queueing * load / (full - load)
                busiest, same, total = max(busiest, load), max(same, mine), total + load
                crowd = max(crowd, seen.streams_on[0, link] + seen.streams_on[1, link])
                seen.pair_link[p] = seen.place[link]
            back = 2.0 * facts.hop * (hops + 1)
            rounds, extra = facts.rounds[k], facts.extra[k]
            out[0, k] = hops / sides
            out[1, k] = min(rounds * (back + extra) / bound, MOST)
            out[2, k] = min(rounds * (back + queue + extra) / bound, MOST)
            out[3, k] = min(facts.burst_rounds[k] * (back + queue) / bound, MOST)
            out[4, k] = min(busiest / bound, MOST)
            out[5, k] = min(max(busiest - flits, 0) / bound, MOST)
            out[6, k] = min(total / (max(hops, 1) * bound), MOST)
            out[7, k] = min(same / bound, MOST)
            out[8, k] = crowd / 8.0
            out[9, k] = turn
            bends = grid.row[home] != grid.row[place] and grid.col[home] != grid.col[place]
            out[10, k] = 1.0 if bends else 0.0


@lean_inner_njit
def _see_units(formula: Formula, state: Routed, room: Room, seen: Seen) -> None:
    grid, bound, scratch = formula.tables.grid, formula.facts.bound, room.scratch
    for unit in range(len(state.site)):
        place = state.site[unit]
        at = grid.row[place] * grid.cols + grid.col[place]
        channel = grid.channel[place]
        load = 0.0 if channel < 0 else state.channel_load[channel] / bound
        seen.units[0, unit] = min(scratch.filled[unit] / bound, MOST)
        seen.units[1, unit] = min(scratch.emptied[unit] / bound, MOST)
        seen.units[2, unit] = min(load, MOST)
        seen.units[3, unit] = min(seen.busy_out[at] / bound, MOST)
        seen.units[4, unit] = min(seen.busy_in[at] / bound, MOST)


@lean_inner_njit
def _see_whole(formula: Formula, room: Room, stages: int, seen: Seen) -> None:
    terms, whole, grid = room.terms, seen.whole, formula.tables.grid
    bound = terms[BOUND]
    period = max(bound, terms[LINK], terms[CHANNEL], terms[QUEUED], terms[BURST], terms[BUFFER])
    whole[0] = math.log(period / bound)
    for k in range(1, NUM_TERMS):
        whole[k] = math.log(max(terms[k] / bound, LEAST))
    streams = formula.tables.streams
    hops = 0.0
    for k in range(len(streams.leaf)):
        hops += seen.branches[0, k]
    rest = NUM_TERMS
    whole[rest] = math.log(bound) / 10.0
    whole[rest + 1] = math.log(len(streams.kind)) / 5.0
    whole[rest + 2] = math.log(stages) / 3.0
    whole[rest + 3] = hops / len(streams.leaf)
    whole[rest + 4] = seen.sizes[0] / (4.0 * grid.rows * grid.cols)
