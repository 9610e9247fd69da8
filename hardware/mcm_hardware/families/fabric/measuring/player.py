"""Plays a mapped fabric until its state repeats."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit
from mcm_compiler.arrays.types import Ints, Longs
from mcm_compiler.contracts.fabrics.fabric import COMPUTE
from mcm_hardware.families.fabric.measuring.laid_out import (
    MeshArrays,
    UnitArrays,
    lay_trees,
    span,
)
from mcm_hardware.families.fabric.measuring.mesh_kernels import (
    Mesh,
    arrive,
    arrive_from_links,
    fill_ports,
    fresh_mesh,
    switch,
)
from mcm_hardware.families.fabric.measuring.periods import is_known
from mcm_hardware.families.fabric.measuring.play_state import (
    NEXT_END,
    Play,
    fresh_play,
    fresh_queues,
)
from mcm_hardware.families.fabric.measuring.state_hash import hash_state
from mcm_hardware.families.fabric.measuring.unit_kernels import act, is_anyone_listed, wake_firings


class Limits(NamedTuple):
    """What may be played of a mapping whose state does not repeat.

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
    """What was seen.

    Attributes:
        ends: `[n]`, cycle at the end of which each sample had ended.
        first: samples that had ended when the fabric was first in the state that it was in when
            all n had; 0 if no state came back, -1 if nothing moves any more.
        work: cycles in which anything may have happened.
    """

    ends: Longs
    first: int
    work: int


@entry_njit
def play_mapping(
    arrays: UnitArrays,
    mesh: MeshArrays,
    site: Ints,
    turn: Ints,
    limits: Limits,
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
