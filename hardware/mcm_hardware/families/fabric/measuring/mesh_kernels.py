"""Ports and switches in a cycle; parts 1, 3 and 4 of the contract of measurements."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, inner_njit
from mcm_compiler.arrays.types import Ints, Naturals
from mcm_hardware.families.fabric.measuring.laid_out import INTO, LINKS, OUT, TO, TOGETHER, span
from mcm_hardware.families.fabric.measuring.play_state import (
    ASKED,
    BEHIND,
    GIVEN,
    GONE,
    INPUTS,
    PASSED,
    PORTS,
    POSITION,
    THERE,
    TURN,
    Agenda,
    Play,
    QueueState,
    apart,
    entry_of,
)
from mcm_hardware.families.fabric.measuring.unit_kernels import after, wake_actor, wake_port


class Mesh(NamedTuple):
    """The switches of a mapping that is being played, and notes of one cycle.

    Attributes:
        unit_at: `[S]`, the unit on each site, or -1.
        queues: what the switches hold.
        requests: `[1 + outputs, 4]`, from 1, one for each output that is asked for, in columns:
            `OUTPUT`; `SERVES`, the input that is served; `NEAREST`, its distance from its turn;
            `BRANCH`, the branch that its flit goes.
    """

    unit_at: Ints
    queues: QueueState
    requests: Naturals


OUTPUT, SERVES, NEAREST, BRANCH = 0, 1, 2, 3
"""Columns of `Mesh.requests`."""


@inner_njit
def fresh_mesh(play: Play, queues: QueueState) -> Mesh:
    """Nothing has been asked for."""
    unit_at = np.full(len(play.mesh.switch), -1, np.int32)
    for u in range(len(play.site)):
        unit_at[play.site[u]] = u
    return Mesh(unit_at, queues, np.zeros((1 + len(queues.outputs), 4), np.uint32))


@inlined_njit
def arrive(play: Play, now: int) -> None:
    """Part 1: flits lie at their destinations, and credits are back."""
    calendar, streams, arrays = play.calendar, play.streams, play.arrays
    slot = now & (len(calendar.num_credits) - 1)
    for k in range(calendar.num_credits[slot]):
        leaf = calendar.credits[slot, k]
        owed = streams.owed[leaf]
        streams.owed[leaf] = owed - calendar.amounts[slot, k]
        if owed == play.mesh.window:
            e = arrays.stream_of[leaf]
            streams.spent[e] -= 1
            if streams.spent[e] == 0:
                wake_port(play.agenda, int(arrays.source[e]))
    calendar.num_credits[slot] = 0
    slot = now & (len(calendar.num_arrivals) - 1)
    for k in range(calendar.num_arrivals[slot]):
        leaf = calendar.arrivals[slot, k]
        streams.unread[leaf] += 1
        u = arrays.leaf[leaf]
        # With fewer, it waits for the next; with more, for something else.
        if streams.unread[leaf] == streams.needs[leaf] and play.units.ends[u] < 0:
            wake_actor(play, int(u))
    calendar.num_arrivals[slot] = 0


@inlined_njit
def fill_ports(play: Play, mesh: Mesh) -> int:
    """Part 3: ports on the agenda take a flit each, if they are free; how many did."""
    agenda, arrays, streams = play.agenda, play.arrays, play.streams
    ports = 8 * len(play.mesh.inputs)
    entered = 0
    for k in range(agenda.counts[PORTS]):
        u = agenda.ports[k]
        agenda.port_listed[u] = False
        place = int(ports + play.site[u])
        if not is_empty(mesh, place):
            continue
        e = _next_to_leave(play, int(u))
        if e < 0:
            continue
        if streams.register[e] == play.mesh.register:  # else the unit waits for something else
            wake_actor(play, int(u))
        streams.register[e] -= 1
        for leaf in range(*span(arrays.leaf_ptr, e)):
            streams.owed[leaf] += 1
            streams.spent[e] += streams.owed[leaf] == play.mesh.window
        enter(play, mesh, place, play.trees.root[e])
        entered += 1
    agenda.counts[PORTS] = 0
    return entered


@inlined_njit
def _next_to_leave(play: Play, u: int) -> int:
    """The stream whose flit a port takes, or -1."""
    arrays, streams = play.arrays, play.streams
    first, last = span(arrays.out_ptr, u)
    for step in range(last - first):
        place = after(play.units.turn_port[u], step, last - first)
        e = arrays.out[first + place]
        if streams.register[e] > 0 and streams.spent[e] == 0:
            play.units.turn_port[u] = after(place, 1, last - first)
            return int(e)
    return -1


@inlined_njit
def is_empty(mesh: Mesh, place: int) -> bool:
    """Return whether no flit is at an input or under way to it."""
    inputs = mesh.queues.inputs
    return inputs[place, GIVEN] == inputs[place, PASSED]


@inlined_njit
def enter(play: Play, mesh: Mesh, place: int, node: int) -> None:
    """Puts a flit in the port of a site, which is empty."""
    inputs, agenda = mesh.queues.inputs, play.agenda
    _give(inputs, place, node)
    inputs[place, THERE] = inputs[place, GIVEN]
    agenda.inputs[agenda.counts[INPUTS]] = place
    agenda.counts[INPUTS] += 1


@inlined_njit
def _give(inputs: Naturals, place: int, node: int) -> None:
    """Puts a flit behind those of an input."""
    given = inputs[place, GIVEN]
    inputs[place, entry_of(inputs, given)] = node
    inputs[place, GIVEN] = given + 1


@inlined_njit
def switch(play: Play, mesh: Mesh, now: int) -> int:
    """Part 4: outputs take a flit each; how many did."""
    arrive_from_links(play, mesh.queues.inputs, now)
    asked = _ask(play, mesh)
    _serve(play, mesh, asked, now)
    _clear_agenda(play.agenda, mesh.queues.inputs)
    return asked


@inlined_njit
def arrive_from_links(play: Play, inputs: Naturals, now: int) -> bool:
    """Flits are at inputs. Those that had none go on the agenda: whether there are such."""
    calendar, agenda = play.calendar, play.agenda
    slot = now & (len(calendar.num_steps) - 1)
    before = listed = agenda.counts[INPUTS]
    # Here and in `_clear_agenda` without a branch, which no processor can foretell.
    for k in range(calendar.num_steps[slot]):
        place = calendar.steps[slot, k]
        there = inputs[place, THERE]
        inputs[place, THERE] = there + 1
        agenda.inputs[listed] = place
        listed += there == inputs[place, PASSED]
    agenda.counts[INPUTS] = listed
    calendar.num_steps[slot] = 0
    return listed > before


@inlined_njit
def _clear_agenda(agenda: Agenda, inputs: Naturals) -> None:
    """Inputs where no flit is any more leave the agenda."""
    kept = 0
    for k in range(agenda.counts[INPUTS]):
        place = agenda.inputs[k]
        agenda.inputs[kept] = place
        kept += inputs[place, THERE] != inputs[place, PASSED]
    agenda.counts[INPUTS] = kept


@inlined_njit
def _ask(play: Play, mesh: Mesh) -> int:
    """Which outputs are asked for, and which input each will serve; their number."""
    agenda, branches, fifo = play.agenda, play.trees.branches, play.mesh.fifo
    inputs, outputs, requests = mesh.queues.inputs, mesh.queues.outputs, mesh.requests
    asked = 0
    for k in range(agenda.counts[INPUTS]):
        place = agenda.inputs[k]
        branch = np.int64(inputs[place, entry_of(inputs, inputs[place, PASSED])])
        left = branches[branch, TOGETHER] & ~inputs[place, GONE]
        while left != 0:
            into = branches[branch, INTO]
            if left & 1 and apart(inputs[into, GIVEN], inputs[into, PASSED]) < fifo:
                out = branches[branch, OUT]
                # Whoever stands before the turn is far behind all others.
                far = apart(inputs[place, POSITION], outputs[out, TURN])
                request = np.int64(outputs[out, ASKED])
                first = request == 0
                if first:
                    asked += 1
                    request = asked
                    outputs[out, ASKED] = request
                if first or far < requests[request, NEAREST]:
                    requests[request, OUTPUT], requests[request, SERVES] = out, place
                    requests[request, NEAREST], requests[request, BRANCH] = far, branch
            left >>= 1
            branch += 1
    return asked


@inlined_njit
def _serve(play: Play, mesh: Mesh, asked: int, now: int) -> None:
    """First flits of inputs go the ways that were asked for."""
    branches, inputs, outputs = play.trees.branches, mesh.queues.inputs, mesh.queues.outputs
    calendar, requests = play.calendar, mesh.requests
    slot = (now + play.mesh.hop) & (len(calendar.num_steps) - 1)
    steps, arrivals = calendar.num_steps[slot], calendar.num_arrivals[slot]
    nowhere, ports = len(inputs) - 1, 2 * LINKS * len(play.mesh.inputs)
    for request in range(1, asked + 1):
        out, place = requests[request, OUTPUT], requests[request, SERVES]
        branch = np.int64(requests[request, BRANCH])
        outputs[out, TURN], outputs[out, ASKED] = inputs[place, BEHIND], 0
        passed = inputs[place, PASSED]
        first = inputs[place, entry_of(inputs, passed)]
        gone = inputs[place, GONE] | (1 << (branch - first))
        if gone == branches[first, TOGETHER]:
            inputs[place, GONE], inputs[place, PASSED] = 0, passed + 1
            if place >= ports:
                wake_port(play.agenda, int(mesh.unit_at[place - ports]))
        else:
            inputs[place, GONE] = gone
        into, to = branches[branch, INTO], branches[branch, TO]
        if into < nowhere:
            _give(inputs, into, to)
            calendar.steps[slot, steps] = into
            steps += 1
        else:
            calendar.arrivals[slot, arrivals] = to
            arrivals += 1
    calendar.num_steps[slot], calendar.num_arrivals[slot] = steps, arrivals
