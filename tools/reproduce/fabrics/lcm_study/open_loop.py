"""The switches of the judge under open-loop traffic: single flits, from each node to each other.

Nodes draw whether they make a flit in a cycle, and for whom; what is made waits in a queue without
limit before the port. No unit works and no credit is kept, as network simulators have it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.fabrics.fabric import COMPUTE, Fabric, MappingProblem
from mcm_hardware.families.fabric.measuring.laid_out import (
    MeshArrays,
    UnitArrays,
    lay_trees,
    mesh_arrays,
    unit_arrays,
)
from mcm_hardware.families.fabric.measuring.mesh_kernels import enter, fresh_mesh, is_empty, switch
from mcm_hardware.families.fabric.measuring.play_state import PORTS, fresh_play, fresh_queues


class Traffic(NamedTuple):
    """What was seen.

    Attributes:
        latency: cycles from when a flit is made until it lies at its destination, in the mean over
            those that arrived in the measured cycles.
        accepted: flits that arrived, per node and cycle.
    """

    latency: float
    accepted: float


def open_loop(fabric: Fabric, rate: float, pattern: str, cycles: int, seed: int) -> Traffic:
    """Plays traffic.

    Args:
        fabric: k x k switches; each has one site that is no I/O.
        rate: flits that a node makes per cycle.
        pattern: `uniform` (every node, itself among them), or `transpose`.
        cycles: that are measured, after a third as many.
        seed: of what is drawn.
    """
    nodes = fabric.num_switches
    problem = _all_pairs(nodes)
    target = np.arange(nodes)
    if pattern == "transpose":
        row, col = np.divmod(target, fabric.cols)
        target = col * fabric.cols + row
    chances = np.full((nodes, nodes), 1.0 / nodes)
    if pattern == "transpose":
        chances = np.eye(nodes)[target]
    arrays, mesh = unit_arrays(problem), mesh_arrays(fabric)
    sites = np.flatnonzero(fabric.channel < 0)
    site = sites[np.argsort(fabric.switch[sites], kind="stable")].astype(np.int32)
    total, arrived = _play(
        arrays, mesh, site, rate, np.cumsum(chances, axis=1), cycles // 3, cycles, seed
    )
    return Traffic(total / max(arrived, 1), arrived / (cycles * nodes))


def _all_pairs(nodes: int) -> MappingProblem:
    """A unit on each switch, and a stream from each to each."""
    none = np.zeros(nodes, np.int64)
    pairs = nodes * nodes
    return MappingProblem(
        name="all pairs",
        stages=("all",),
        kind=np.full(nodes, COMPUTE, np.int32),
        op=np.zeros(nodes, np.int32),
        stage=np.zeros(nodes, np.int32),
        firings=none + 1,
        cycles=none + 1,
        burst=none + 1,
        depth=none.astype(np.int32),
        memory_bytes=none,
        source=np.repeat(np.arange(nodes, dtype=np.int32), nodes),
        leaf_ptr=np.arange(pairs + 1, dtype=np.int32),
        leaf=np.tile(np.arange(nodes, dtype=np.int32), nodes),
        flits=np.ones(pairs, np.int64),
    )


@entry_njit
def _play(
    arrays: UnitArrays,
    mesh: MeshArrays,
    site: Ints,
    rate: float,
    chances: Floats,
    warm_up: int,
    cycles: int,
    seed: int,
) -> tuple[float, int]:
    """Cycles that all flits took that arrived after the warm-up, and their number."""
    np.random.seed(seed)
    nodes, streams = len(site), len(arrays.source)
    trees = lay_trees(arrays, mesh, site, np.zeros(streams, np.int32))
    play = fresh_play(arrays, mesh, trees, site)
    switches = fresh_mesh(play, fresh_queues(mesh))
    last = warm_up + cycles
    # What a node made, in order, and when; and of each stream what arrives next.
    made_for = np.zeros((nodes, last), np.int32)
    made_at = np.zeros((nodes, last), np.int32)
    made, left = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    next_of = np.zeros(streams, np.int64)
    ports = 8 * len(mesh.inputs)
    total, arrived = 0.0, 0
    for now in range(last):
        slot = now & (len(play.calendar.num_arrivals) - 1)
        for k in range(play.calendar.num_arrivals[slot]):
            stream = play.calendar.arrivals[slot, k]
            source = stream // nodes
            at = next_of[stream]
            while made_for[source, at] != stream % nodes:
                at += 1
            next_of[stream] = at + 1
            if now >= warm_up:
                total += now - made_at[source, at]
                arrived += 1
        play.calendar.num_arrivals[slot] = 0
        for node in range(nodes):
            if np.random.random() < rate:
                drawn = np.searchsorted(chances[node], np.random.random() * chances[node, -1])
                made_for[node, made[node]], made_at[node, made[node]] = drawn, now
                made[node] += 1
            place = ports + site[node]
            if left[node] < made[node] and is_empty(switches, place):
                stream = node * nodes + made_for[node, left[node]]
                enter(play, switches, place, int(trees.root[stream]))
                left[node] += 1
        switch(play, switches, now)
        play.agenda.counts[PORTS] = 0
        play.agenda.port_listed[:] = False
    return float(total), arrived
