"""Trees of streams in the mesh, and loads that follow moves without a full count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import lean_inner_njit, lean_njit
from mcm_compiler.arrays.types import Ints, Longs
from mcm_compiler.contracts.fabrics.fabric import (
    EAST,
    IO,
    KINDS,
    NORTH,
    SOUTH,
    WEST,
    Fabric,
    MappingProblem,
    Mappings,
)


class Routed(NamedTuple):
    """One mapping and what it loads; kernels change it in place.

    Attributes:
        site: `[U]`, of each unit.
        turn: `[E]`, of each stream.
        holder: `[S]`, the unit on each site; -1 for none.
        load: `[2, 4 * switches]`, flits per sample on each link, by virtual channel.
        channel_load: `[memory channels]`, flits per sample.
        reach: `[2, longest side]`, scratch: how far branches reach; 0 between calls.
        lifted: `[E]`, scratch: streams that are off the mesh; 0 between calls.
    """

    site: Ints
    turn: Ints
    holder: Ints
    load: Longs
    channel_load: Longs
    reach: Ints
    lifted: Ints


def room_for(tables: Tables) -> Routed:
    """Arrays of the right sizes, all zero; `lay_all` fills them."""
    grid, streams = tables.grid, tables.streams
    channels = max(int(grid.channel.max(initial=-1)) + 1, 1)
    return Routed(
        np.zeros(len(streams.kind), np.int32),
        np.zeros(len(streams.source), np.int32),
        np.full(len(grid.row), -1, np.int32),
        np.zeros((2, 4 * grid.rows * grid.cols), np.int64),
        np.zeros(channels, np.int64),
        np.zeros((2, max(grid.rows, grid.cols)), np.int32),
        np.zeros(len(streams.source), np.int32),
    )


def routed(tables: Tables, mapping: Mappings, index: int = 0) -> Routed:
    """One mapping of a batch with its loads."""
    state = room_for(tables)
    state.site[:] = mapping.site[index]
    state.turn[:] = mapping.turn[index]
    lay_all(tables, state)
    return state


@lean_njit
def lay(tables: Tables, state: Routed, stream: int, flits: int) -> None:
    """Puts flits on each link of a stream's tree once; takes them off if negative.

    The trunk runs along the source's row (turn 0) or column (turn 1); in each column or row where
    destinations lie, branches leave it as far as the farthest of them.
    """
    grid, streams = tables.grid, tables.streams
    home = state.site[streams.source[stream]]
    turn = state.turn[stream]
    load, near, far = state.load[turn], state.reach[0], state.reach[1]
    cols = grid.cols
    if turn == 0:
        along, across = grid.col[home], grid.row[home]
        stride, step = 1, cols
        ahead, back, down, up = EAST, WEST, SOUTH, NORTH
    else:
        along, across = grid.row[home], grid.col[home]
        stride, step = cols, 1
        ahead, back, down, up = SOUTH, NORTH, EAST, WEST
    first, last = along, along
    begin, end = streams.leaf_ptr[stream], streams.leaf_ptr[stream + 1]
    for k in range(begin, end):
        place = state.site[streams.leaf[k]]
        a, b = grid.col[place], grid.row[place]
        if turn == 1:
            a, b = b, a
        first, last = min(first, a), max(last, a)
        if b > across:
            far[a] = max(far[a], b - across)
        elif b < across:
            near[a] = max(near[a], across - b)
    base = across * step
    for a in range(along, last):
        load[4 * (base + a * stride) + ahead] += flits
    for a in range(first + 1, along + 1):
        load[4 * (base + a * stride) + back] += flits
    for k in range(begin, end):
        place = state.site[streams.leaf[k]]
        a = grid.row[place] if turn == 1 else grid.col[place]
        for b in range(across, across + far[a]):
            load[4 * (b * step + a * stride) + down] += flits
        for b in range(across - near[a] + 1, across + 1):
            load[4 * (b * step + a * stride) + up] += flits
        far[a] = 0
        near[a] = 0


@lean_njit
def lay_all(tables: Tables, state: Routed) -> None:
    """Works out all loads and holders from sites and turns."""
    grid, streams = tables.grid, tables.streams
    state.holder[:] = -1
    state.load[:] = 0
    state.channel_load[:] = 0
    for unit in range(len(streams.kind)):
        place = state.site[unit]
        state.holder[place] = unit
        if streams.io_flits[unit] > 0:
            state.channel_load[grid.channel[place]] += streams.io_flits[unit]
    for stream in range(len(streams.source)):
        lay(tables, state, stream, int(streams.flits[stream]))


@lean_njit
def lay_out(tables: Tables, state: Routed, site: Ints, turn: Ints) -> None:
    """Works out the state of a mapping, `site[U]` and `turn[E]`."""
    for unit in range(len(site)):
        state.site[unit] = site[unit]
    for stream in range(len(turn)):
        state.turn[stream] = turn[stream]
    lay_all(tables, state)


@lean_njit
def flip(tables: Tables, state: Routed, stream: int) -> None:
    """Lets a stream turn the other way."""
    flits = int(tables.streams.flits[stream])
    lay(tables, state, stream, -flits)
    state.turn[stream] = 1 - state.turn[stream]
    lay(tables, state, stream, flits)


@lean_njit
def move(tables: Tables, state: Routed, unit: int, place: int) -> None:
    """Puts a unit on a site of its kind; who is there goes where the unit was.

    The same call with the site that the unit had undoes it, to the flit.
    """
    streams, lifted = tables.streams, state.lifted
    before = state.site[unit]
    other = state.holder[place]
    _lift(tables, state, unit)
    if other >= 0:
        _lift(tables, state, other)
        _settle(tables, state, other, before)
    else:
        state.holder[before] = -1
    _settle(tables, state, unit, place)
    for k in range(streams.unit_ptr[unit], streams.unit_ptr[unit + 1]):
        stream = streams.touching[k]
        lay(tables, state, stream, int(streams.flits[stream]))
        lifted[stream] = 0
    if other >= 0:
        for k in range(streams.unit_ptr[other], streams.unit_ptr[other + 1]):
            stream = streams.touching[k]
            if lifted[stream] != 0:
                lay(tables, state, stream, int(streams.flits[stream]))
                lifted[stream] = 0


@lean_inner_njit
def _lift(tables: Tables, state: Routed, unit: int) -> None:
    """Takes a unit's streams off the mesh, and its flits off its memory channel."""
    streams, lifted = tables.streams, state.lifted
    for k in range(streams.unit_ptr[unit], streams.unit_ptr[unit + 1]):
        stream = streams.touching[k]
        if lifted[stream] == 0:
            lay(tables, state, stream, -int(streams.flits[stream]))
            lifted[stream] = 1
    if streams.io_flits[unit] > 0:
        state.channel_load[tables.grid.channel[state.site[unit]]] -= streams.io_flits[unit]


@lean_inner_njit
def _settle(tables: Tables, state: Routed, unit: int, place: int) -> None:
    """Notes where a unit is now; its streams are off the mesh."""
    flits = tables.streams.io_flits[unit]
    if flits > 0:
        state.channel_load[tables.grid.channel[place]] += flits
    state.site[unit] = place
    state.holder[place] = unit


class Grid(NamedTuple):
    """Where S sites lie on a mesh.

    Attributes:
        rows: of switches.
        cols: of switches.
        row: `[S]`, of the switch of each site.
        col: `[S]`.
        channel: `[S]`, memory channel behind an I/O site; -1 for others.
        site_at: `[3, rows * cols]`, a site of each kind on each switch; -1 for none.
        site_ptr: `[4]`, CSR of `sites` by kind.
        sites: `[S]`, by kind, ascending.
    """

    rows: int
    cols: int
    row: Ints
    col: Ints
    channel: Ints
    site_at: Ints
    site_ptr: Ints
    sites: Ints


class Streams(NamedTuple):
    """E streams between U units, L destinations in all.

    Attributes:
        kind: `[U]`, of the site that each unit needs.
        source: `[E]`.
        leaf_ptr: `[E + 1]`, CSR of `leaf` by stream.
        leaf: `[L]`.
        flits: `[E]`, per sample.
        unit_ptr: `[U + 1]`, CSR of `touching` by unit.
        touching: streams that leave a unit or go to it, ascending, each once.
        io_flits: `[U]`, what an I/O unit moves through its memory channel; 0 for others.
    """

    kind: Ints
    source: Ints
    leaf_ptr: Ints
    leaf: Ints
    flits: Longs
    unit_ptr: Ints
    touching: Ints
    io_flits: Longs


class Tables(NamedTuple):
    """A problem on a fabric, for kernels.

    Attributes:
        grid: see there.
        streams: see there.
    """

    grid: Grid
    streams: Streams


def tables_of(problem: MappingProblem, fabric: Fabric) -> Tables:
    """Arrays of their own that may be written: kernels are compiled for one sort of array alone."""
    return Tables(_grid(fabric), _streams(problem))


def _grid(fabric: Fabric) -> Grid:
    site_at = np.full((len(KINDS), fabric.num_switches), -1, np.int32)
    site_at[fabric.kind, fabric.switch] = np.arange(fabric.num_sites, dtype=np.int32)
    counts = np.bincount(fabric.kind, minlength=len(KINDS))
    return Grid(
        fabric.rows,
        fabric.cols,
        (fabric.switch // fabric.cols).astype(np.int32),
        (fabric.switch % fabric.cols).astype(np.int32),
        fabric.channel.astype(np.int32),
        site_at,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        np.argsort(fabric.kind, kind="stable").astype(np.int32),
    )


def _streams(problem: MappingProblem) -> Streams:
    streams = problem.stream_of_leaf
    units = np.concatenate([problem.source, problem.leaf]).astype(np.int64)
    ends = np.concatenate([np.arange(problem.num_streams), streams])
    pairs = np.unique(units * problem.num_streams + ends)
    touching = pairs % problem.num_streams
    counts = np.bincount(pairs // problem.num_streams, minlength=problem.num_units)
    moved = np.zeros(problem.num_units, np.int64)
    np.add.at(moved, problem.source, problem.flits)
    np.add.at(moved, problem.leaf, problem.flits[streams])
    return Streams(
        problem.kind.astype(np.int32),
        problem.source.astype(np.int32),
        problem.leaf_ptr.astype(np.int32),
        problem.leaf.astype(np.int32),
        problem.flits.astype(np.int64),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        touching.astype(np.int32),
        np.where(problem.kind == IO, moved, 0),
    )
