"""A mapped problem as arrays for the player: trees of streams, inputs of switches, shared channels.

A *node* is a stream at a switch of its tree. It goes on by *branches*: outputs of the switch, links
before sites. Branches of a node follow each other, and a node goes by the number of its first one.
An *input* of the mesh is a virtual channel of a link (`2 link + turn`), or the port of a site
(`8 switches + site`). An *output* is a link, or a site (`4 switches + site`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, inner_njit
from mcm_compiler.arrays.types import Ints, Longs, Naturals
from mcm_compiler.contracts.fabrics.fabric import IO, Fabric, MappingProblem

LINKS = 4
"""Links that leave a switch."""

TOGETHER, OUT, INTO, TO = 0, 1, 2, 3
"""Columns of `TreeArrays.branches`."""


class UnitArrays(NamedTuple):
    """Arrays of the problem alone; fields as in `MappingProblem`, and CSR by unit.

    Attributes:
        kind: `[U]`.
        firings: `[U]`.
        cycles: `[U]`.
        burst: `[U]`.
        depth: `[U]`.
        source: `[E]`.
        leaf_ptr: `[E + 1]`.
        leaf: `[L]`.
        flits: `[E]`.
        stream_of: `[L]`, the stream of each destination.
        out_ptr: `[U + 1]`, CSR of `out`.
        out: `[E]`, streams that leave each unit, ascending.
        in_ptr: `[U + 1]`, CSR of `into`.
        into: `[L]`, destinations that each unit is, by stream, ascending.
    """

    kind: Naturals
    firings: Longs
    cycles: Longs
    burst: Longs
    depth: Naturals
    source: Naturals
    leaf_ptr: Naturals
    leaf: Naturals
    flits: Longs
    stream_of: Naturals
    out_ptr: Naturals
    out: Naturals
    in_ptr: Naturals
    into: Naturals


class MeshArrays(NamedTuple):
    """Arrays of the fabric alone.

    Attributes:
        cols: of switches.
        switch: `[S]`, the switch of each site.
        place: `[S]`, position of a site among those of its switch.
        position: `[8 switches + S]`, of each input among those of the switch that it leads to; -1
            for links that lead nowhere.
        inputs: `[switches]`, how many there are.
        circle: `[8 switches + S]`, how many there are at the switch that each input leads to.
        channel: `[S]`, memory channel of each site, or -1.
        num_channels: memory channels.
        banks: as in `Fabric`, like the rest.
        hop: `hop_cycles`.
        fifo: `fifo_flits`.
        window: `window_flits`.
        register: `output_flits`.
    """

    cols: int
    switch: Ints
    place: Ints
    position: Ints
    inputs: Ints
    circle: Ints
    channel: Ints
    num_channels: int
    banks: int
    hop: int
    fifo: int
    window: int
    register: int


class TreeArrays(NamedTuple):
    """Arrays of the mapping: the trees of all streams.

    Attributes:
        root: `[E]`, node at the source.
        branches: `[B, 4]`, in columns: `TOGETHER`, at the first of a node, a bit mask of as many
            ones as it has branches. `OUT`, the output; `INTO`, the input behind it, which is the
            one behind the last where the output is a site; `TO`, the node behind a link, or the
            destination at a site.
        distance: `[L]`, links between source and destination.
        job_ptr: `[channels + 1]`, CSR of `job`.
        job: streams that memory channels serve, by unit: e for one that leaves, `-1 - l` for a
            destination.
    """

    root: Naturals
    branches: Naturals
    distance: Ints
    job_ptr: Naturals
    job: Ints


def unit_arrays(problem: MappingProblem) -> UnitArrays:
    """The problem for kernels."""
    counts = np.diff(problem.leaf_ptr)
    units = np.arange(problem.num_units + 1)
    out = np.argsort(problem.source, kind="stable")
    into = np.argsort(problem.leaf, kind="stable")
    return UnitArrays(
        problem.kind.astype(np.uint32),
        problem.firings,
        problem.cycles,
        problem.burst,
        problem.depth.astype(np.uint32),
        problem.source.astype(np.uint32),
        problem.leaf_ptr.astype(np.uint32),
        problem.leaf.astype(np.uint32),
        problem.flits,
        np.repeat(np.arange(problem.num_streams, dtype=np.uint32), counts),
        np.searchsorted(problem.source[out], units).astype(np.uint32),
        out.astype(np.uint32),
        np.searchsorted(problem.leaf[into], units).astype(np.uint32),
        into.astype(np.uint32),
    )


@inlined_njit
def span(ptr: Naturals, row: int) -> tuple[int, int]:
    """The first entry of a CSR row, and the one behind its last."""
    return int(np.int64(ptr[row])), int(np.int64(ptr[row + 1]))


def mesh_arrays(fabric: Fabric) -> MeshArrays:
    """The fabric for kernels."""
    switches = fabric.num_switches
    by_switch = np.argsort(fabric.switch, kind="stable")
    first = np.searchsorted(fabric.switch[by_switch], np.arange(switches))
    place = np.empty(fabric.num_sites, np.int32)
    place[by_switch] = np.arange(fabric.num_sites) - first[fabric.switch[by_switch]]
    position = np.full(8 * switches + fabric.num_sites, -1, np.int32)
    inputs = np.zeros(switches, np.int32)
    leads_to = np.zeros(8 * switches + fabric.num_sites, np.int32)
    leads_to[8 * switches :] = fabric.switch
    for link in range(LINKS * switches):
        row, col = divmod(link // LINKS, fabric.cols)
        row += (0, 0, -1, 1)[link % LINKS]
        col += (1, -1, 0, 0)[link % LINKS]
        if 0 <= row < fabric.rows and 0 <= col < fabric.cols:
            to = row * fabric.cols + col
            position[2 * link : 2 * link + 2] = inputs[to], inputs[to] + 1
            leads_to[2 * link : 2 * link + 2] = to
            inputs[to] += 2
    links = inputs.copy()
    position[8 * switches :] = links[fabric.switch] + place
    inputs += np.bincount(fabric.switch, minlength=switches).astype(np.int32)
    return MeshArrays(
        fabric.cols,
        fabric.switch,
        place,
        position,
        inputs,
        inputs[leads_to],
        fabric.channel,
        fabric.num_channels,
        fabric.banks,
        fabric.hop_cycles,
        fabric.fifo_flits,
        fabric.window_flits,
        fabric.output_flits,
    )


@inner_njit
def lay_trees(units: UnitArrays, mesh: MeshArrays, site: Ints, turn: Ints) -> TreeArrays:
    """The trees of one mapping.

    Args:
        units: the problem.
        mesh: the fabric.
        site: `[U]`.
        turn: `[E]`.
    """
    streams, leaves, cols = len(units.source), len(units.leaf), mesh.cols
    distance = np.empty(leaves, np.int32)
    room = streams
    for leaf in range(leaves):
        a = mesh.switch[site[units.source[units.stream_of[leaf]]]]
        b = mesh.switch[site[units.leaf[leaf]]]
        distance[leaf] = abs(a // cols - b // cols) + abs(a % cols - b % cols)
        room += distance[leaf]
    root = np.empty(streams, np.int32)
    at = np.empty(room, np.int32)
    stream = np.empty(room, np.int32)
    child = np.full((room, LINKS), -1, np.int32)
    leaf_at = np.full((room, np.max(mesh.place) + 1), -1, np.int32)
    nodes = 0
    for e in range(streams):
        root[e] = nodes
        at[nodes], stream[nodes] = mesh.switch[site[units.source[e]]], e
        nodes += 1
        for leaf in range(*span(units.leaf_ptr, e)):
            place = site[units.leaf[leaf]]
            target = mesh.switch[place]
            node = root[e]
            while at[node] != target:
                way = _way(int(at[node]), int(target), turn[e], cols)
                if child[node, way] < 0:
                    child[node, way] = nodes
                    step = 1 if way == 0 else -1 if way == 1 else -cols if way == 2 else cols
                    at[nodes], stream[nodes] = at[node] + step, e
                    nodes += 1
                node = child[node, way]
            leaf_at[node, mesh.place[place]] = leaf
    first, branches = _branches(units, mesh, site, turn, (at[:nodes], stream, child, leaf_at))
    job_ptr, job = _jobs(units, mesh, site)
    return TreeArrays(first[root], branches, distance, job_ptr, job)


@inner_njit
def _branches(
    units: UnitArrays,
    mesh: MeshArrays,
    site: Ints,
    turn: Ints,
    nodes: tuple[Ints, Ints, Ints, Ints],
) -> tuple[Naturals, Naturals]:
    """The first branch of each node, and `branches` of `TreeArrays`.

    Args:
        units: the problem.
        mesh: the fabric.
        site: `[U]`.
        turn: `[E]`.
        nodes: `[Y]`, switch of each; `[Y]`, stream; `[Y, 4]`, node behind each link, or -1; and
            `[Y, places]`, destination at each site of the switch, or -1.
    """
    at, stream, child, leaf_at = nodes
    # Links lead to all nodes but roots.
    branches = np.zeros((len(at) - len(units.source) + len(units.leaf), 4), np.uint32)
    first = np.empty(len(at), np.uint32)
    nowhere = len(mesh.position)
    count = 0
    for node in range(len(at)):
        first[node] = count
        for way in range(LINKS):
            if child[node, way] >= 0:
                out = LINKS * at[node] + way
                branches[count, OUT], branches[count, INTO] = out, 2 * out + turn[stream[node]]
                branches[count, TO] = child[node, way]
                count += 1
        for leaf in leaf_at[node]:
            if leaf >= 0:
                branches[count, OUT] = LINKS * len(mesh.inputs) + site[units.leaf[leaf]]
                branches[count, INTO], branches[count, TO] = nowhere, leaf
                count += 1
        branches[first[node], TOGETHER] = (1 << (count - first[node])) - 1
    for branch in range(count):
        if branches[branch, INTO] < nowhere:
            branches[branch, TO] = first[branches[branch, TO]]
    return first, branches


@inner_njit
def _way(at: int, target: int, turn: int, cols: int) -> int:
    """Direction of the next link: along the row first where `turn` is 0, else along the column."""
    rows, across = target // cols - at // cols, target % cols - at % cols
    if across != 0 and (turn == 0 or rows == 0):
        return 0 if across > 0 else 1
    return 2 if rows < 0 else 3


@inner_njit
def _jobs(units: UnitArrays, mesh: MeshArrays, site: Ints) -> tuple[Naturals, Ints]:
    """`job_ptr` and `job` of `TreeArrays`."""
    ptr = np.zeros(mesh.num_channels + 1, np.uint32)
    found = np.empty(len(units.source) + len(units.leaf), np.int32)
    count = 0
    for channel in range(mesh.num_channels):
        for u in range(len(site)):
            if units.kind[u] != IO or mesh.channel[site[u]] != channel:
                continue
            for k in range(*span(units.out_ptr, u)):
                found[count] = units.out[k]
                count += 1
            for k in range(*span(units.in_ptr, u)):
                found[count] = -1 - units.into[k]
                count += 1
        ptr[channel + 1] = count
    return ptr, found[:count]
