"""What ports and switches do in a cycle; parts 1, 3 and 4 of the contract of measurements."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inner_njit
from mcm_compiler.arrays.types import Ints, Longs
from mcm_hardware.families.fabric.measuring.kernels import borrowing
from mcm_hardware.families.fabric.measuring.laid_out import LINKS
from mcm_hardware.families.fabric.measuring.play_state import INPUTS, PORTS, Play, QueueState
from mcm_hardware.families.fabric.measuring.unit_kernels import after, wake_actor, wake_port


class Mesh(NamedTuple):
    """The switches of a mapping that is being played, and notes of one cycle.

    Attributes:
        turn: `[E]`, the virtual channel of each stream.
        unit_at: `[S]`, the unit on each site, or -1.
        queues: what the switches hold.
        asked: `[4 switches + S]`, cycle in which an output was last asked for.
        nearest: `[4 switches + S]`, distance from its turn of the input that is served.
        serves: `[4 switches + S]`, that input.
        outputs: `[4 switches + S]`, those that were asked for.
        emptied: `[inputs]`, inputs whose first flit has gone all its ways.
    """

    turn: Ints
    unit_at: Ints
    queues: QueueState
    asked: Longs
    nearest: Longs
    serves: Ints
    outputs: Ints
    emptied: Ints


@inner_njit
def fresh_mesh(play: Play, turn: Ints, queues: QueueState) -> Mesh:
    """Nothing has been asked for."""
    sites, inputs = len(play.mesh.switch), len(play.mesh.position)
    outputs = LINKS * len(play.mesh.inputs) + sites
    unit_at = np.full(sites, -1, np.int32)
    for u in range(len(play.site)):
        unit_at[play.site[u]] = u
    return Mesh(
        turn,
        unit_at,
        queues,
        np.full(outputs, -1, np.int64),
        np.zeros(outputs, np.int64),
        np.zeros(outputs, np.int32),
        np.zeros(outputs, np.int32),
        np.zeros(inputs, np.int32),
    )


@borrowing
def arrive(play: Play, now: int) -> None:
    """Part 1: flits lie at their destinations, and credits are back."""
    calendar, streams = play.calendar, play.streams
    slot = now & (len(calendar.num_credits) - 1)
    for k in range(calendar.num_credits[slot]):
        leaf = calendar.credits[slot, k]
        streams.owed[leaf] -= calendar.amounts[slot, k]
        wake_port(play.agenda, play.arrays.source[play.arrays.stream_of[leaf]])
    calendar.num_credits[slot] = 0
    slot = now & (len(calendar.num_arrivals) - 1)
    for k in range(calendar.num_arrivals[slot]):
        leaf = calendar.arrivals[slot, k]
        streams.unread[leaf] += 1
        wake_actor(play, play.arrays.leaf[leaf])
    calendar.num_arrivals[slot] = 0


@borrowing
def fill_ports(play: Play, mesh: Mesh, now: int) -> None:
    """Part 3: ports on the agenda take a flit each, if they are free."""
    agenda, queues = play.agenda, mesh.queues
    ports = 8 * len(play.mesh.inputs)
    for k in range(agenda.counts[PORTS]):
        u = agenda.ports[k]
        agenda.port_listed[u] = False
        place = ports + play.site[u]
        if queues.held[place] > 0:
            continue
        e = _next_to_leave(play, u)
        if e >= 0:
            play.streams.register[e] -= 1
            for leaf in range(play.arrays.leaf_ptr[e], play.arrays.leaf_ptr[e + 1]):
                play.streams.owed[leaf] += 1
            push(play, mesh, place, play.trees.root[e], now)
            wake_actor(play, u)
    agenda.counts[PORTS] = 0


@borrowing
def _next_to_leave(play: Play, u: int) -> int:
    """The stream whose flit a port takes, or -1."""
    arrays, streams = play.arrays, play.streams
    first, count = arrays.out_ptr[u], arrays.out_ptr[u + 1] - arrays.out_ptr[u]
    for step in range(count):
        place = after(play.units.turn_port[u], step, count)
        e = arrays.out[first + place]
        free = streams.register[e] > 0
        for leaf in range(arrays.leaf_ptr[e], arrays.leaf_ptr[e + 1]):
            free = free and streams.owed[leaf] < play.mesh.window
        if free:
            play.units.turn_port[u] = after(place, 1, count)
            return int(e)
    return -1


@borrowing
def push(play: Play, mesh: Mesh, place: int, node: int, ready: int) -> None:
    """Puts a flit behind those of an input."""
    queues, agenda = mesh.queues, play.agenda
    held = queues.held[place]
    entry = after(queues.head[place], held, play.mesh.fifo)
    queues.node[place, entry], queues.ready[place, entry] = node, ready
    queues.held[place] = held + 1
    if held == 0:
        queues.left[place] = play.trees.ways[node]
        k = agenda.counts[INPUTS]
        agenda.inputs[k], agenda.input_at[place] = place, k
        agenda.counts[INPUTS] = k + 1


@borrowing
def _pop(play: Play, mesh: Mesh, place: int) -> None:
    """Takes the first flit of an input away."""
    queues, agenda = mesh.queues, play.agenda
    queues.held[place] -= 1
    queues.head[place] = after(queues.head[place], 1, play.mesh.fifo)
    if queues.held[place] > 0:
        queues.left[place] = play.trees.ways[queues.node[place, queues.head[place]]]
        return
    k, last = agenda.input_at[place], agenda.counts[INPUTS] - 1
    moved = agenda.inputs[last]
    agenda.inputs[k], agenda.input_at[moved] = moved, k
    agenda.input_at[place] = -1
    agenda.counts[INPUTS] = last


@borrowing
def switch(play: Play, mesh: Mesh, now: int) -> bool:
    """Part 4: outputs take a flit each. True where any did."""
    asked = _ask(play, mesh, now)
    emptied = 0
    for k in range(asked):
        out = mesh.outputs[k]
        place = mesh.serves[out]
        _send(play, mesh, out, place, now)
        if mesh.queues.left[place] == 0:
            mesh.emptied[emptied] = place
            emptied += 1
    ports = 2 * LINKS * len(play.mesh.inputs)
    for k in range(emptied):
        place = mesh.emptied[k]
        _pop(play, mesh, place)
        if place >= ports:
            wake_port(play.agenda, mesh.unit_at[place - ports])
    return asked > 0


@borrowing
def _ask(play: Play, mesh: Mesh, now: int) -> int:
    """Which outputs are asked for, and which input each will serve; their number."""
    agenda, queues, trees = play.agenda, mesh.queues, play.trees
    switches, places = len(play.mesh.inputs), trees.leaf_at.shape[1]
    asked = 0
    for k in range(agenda.counts[INPUTS]):
        place = agenda.inputs[k]
        head = queues.head[place]
        if queues.ready[place, head] > now:
            continue
        node = queues.node[place, head]
        at, left = trees.node_switch[node], queues.left[place]
        position, channel = play.mesh.position[place], mesh.turn[trees.node_stream[node]]
        for way in range(LINKS + places):
            if not (left >> way) & 1:
                continue
            if way < LINKS:
                out = LINKS * at + way
                if queues.held[2 * out + channel] >= play.mesh.fifo:
                    continue
            else:
                unit = play.arrays.leaf[trees.leaf_at[node, way - LINKS]]
                out = LINKS * switches + play.site[unit]
            far = position - queues.turn_out[out]
            if far < 0:
                far += play.mesh.inputs[at]
            if mesh.asked[out] != now:
                mesh.asked[out] = now
                mesh.outputs[asked] = out
                asked += 1
            elif far >= mesh.nearest[out]:
                continue
            mesh.nearest[out], mesh.serves[out] = far, place
    return asked


@borrowing
def _send(play: Play, mesh: Mesh, out: int, place: int, now: int) -> None:
    """The first flit of an input goes one of its ways."""
    queues, trees, fabric = mesh.queues, play.trees, play.mesh
    node = queues.node[place, queues.head[place]]
    at, switches = trees.node_switch[node], len(fabric.inputs)
    after = fabric.position[place] + 1
    queues.turn_out[out] = 0 if after == fabric.inputs[at] else after
    if out < LINKS * switches:
        way = out % LINKS
        behind = 2 * out + mesh.turn[trees.node_stream[node]]
        push(play, mesh, behind, trees.child[node, way], now + fabric.hop)
    else:
        way = LINKS + fabric.place[out - LINKS * switches]
        slot = (now + fabric.hop) & (len(play.calendar.num_arrivals) - 1)
        k = play.calendar.num_arrivals[slot]
        play.calendar.arrivals[slot, k] = trees.leaf_at[node, way - LINKS]
        play.calendar.num_arrivals[slot] = k + 1
    queues.left[place] &= ~(np.int32(1) << np.int32(way))


@borrowing
def first_ready(play: Play, mesh: Mesh, now: int) -> int:
    """The first cycle after this one in which a flit under way to a switch is there; -1 if none."""
    soonest = -1
    for k in range(play.agenda.counts[INPUTS]):
        place = play.agenda.inputs[k]
        ready = mesh.queues.ready[place, mesh.queues.head[place]]
        if ready > now and (soonest < 0 or ready < soonest):
            soonest = int(ready)
    return soonest
