"""What units and memory channels do in a cycle; part 2 of the contract of measurements."""

from __future__ import annotations

from mcm_compiler.arrays.kernels import inlined_njit
from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO
from mcm_hardware.families.fabric.measuring.laid_out import UnitArrays
from mcm_hardware.families.fabric.measuring.play_state import (
    ACTORS,
    NEXT_END,
    PORTS,
    Agenda,
    Play,
    StreamState,
    UnitState,
)


@inlined_njit
def after(turn: int, step: int, count: int) -> int:
    """The position so many steps after another, of `count` in a circle; at most once around."""
    place = turn + step
    return place - count if place >= count else place


@inlined_njit
def wake_actor(play: Play, unit: int) -> None:
    """Has a unit, or the channel that serves it, looked at in the next part 2."""
    actor = unit
    if play.arrays.kind[unit] == IO:
        actor = len(play.arrays.kind) + int(play.mesh.channel[play.site[unit]])
    _list_actor(play.agenda, actor)


@inlined_njit
def _list_actor(agenda: Agenda, actor: int) -> None:
    if not agenda.actor_listed[actor]:
        agenda.actor_listed[actor] = True
        agenda.actors[agenda.counts[ACTORS]] = actor
        agenda.counts[ACTORS] += 1


@inlined_njit
def wake_port(agenda: Agenda, unit: int) -> None:
    """Has the port of a unit looked at in the next part 3."""
    if not agenda.port_listed[unit]:
        agenda.port_listed[unit] = True
        agenda.ports[agenda.counts[PORTS]] = unit
        agenda.counts[PORTS] += 1


@inlined_njit
def wake_firings(play: Play, now: int) -> None:
    """Has the units whose firing ends looked at, and notes which cycle the next one ends in."""
    if play.agenda.counts[NEXT_END] != now:
        return
    soonest = -1
    for u in range(len(play.units.ends)):
        ends = play.units.ends[u]
        if ends == now:
            _list_actor(play.agenda, u)
        elif ends >= 0 and (soonest < 0 or ends < soonest):
            soonest = ends
    play.agenda.counts[NEXT_END] = soonest


@inlined_njit
def act(play: Play, now: int) -> bool:
    """Part 2: all actors on the agenda. True where a sample may have ended."""
    agenda, units = play.agenda, len(play.arrays.kind)
    listed = agenda.counts[ACTORS]
    ended = False
    for k in range(listed):
        actor = agenda.actors[k]
        agenda.actor_listed[actor] = False
        if actor >= units:
            ended |= _serve_channel(play, actor - units, now)
        elif play.arrays.kind[actor] == COMPUTE:
            ended |= _fire(play, actor, now)
        else:
            _hold(play, actor, now)
    rest = agenda.counts[ACTORS] - listed
    for k in range(rest):
        agenda.actors[k] = agenda.actors[listed + k]
    agenda.counts[ACTORS] = rest
    return ended


@inlined_njit
def _read(play: Play, leaf: int, count: int, last: bool, now: int) -> None:
    """A destination reads flits of one sample, and perhaps the last; credits are under way."""
    streams, calendar = play.streams, play.calendar
    streams.unread[leaf] -= count
    streams.read_flit[leaf] += count
    if last:
        streams.read_flit[leaf] = 0
        streams.read_sample[leaf] += 1
    if count == 0:
        return
    delay = play.mesh.hop * (play.trees.distance[leaf] + 1)
    slot = (now + delay) & (len(calendar.num_credits) - 1)
    k = calendar.num_credits[slot]
    calendar.credits[slot, k], calendar.amounts[slot, k] = leaf, count
    calendar.num_credits[slot] = k + 1


@inlined_njit
def _read_one(play: Play, leaf: int, now: int) -> bool:
    """A destination that reads flit by flit reads one; true where it was the last of a sample."""
    flits = play.arrays.flits[play.arrays.stream_of[leaf]]
    last = play.streams.read_flit[leaf] + 1 == flits
    _read(play, leaf, 1, last, now)
    return last


@inlined_njit
def _fire(play: Play, u: int, now: int) -> bool:
    """A compute unit; true where it ended a sample and nothing leaves it."""
    arrays, streams, units = play.arrays, play.streams, play.units
    first, last = arrays.out_ptr[u], arrays.out_ptr[u + 1]
    ended = False
    if units.ends[u] == now:
        units.ends[u] = -1
        _end_firing(arrays, streams, units, u)
        ended = units.firing[u] == 0 and first == last
    waits = False
    for k in range(first, last):
        e = arrays.out[k]
        if streams.due[e] > 0:
            goes = min(streams.due[e], play.mesh.register - streams.register[e])
            if goes > 0:
                streams.due[e] -= goes
                streams.register[e] += goes
                wake_port(play.agenda, u)
            waits |= streams.due[e] > 0
    if units.ends[u] < 0 and not waits:
        _start_firing(play, u, now)
    return ended


@inlined_njit
def _end_firing(arrays: UnitArrays, streams: StreamState, units: UnitState, u: int) -> None:
    firings, done = arrays.firings[u], units.firing[u] + 1
    bursts = done % arrays.burst[u] == 0 or done == firings
    for k in range(arrays.out_ptr[u], arrays.out_ptr[u + 1]):
        e = arrays.out[k]
        flits = arrays.flits[e]
        streams.made[e] += done * flits // firings - units.firing[u] * flits // firings
        if bursts:
            streams.due[e] += streams.made[e]
            streams.made[e] = 0
    units.firing[u] = 0 if done == firings else done
    units.sample[u] += done == firings


@inlined_njit
def _start_firing(play: Play, u: int, now: int) -> None:
    """Reads what the next firing needs and starts it, if all of that is there."""
    arrays, streams, units = play.arrays, play.streams, play.units
    firings, upto = arrays.firings[u], units.firing[u] + 1
    for check in (True, False):
        for k in range(arrays.in_ptr[u], arrays.in_ptr[u + 1]):
            leaf = arrays.into[k]
            flits = arrays.flits[arrays.stream_of[leaf]]
            needs = (upto * flits + firings - 1) // firings - streams.read_flit[leaf]
            if check and streams.unread[leaf] < needs:
                return
            if not check:
                _read(play, leaf, needs, upto == firings, now)
    ends = now + arrays.cycles[u]
    units.ends[u] = ends
    soonest = play.agenda.counts[NEXT_END]
    if soonest < 0 or ends < soonest:
        play.agenda.counts[NEXT_END] = ends


@inlined_njit
def _hold(play: Play, u: int, now: int) -> None:
    """A memory unit: writes one flit and reads one."""
    arrays, streams, banks = play.arrays, play.streams, play.mesh.banks
    written, freed = _written_and_freed(play, u)
    writes = _next_to_write(play, u, freed)
    bank = -1
    if writes >= 0:
        bank = (streams.read_flit[writes] + streams.read_sample[writes]) % banks
    first, count = arrays.out_ptr[u], arrays.out_ptr[u + 1] - arrays.out_ptr[u]
    for step in range(count):
        place = after(play.units.turn_read[u], step, count)
        e = arrays.out[first + place]
        if streams.register[e] >= play.mesh.register:
            continue
        if arrays.depth[u] > 0:
            if streams.sent_sample[e] >= written:
                continue
            if bank >= 0 and (streams.sent_flit[e] + streams.sent_sample[e]) % banks == bank:
                continue
            streams.sent_flit[e] += 1
            if streams.sent_flit[e] == arrays.flits[e]:
                streams.sent_flit[e] = 0
                streams.sent_sample[e] += 1
        play.units.turn_read[u] = after(place, 1, count)
        streams.register[e] += 1
        wake_port(play.agenda, u)
        _list_actor(play.agenda, u)
        break
    if writes >= 0:
        _read_one(play, writes, now)
        _list_actor(play.agenda, u)


@inlined_njit
def _written_and_freed(play: Play, u: int) -> tuple[int, int]:
    """Samples that a memory unit holds whole or held, and those of them that all have read."""
    arrays, streams = play.arrays, play.streams
    written = freed = 1 << 62
    for k in range(arrays.in_ptr[u], arrays.in_ptr[u + 1]):
        written = min(written, streams.read_sample[arrays.into[k]])
    for k in range(arrays.out_ptr[u], arrays.out_ptr[u + 1]):
        freed = min(freed, streams.sent_sample[arrays.out[k]])
    return int(written), int(freed)


@inlined_njit
def _next_to_write(play: Play, u: int, freed: int) -> int:
    """The destination of which a memory unit writes a flit, or -1."""
    arrays, streams = play.arrays, play.streams
    first, count = arrays.in_ptr[u], arrays.in_ptr[u + 1] - arrays.in_ptr[u]
    for step in range(count):
        place = after(play.units.turn_write[u], step, count)
        leaf = arrays.into[first + place]
        if streams.unread[leaf] > 0 and streams.read_sample[leaf] < freed + arrays.depth[u]:
            play.units.turn_write[u] = after(place, 1, count)
            return int(leaf)
    return -1


@inlined_njit
def _serve_channel(play: Play, channel: int, now: int) -> bool:
    """A memory channel: one flit in or out; true where the last of a sample went out."""
    trees, streams = play.trees, play.streams
    first, count = trees.job_ptr[channel], trees.job_ptr[channel + 1] - trees.job_ptr[channel]
    for step in range(count):
        place = after(play.units.turn_channel[channel], step, count)
        job = int(trees.job[first + place])
        if job >= 0 and streams.register[job] >= play.mesh.register:
            continue
        if job < 0 and streams.unread[-1 - job] == 0:
            continue
        play.units.turn_channel[channel] = after(place, 1, count)
        _list_actor(play.agenda, len(play.arrays.kind) + channel)
        if job >= 0:
            streams.register[job] += 1
            wake_port(play.agenda, int(play.arrays.source[job]))
            return False
        return _read_one(play, -1 - job, now)
    return False
