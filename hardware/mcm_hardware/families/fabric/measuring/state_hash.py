"""Hashes of the states of a played fabric: equal states go on in the same way."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit
from mcm_compiler.arrays.types import Longs
from mcm_compiler.contracts.fabrics.fabric import COMPUTE
from mcm_hardware.families.fabric.measuring.laid_out import MeshArrays, UnitArrays
from mcm_hardware.families.fabric.measuring.play_state import (
    GIVEN,
    GONE,
    PASSED,
    TURN,
    Calendar,
    Play,
    QueueState,
    StreamState,
    apart,
    entry_of,
)

FACTS = 16
"""Facts of one stream, unit or input have numbers of their own below this."""


@inlined_njit
def hash_state(play: Play, queues: QueueState, now: int, done: int, total: Longs) -> None:
    """Two hashes of the state after cycle `now`, in which sample `done - 1` ended, in `total`.

    Samples are counted from that one and cycles from this one, so that states that go on in the
    same way have the same hashes.
    Banks are not in them: which bank a sample begins in matters only beside that of another sample,
    and counts of samples tell how far these are apart.

    Args:
        play: the rest of the state.
        queues: what switches hold.
        now: cycle.
        done: samples that have ended.
        total: `[2]`, zeros.
    """
    arrays, mesh, units = play.arrays, play.mesh, play.units
    _hash_streams(total, arrays, play.streams, done)
    for u in range(len(arrays.kind)):
        if arrays.kind[u] == COMPUTE:
            _mix_in(total, FACTS * u, units.sample[u] - done)
            _mix_in(total, FACTS * u + 1, units.firing[u])
            _mix_in(total, FACTS * u + 2, units.ends[u] - now if units.ends[u] >= 0 else -1)
        turns = (units.turn_write[u] << 40) | (units.turn_read[u] << 20) | units.turn_port[u]
        _mix_in(total, FACTS * u + 3, turns)
    for channel in range(mesh.num_channels):
        _mix_in(total, FACTS * channel + 4, units.turn_channel[channel])
    for out in range(len(queues.outputs)):
        if queues.outputs[out, TURN] != 0:
            _mix_in(total, FACTS * out + 5, queues.outputs[out, TURN])
    _hash_queues(total, mesh, queues)
    _hash_calendar(total, play.calendar, now)


@inlined_njit
def _hash_streams(total: Longs, arrays: UnitArrays, streams: StreamState, done: int) -> None:
    for e in range(len(arrays.source)):
        _mix_in(total, FACTS * e + 6, streams.register[e])
        _mix_in(total, FACTS * e + 7, (streams.made[e] << 32) | streams.due[e])
        if arrays.depth[arrays.source[e]] > 0:
            _mix_in(total, FACTS * e + 8, streams.sent_sample[e] - done)
            _mix_in(total, FACTS * e + 9, streams.sent_flit[e])
    for leaf in range(len(arrays.leaf)):
        _mix_in(total, FACTS * leaf + 10, (streams.unread[leaf] << 32) | streams.owed[leaf])
        _mix_in(total, FACTS * leaf + 11, streams.read_sample[leaf] - done)
        _mix_in(total, FACTS * leaf + 12, streams.read_flit[leaf])


@inlined_njit
def _hash_queues(total: Longs, mesh: MeshArrays, queues: QueueState) -> None:
    """Of flits under way to an input the calendar tells when they arrive."""
    inputs = queues.inputs
    for place in range(len(mesh.position)):
        passed = inputs[place, PASSED]
        held = apart(inputs[place, GIVEN], passed)
        for k in range(held):
            key = FACTS * (mesh.fifo * place + k) + 13
            _mix_in(total, key, inputs[place, entry_of(inputs, passed + k)])
        if held > 0:
            _mix_in(total, FACTS * place + 14, inputs[place, GONE])


@inlined_njit
def _hash_calendar(total: Longs, calendar: Calendar, now: int) -> None:
    for slot in range(len(calendar.num_arrivals)):
        wait = (slot - now) % len(calendar.num_arrivals)
        for k in range(calendar.num_arrivals[slot]):
            _mix_in(total, (1 << 40) + wait, calendar.arrivals[slot, k])
        for k in range(calendar.num_steps[slot]):
            _mix_in(total, (1 << 42) + wait, calendar.steps[slot, k])
    for slot in range(len(calendar.num_credits)):
        wait = (slot - now) % len(calendar.num_credits)
        for k in range(calendar.num_credits[slot]):
            owed = (calendar.amounts[slot, k] << 32) | calendar.credits[slot, k]
            _mix_in(total, (1 << 41) + wait, owed)


@inlined_njit
def _mix_in(total: Longs, key: int, value: int) -> None:
    """Adds a fact and its value to both hashes; the order of facts does not matter."""
    first = _mixed(np.uint64(key), np.uint64(value))
    total[0] += np.int64(first)
    total[1] += np.int64(_mixed(np.uint64(key) ^ np.uint64(0x5DEECE66D), first))


@inlined_njit
def _mixed(key: np.uint64, value: np.uint64) -> np.uint64:
    """A 64-bit mix of a fact and a value (the finaliser of splitmix64)."""
    x = key * np.uint64(0x9E3779B97F4A7C15) + value
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
