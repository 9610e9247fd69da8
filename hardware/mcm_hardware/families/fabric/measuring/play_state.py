"""The state of a fabric that is being played."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, inner_njit
from mcm_compiler.arrays.types import Bools, Ints, Longs, Naturals
from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO
from mcm_hardware.families.fabric.measuring.laid_out import MeshArrays, TreeArrays, UnitArrays


class StreamState(NamedTuple):
    """Where the flits of streams are, before their ports and at their destinations.

    Attributes:
        register: `[E]`, flits in the output register.
        made: `[E]`, flits that a compute unit made and that are not due.
        due: `[E]`, flits that are due and wait for the register.
        sent_sample: `[E]`, samples of which all went to the register, from a memory unit.
        sent_flit: `[E]`, flits of the next sample that went there.
        spent: `[E]`, destinations for which no credit is left.
        unread: `[L]`, flits that lie at the destination.
        needs: `[L]`, how many have to lie there before the destination can read any.
        owed: `[L]`, credits that are not back.
        read_sample: `[L]`, samples that were read.
        read_flit: `[L]`, flits of the next sample that were read.
    """

    register: Longs
    made: Longs
    due: Longs
    sent_sample: Longs
    sent_flit: Longs
    spent: Longs
    unread: Longs
    needs: Longs
    owed: Longs
    read_sample: Longs
    read_flit: Longs


class UnitState(NamedTuple):
    """State of units and of turns: the position from which the next is sought.

    Attributes:
        sample: `[U]`, sample that a compute unit works on.
        firing: `[U]`, its next firing, or the one that goes on.
        ends: `[U]`, cycle in which that ends; -1 where none goes on.
        written: `[U]`, samples that a memory unit holds whole or held.
        freed: `[U]`, those of them that all have read.
        turn_write: `[U]`, of the streams that a memory unit writes.
        turn_read: `[U]`, of those that it reads for.
        turn_port: `[U]`, of those that leave.
        turn_channel: `[channels]`, of the jobs of a memory channel.
    """

    sample: Longs
    firing: Longs
    ends: Longs
    written: Longs
    freed: Longs
    turn_write: Longs
    turn_read: Longs
    turn_port: Longs
    turn_channel: Longs


class QueueState(NamedTuple):
    """Flits at the inputs of switches, and whose turn it is at outputs.

    What is used together is together: a cycle goes through more of it than a processor has near.

    Attributes:
        inputs: `[inputs + 1, ENTRIES + entries]`, a queue each, as a ring of a power of two of
            entries, in columns: `PASSED`, flits that went on. `THERE`, those and the ones at the
            input. `GIVEN`, those and the ones under way to it. `GONE`, bit mask of the branches
            that the first one at the input has gone. `POSITION` as in `MeshArrays`; `BEHIND`, the
            position after it around the circle; and from `ENTRIES` on the node of each flit, see
            `entry_of`. Flits are counted modulo 2^32. The last input stands behind all sites and is
            always empty.
        outputs: `[4 switches + S, 2]`, in columns: `TURN`, whose turn it is; and a note of one
            cycle, `ASKED`, the row of `Mesh.requests` where the output is asked for, else 0.
    """

    inputs: Naturals
    outputs: Naturals


PASSED, THERE, GIVEN, GONE, POSITION, BEHIND, ENTRIES = 0, 1, 2, 3, 4, 5, 6
"""Columns of `QueueState.inputs`."""

TURN, ASKED = 0, 1
"""Columns of `QueueState.outputs`."""


class Calendar(NamedTuple):
    """Events of cycles to come, by cycle modulo the number of slots, a power of two.

    Attributes:
        arrivals: `[near slots, S]`, destinations at which a flit arrives.
        num_arrivals: `[near slots]`.
        steps: `[near slots, 4 switches]`, inputs at which a flit arrives from a link.
        num_steps: `[near slots]`.
        credits: `[slots, L]`, destinations whose credits are back.
        amounts: `[slots, L]`, how many.
        num_credits: `[slots]`.
    """

    arrivals: Naturals
    num_arrivals: Longs
    steps: Naturals
    num_steps: Longs
    credits: Naturals
    amounts: Longs
    num_credits: Longs


class Agenda(NamedTuple):
    """Units to look at: all others are as they were when they could do nothing.

    Attributes:
        actor: `[U]`, who acts for each unit: itself, or `U + c` for memory channel c.
        actors: `[3, U + channels]`, by kind of unit.
        actor_listed: `[U + channels]`.
        ports: `[U]`, units whose port may take a flit.
        port_listed: `[U]`.
        inputs: `[inputs]`, those of switches at which a flit is.
        counts: `[6]`, entries of `actors` by kind, of `ports` and of `inputs`, and the cycle in
            which the next firing ends, or -1.
    """

    actor: Naturals
    actors: Naturals
    actor_listed: Bools
    ports: Naturals
    port_listed: Bools
    inputs: Naturals
    counts: Longs


class Play(NamedTuple):
    """A mapping that is being played: what is fixed, what changes, and what comes.

    Attributes:
        arrays: the problem.
        mesh: the fabric.
        trees: the mapping.
        site: `[U]`.
        streams: changes.
        units: changes.
        calendar: what comes.
        agenda: who may act.
    """

    arrays: UnitArrays
    mesh: MeshArrays
    trees: TreeArrays
    site: Ints
    streams: StreamState
    units: UnitState
    calendar: Calendar
    agenda: Agenda


PORTS, INPUTS, NEXT_END = 3, 4, 5
"""Indices into `Agenda.counts`, behind the kinds of units."""


@inlined_njit
def apart(later: int, earlier: int) -> int:
    """How far two counts modulo 2^32 are apart."""
    return (later - earlier) & 0xFFFFFFFF


@inlined_njit
def entry_of(inputs: Naturals, flit: int) -> int:
    """The column of `QueueState.inputs` in which the node of a flit stands."""
    return ENTRIES + (flit & (inputs.shape[1] - ENTRIES - 1))


@inner_njit
def fresh_streams(units: UnitArrays) -> StreamState:
    """Nothing has been made or sent."""
    streams, leaves = len(units.source), len(units.leaf)
    needs = np.ones(leaves, np.int64)
    for leaf in range(leaves):
        u = units.leaf[leaf]
        if units.kind[u] == COMPUTE:
            needs[leaf] = -(-units.flits[units.stream_of[leaf]] // units.firings[u])
    return StreamState(
        np.zeros(streams, np.int64),
        np.zeros(streams, np.int64),
        np.zeros(streams, np.int64),
        np.zeros(streams, np.int64),
        np.zeros(streams, np.int64),
        np.zeros(streams, np.int64),
        np.zeros(leaves, np.int64),
        needs,
        np.zeros(leaves, np.int64),
        np.zeros(leaves, np.int64),
        np.zeros(leaves, np.int64),
    )


@inner_njit
def fresh_units(units: UnitArrays, mesh: MeshArrays) -> UnitState:
    """All units wait for their first sample."""
    count = len(units.kind)
    return UnitState(
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.full(count, -1, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(mesh.num_channels, np.int64),
    )


@inner_njit
def fresh_queues(mesh: MeshArrays) -> QueueState:
    """The mesh is empty."""
    count = len(mesh.position)
    ring = 1
    while ring < mesh.fifo:
        ring *= 2
    inputs = np.zeros((count + 1, ENTRIES + ring), np.uint32)
    for place in range(count):
        behind = mesh.position[place] + 1
        inputs[place, POSITION] = mesh.position[place]
        inputs[place, BEHIND] = behind if behind < mesh.circle[place] else 0
    outputs = np.zeros((4 * len(mesh.inputs) + len(mesh.switch), 2), np.uint32)
    return QueueState(inputs, outputs)


@inner_njit
def fresh_calendar(mesh: MeshArrays, trees: TreeArrays) -> Calendar:
    """A calendar with space for every delay of a mapping."""
    near = slots = 1
    while near <= mesh.hop:
        near *= 2
    while slots <= mesh.hop * (np.max(trees.distance) + 1):
        slots *= 2
    leaves = len(trees.distance)
    return Calendar(
        np.zeros((near, len(mesh.switch)), np.uint32),
        np.zeros(near, np.int64),
        np.zeros((near, 4 * len(mesh.inputs)), np.uint32),
        np.zeros(near, np.int64),
        np.zeros((slots, leaves), np.uint32),
        np.zeros((slots, leaves), np.int64),
        np.zeros(slots, np.int64),
    )


@inner_njit
def fresh_agenda(units: UnitArrays, mesh: MeshArrays, site: Ints) -> Agenda:
    """Everyone has to be looked at once."""
    count, channels = len(units.kind), mesh.num_channels
    actor = np.zeros(count, np.uint32)
    actors = np.zeros((3, count + channels), np.uint32)
    counts = np.zeros(6, np.int64)
    for u in range(count):
        kind = units.kind[u]
        if kind == IO:
            actor[u] = count + mesh.channel[site[u]]
        else:
            actor[u] = u
            actors[kind, counts[kind]] = u
            counts[kind] += 1
    for channel in range(channels):
        actors[IO, channel] = count + channel
    counts[IO], counts[NEXT_END] = channels, -1
    return Agenda(
        actor,
        actors,
        np.ones(count + channels, np.bool_),
        np.zeros(count, np.uint32),
        np.zeros(count, np.bool_),
        np.zeros(len(mesh.position), np.uint32),
        counts,
    )


@inner_njit
def fresh_play(arrays: UnitArrays, mesh: MeshArrays, trees: TreeArrays, site: Ints) -> Play:
    """A mapping of which nothing has been played."""
    return Play(
        arrays,
        mesh,
        trees,
        site,
        fresh_streams(arrays),
        fresh_units(arrays, mesh),
        fresh_calendar(mesh, trees),
        fresh_agenda(arrays, mesh, site),
    )
