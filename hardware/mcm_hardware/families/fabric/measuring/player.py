"""The flit simulator of fabrics: plays a mapped fabric until its state repeats.

Parts and figures are those of the contract of measurements. It is apart from the event graph of
packages, in which a channel carries whole tensors: flits of several streams take turns at each
switch.

Equal states go on in the same way, so that the play stops at the first state that comes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, lean_njit
from mcm_compiler.arrays.types import Ints, Longs
from mcm_compiler.contracts.fabrics.fabric import (
    COMPUTE,
    Fabric,
    MappingProblem,
    Mappings,
    bound_cycles,
)
from mcm_compiler.contracts.fabrics.legality import faults_of_mapping, faults_of_problem
from mcm_compiler.contracts.fabrics.measurement import Measurements
from mcm_hardware.families.fabric.measuring.laid_out import (
    MeshArrays,
    UnitArrays,
    lay_trees,
    mesh_arrays,
    span,
    unit_arrays,
)
from mcm_hardware.families.fabric.measuring.mesh_kernels import (
    Mesh,
    arrive,
    arrive_from_links,
    fill_ports,
    fresh_mesh,
    switch,
)
from mcm_hardware.families.fabric.measuring.play_state import (
    GIVEN,
    GONE,
    NEXT_END,
    PASSED,
    TURN,
    Calendar,
    Play,
    QueueState,
    StreamState,
    apart,
    entry_of,
    fresh_play,
    fresh_queues,
)
from mcm_hardware.families.fabric.measuring.unit_kernels import act, is_anyone_listed, wake_firings

FACTS = 16
"""Facts of one stream, unit or input have numbers of their own below this."""


@inlined_njit
def hash_state(play: Play, queues: QueueState, now: int, done: int, total: Longs) -> None:
    """Two hashes of the state after cycle `now`, in which sample `done - 1` ended, in `total`.

    Samples are counted from that one and cycles from this one, so that states that go on in the
    same way have the same hashes.
    Banks are not in them: which bank a sample begins in matters only together with that of another
    sample, and counts of samples give the distance of these.

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
    """Of flits under way to an input, the arrivals in the calendar."""
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


class Limits(NamedTuple):
    """Limits of the play of a mapping whose state does not repeat.

    Attributes:
        work: cycles in which anything happens.
        hops: of flits, over links and to units.
        samples: that end.
        enough: share by which the period may be wrong where it is given up; 0 for no such end.
    """

    work: int
    hops: int
    samples: int
    enough: float


class Played(NamedTuple):
    """Observations of a play.

    Attributes:
        ends: `[n]`, cycle at the end of which each sample had ended.
        first: samples that had ended when the fabric was first in the state that it was in when
            all n had; 0 if no state came back, -1 if nothing moves any more.
        work: cycles in which anything may have happened.
    """

    ends: Longs
    first: int
    work: int


FEWEST = 64
"""Samples before which no play is given up, however even it seems."""

LOOKED_EVERY = 16
"""Samples between two looks at how far the period may be off."""


@lean_njit
def cut_off_period(ends: Longs, count: int) -> tuple[float, float]:
    """Cycles per sample of the second half of the samples, and by which share they may be wrong.

    Samples end there at `c + period k` and up to s cycles away from that. Suppose that they always
    do, and that the recurring pattern ends with a sample more or less. Then a longer play changes
    the period by at most `2 s`, and a sample, over the samples of that half.

    Args:
        ends: cycle in which each sample ended.
        count: samples that have ended; at least 5.
    """
    first = count // 2
    steps = count - 1 - first
    period = (ends[count - 1] - ends[first]) / steps
    low, high = 0.0, 0.0
    for k in range(steps + 1):
        away = ends[first + k] - ends[first] - period * k
        low, high = min(low, away), max(high, away)
    return period, min(2.0 * (high - low) / (period * steps) + 1.0 / steps, 1.0)


@inlined_njit
def is_known(ends: Longs, count: int, enough: float) -> bool:
    """Return whether the period of the samples so far is known to a share `enough`."""
    if enough <= 0.0 or count < FEWEST or count % LOOKED_EVERY:
        return False
    return cut_off_period(ends, count)[1] <= enough


@entry_njit
def play_mapping(
    arrays: UnitArrays, mesh: MeshArrays, site: Ints, turn: Ints, limits: Limits
) -> Played:
    """Plays one mapping.

    Args:
        arrays: the problem.
        mesh: the fabric.
        site: `[U]`.
        turn: `[E]`.
        limits: what it may play.
    """
    most_samples = limits.samples
    trees = lay_trees(arrays, mesh, site, turn)
    play = fresh_play(arrays, mesh, trees, site)
    switches = fresh_mesh(play, fresh_queues(mesh))
    ends = np.zeros(most_samples, np.int64)
    seen = np.zeros((most_samples, 2), np.int64)
    done, first, work = _play(play, switches, limits, ends, seen)
    return Played(ends[:done], first, work)


@inlined_njit
def _play(
    play: Play, switches: Mesh, limits: Limits, ends: Longs, seen: Longs
) -> tuple[int, int, int]:
    """Samples that ended, and `first` and `work` of `Played`."""
    now = done = work = hops = 0
    while work < limits.work and hops < limits.hops and done < len(ends):
        arrive(play, now)
        wake_firings(play, now)
        ended = act(play, now)
        entered = fill_ports(play, switches)
        moved = switch(play, switches, now)
        work += 1
        hops += moved
        if ended:
            before, done = done, min(_samples_ended(play), len(ends))
            ends[before:done] = now
            if done > before:
                first = _seen_before(play, switches, now, done, seen)
                if first > 0 or is_known(ends, done, limits.enough):
                    return done, first, work
        if entered > 0 or moved > 0 or is_anyone_listed(play.agenda):
            now += 1
        else:
            after = _next_change(play, switches, now)
            if after < 0:
                return done, -1, work
            now = after
    return done, 0, work


@inlined_njit
def _seen_before(play: Play, switches: Mesh, now: int, done: int, seen: Longs) -> int:
    """Samples that had ended when the fabric was in this state before; 0 if it never was."""
    hashes = seen[done - 1]
    hash_state(play, switches.queues, now, done, hashes)
    for earlier in range(done - 1):
        if seen[earlier, 0] == hashes[0] and seen[earlier, 1] == hashes[1]:
            return earlier + 1
    return 0


@inlined_njit
def _samples_ended(play: Play) -> int:
    """Samples that all units without streams that leave have read, or worked on, to the end."""
    arrays = play.arrays
    ended = np.int64(1 << 62)
    for u in range(len(arrays.kind)):
        if arrays.out_ptr[u + 1] > arrays.out_ptr[u]:
            continue
        if arrays.kind[u] == COMPUTE:
            ended = min(ended, play.units.sample[u])
            continue
        for k in range(*span(arrays.in_ptr, u)):
            ended = min(ended, play.streams.read_sample[arrays.into[k]])
    return int(ended)


@inlined_njit
def _next_change(play: Play, switches: Mesh, now: int) -> int:
    """The next cycle in which anything can happen, where nothing is on the agenda; -1 if none.

    Flits that only arrive behind others before that do so here.
    """
    calendar, soonest = play.calendar, play.agenda.counts[NEXT_END]
    near, slots = len(calendar.num_steps), len(calendar.num_credits)
    for after in range(now + 1, now + slots + 1):
        if after == soonest or calendar.num_credits[after & (slots - 1)] > 0:
            return after
        # Further round, slots of arrivals are those of cycles before.
        if after <= now + near:
            if calendar.num_arrivals[after & (near - 1)] > 0:
                return after
            if arrive_from_links(play, switches.queues.inputs, after):
                return after
    return soonest


PHYSICS = "2bcaac19b6eb09b1d1eac52dba59b42ffa4b81ef727a7f7269ee15a68d6c3c12"
"""SHA-256 of the answers to recorded cases, as the tests work it out: whatever answers otherwise
has to have another name. It is not one of the source, which may be written better."""

ENOUGH = 0.02
"""Error bound with which targets give plays up whose state has not repeated yet. Such plays take
most of the time; the bound is reached after some hundred samples, and is several times as wide as
what periods are off by."""

MOST_HOPS = 1_000_000_000
"""Hops of flits in a play: about 20 seconds on one core, what the largest chips take."""

FEWEST_ENDS = 5
"""Samples that a period without a repeat is read off."""


@dataclass(frozen=True)
class FlitJudge:
    """Measures by playing every flit.

    Attributes:
        most_work: cycles in which anything happens that are played for one mapping; where no state
            repeats by then, the period has an error bound.
        most_hops: hops of flits that are played for one mapping, likewise. They take the time: a
            cycle of a full chip has hundreds of them, one of a small block a few.
        most_samples: samples that are played.
        enough: error bound with which a play is given up whose state has not repeated yet; 0 to go
            on to the end.
    """

    most_work: int = 4_000_000
    most_hops: int = MOST_HOPS
    most_samples: int = 2_000
    enough: float = 0.0

    @property
    def name(self) -> str:
        return "flit"

    @property
    def physics(self) -> str:
        return PHYSICS

    def bound_cycles(self, problem: MappingProblem, fabric: Fabric) -> float:
        return bound_cycles(problem, fabric)

    def measure(self, problem: MappingProblem, fabric: Fabric, mappings: Mappings) -> Measurements:
        faults = faults_of_problem(problem, fabric) or faults_of_mapping(problem, fabric, mappings)
        if faults:
            raise ValueError("; ".join(faults))
        arrays, mesh = unit_arrays(problem), mesh_arrays(fabric)
        bound = bound_cycles(problem, fabric)
        # One kind of array, whatever mappers make: each kind is a compilation of the whole play.
        sites = np.array(mappings.site, np.int32, order="C")
        turns = np.array(mappings.turn, np.int32, order="C")
        limits = Limits(self.most_work, self.most_hops, self.most_samples, float(self.enough))
        period, latency, error = np.empty((3, len(mappings)))
        for k in range(len(mappings)):
            played = play_mapping(arrays, mesh, sites[k], turns[k], limits)
            if played.first < 0:
                raise AssertionError(f"mapping {k} of {problem.name} stands still")
            latency[k] = played.ends[0] + 1 if len(played.ends) else np.inf
            period[k], error[k] = period_of(played.ends, played.first)
            if error[k] > 0:
                # A guess may lie below what no mapping reaches; an exact period never does.
                period[k] = max(period[k], bound)
        return Measurements(period, latency, error)


def period_of(ends: Longs, first: int) -> tuple[float, float]:
    """Cycles per sample, and by which share they may be wrong.

    Where no state came back, the second half of the samples is taken for the steady
    state of the fabric; see `cut_off_period`.

    Args:
        ends: `[n]`, cycle in which each sample ended.
        first: samples that had ended in the same state as after the last; 0 where none did.
    """
    n = len(ends)
    if first > 0:
        return float(ends[n - 1] - ends[first - 1]) / (n - first), 0.0
    if n < FEWEST_ENDS:  # too few to tell
        return (float(ends[-1] + 1) / n if n else np.inf), 1.0
    return cut_off_period(ends, n)
