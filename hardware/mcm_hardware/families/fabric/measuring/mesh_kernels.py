"""What ports and switches do in a cycle; parts 1, 3 and 4 of the contract of measurements."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, inner_njit
from mcm_compiler.arrays.types import Ints
from mcm_hardware.families.fabric.measuring.laid_out import INTO, LINKS, OUT, TO, TOGETHER
from mcm_hardware.families.fabric.measuring.play_state import (
    ASKED,
    BRANCH,
    CIRCLE,
    ENTRIES,
    HEAD,
    HELD,
    INPUTS,
    LEFT,
    LISTED,
    NEAREST,
    PORTS,
    POSITION,
    SERVES,
    TURN,
    Agenda,
    Calendar,
    Play,
    QueueState,
)
from mcm_hardware.families.fabric.measuring.unit_kernels import after, wake_actor, wake_port


class Mesh(NamedTuple):
    """The switches of a mapping that is being played, and notes of one cycle.

    Attributes:
        unit_at: `[S]`, the unit on each site, or -1.
        queues: what the switches hold.
        outputs: `[4 switches + S]`, those that were asked for.
        emptied: `[inputs]`, inputs whose first flit has gone all its ways.
    """

    unit_at: Ints
    queues: QueueState
    outputs: Ints
    emptied: Ints


@inner_njit
def fresh_mesh(play: Play, queues: QueueState) -> Mesh:
    """Nothing has been asked for."""
    unit_at = np.full(len(play.mesh.switch), -1, np.int32)
    for u in range(len(play.site)):
        unit_at[play.site[u]] = u
    return Mesh(
        unit_at,
        queues,
        np.zeros(len(queues.outputs), np.int32),
        np.zeros(len(queues.inputs), np.int32),
    )


@inlined_njit
def arrive(play: Play, now: int) -> None:
    """Part 1: flits lie at their destinations, and credits are back."""
    calendar, streams = play.calendar, play.streams
    slot = now & (len(calendar.num_credits) - 1)
    for k in range(calendar.num_credits[slot]):
        leaf = calendar.credits[slot, k]
        streams.owed[leaf] -= calendar.amounts[slot, k]
        wake_port(play.agenda, int(play.arrays.source[play.arrays.stream_of[leaf]]))
    calendar.num_credits[slot] = 0
    slot = now & (len(calendar.num_arrivals) - 1)
    for k in range(calendar.num_arrivals[slot]):
        leaf = calendar.arrivals[slot, k]
        streams.unread[leaf] += 1
        wake_actor(play, int(play.arrays.leaf[leaf]))
    calendar.num_arrivals[slot] = 0


@inlined_njit
def fill_ports(play: Play, mesh: Mesh, now: int) -> None:
    """Part 3: ports on the agenda take a flit each, if they are free."""
    agenda, queues = play.agenda, mesh.queues
    ports = 8 * len(play.mesh.inputs)
    for k in range(agenda.counts[PORTS]):
        u = agenda.ports[k]
        agenda.port_listed[u] = False
        place = int(ports + play.site[u])
        if queues.inputs[place, HELD] > 0:
            continue
        e = _next_to_leave(play, u)
        if e >= 0:
            play.streams.register[e] -= 1
            for leaf in range(play.arrays.leaf_ptr[e], play.arrays.leaf_ptr[e + 1]):
                play.streams.owed[leaf] += 1
            push(play, mesh, place, play.trees.root[e], now, now)
            wake_actor(play, u)
    agenda.counts[PORTS] = 0


@inlined_njit
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


@inlined_njit
def push(play: Play, mesh: Mesh, place: int, node: int, ready: int, now: int) -> None:
    """Puts a flit behind those of an input."""
    inputs = mesh.queues.inputs
    held = inputs[place, HELD]
    entry = after(inputs[place, HEAD], held, play.mesh.fifo)
    inputs[place, ENTRIES + entry], mesh.queues.ready[place, entry] = node, ready
    inputs[place, HELD] = held + 1
    if held == 0:
        inputs[place, LEFT] = play.trees.branches[node, TOGETHER]
        if ready <= now:
            _list_input(play.agenda, inputs, place)
        else:
            _start_later(play.calendar, place, ready)


@inlined_njit
def _list_input(agenda: Agenda, inputs: Ints, place: int) -> None:
    k = agenda.counts[INPUTS]
    agenda.inputs[k], inputs[place, LISTED] = place, k
    agenda.counts[INPUTS] = k + 1


@inlined_njit
def _start_later(calendar: Calendar, place: int, ready: int) -> None:
    slot = ready & (len(calendar.num_starts) - 1)
    k = calendar.num_starts[slot]
    calendar.starts[slot, k] = place
    calendar.num_starts[slot] = k + 1


@inlined_njit
def _pop(play: Play, mesh: Mesh, place: int, now: int) -> None:
    """Takes the first flit of an input away."""
    inputs, agenda = mesh.queues.inputs, play.agenda
    held = inputs[place, HELD] - 1
    head = after(inputs[place, HEAD], 1, play.mesh.fifo)
    inputs[place, HELD], inputs[place, HEAD] = held, head
    if held > 0:
        inputs[place, LEFT] = play.trees.branches[inputs[place, ENTRIES + head], TOGETHER]
        ready = mesh.queues.ready[place, head]
        if ready <= now + 1:
            return
        _start_later(play.calendar, place, ready)
    k, last = inputs[place, LISTED], agenda.counts[INPUTS] - 1
    moved = agenda.inputs[last]
    agenda.inputs[k], inputs[moved, LISTED] = moved, k
    agenda.counts[INPUTS] = last


@inlined_njit
def switch(play: Play, mesh: Mesh, now: int) -> int:
    """Part 4: outputs take a flit each; how many did."""
    calendar = play.calendar
    slot = now & (len(calendar.num_starts) - 1)
    for k in range(calendar.num_starts[slot]):
        _list_input(play.agenda, mesh.queues.inputs, calendar.starts[slot, k])
    calendar.num_starts[slot] = 0
    asked = _ask(play, mesh)
    emptied = 0
    for k in range(asked):
        out = mesh.outputs[k]
        place = mesh.queues.outputs[out, SERVES]
        _send(play, mesh, out, place, now)
        if mesh.queues.inputs[place, LEFT] == 0:
            mesh.emptied[emptied] = place
            emptied += 1
    ports = 2 * LINKS * len(play.mesh.inputs)
    for k in range(emptied):
        place = mesh.emptied[k]
        _pop(play, mesh, place, now)
        if place >= ports:
            wake_port(play.agenda, int(mesh.unit_at[place - ports]))
    return asked


@inlined_njit
def _ask(play: Play, mesh: Mesh) -> int:
    """Which outputs are asked for, and which input each will serve; their number."""
    agenda, branches = play.agenda, play.trees.branches
    inputs, outputs = mesh.queues.inputs, mesh.queues.outputs
    asked = 0
    for k in range(agenda.counts[INPUTS]):
        place = agenda.inputs[k]
        left = inputs[place, LEFT]
        branch = inputs[place, ENTRIES + inputs[place, HEAD]]
        while left != 0:
            if left & 1 and inputs[branches[branch, INTO], HELD] < play.mesh.fifo:
                out = branches[branch, OUT]
                far = inputs[place, POSITION] - outputs[out, TURN]
                # Around the circle, without a branch that no processor can foretell.
                far += (far >> 32) & inputs[place, CIRCLE]
                first = outputs[out, ASKED] == 0
                if first:
                    outputs[out, ASKED] = 1
                    mesh.outputs[asked] = out
                    asked += 1
                if first or far < outputs[out, NEAREST]:
                    outputs[out, NEAREST] = far
                    outputs[out, SERVES] = place
                    outputs[out, BRANCH] = branch
            left >>= 1
            branch += 1
    return asked


@inlined_njit
def _send(play: Play, mesh: Mesh, out: int, place: int, now: int) -> None:
    """The first flit of an input goes one of its ways."""
    branches, inputs, outputs = play.trees.branches, mesh.queues.inputs, mesh.queues.outputs
    outputs[out, ASKED] = 0
    branch = outputs[out, BRANCH]
    first = inputs[place, ENTRIES + inputs[place, HEAD]]
    inputs[place, LEFT] &= ~(np.int32(1) << np.int32(branch - first))
    turn = inputs[place, POSITION] + 1
    outputs[out, TURN] = 0 if turn == inputs[place, CIRCLE] else turn
    into, to = branches[branch, INTO], branches[branch, TO]
    if into < len(inputs) - 1:
        push(play, mesh, into, to, now + play.mesh.hop, now)
        return
    calendar = play.calendar
    slot = (now + play.mesh.hop) & (len(calendar.num_arrivals) - 1)
    k = calendar.num_arrivals[slot]
    calendar.arrivals[slot, k] = to
    calendar.num_arrivals[slot] = k + 1
