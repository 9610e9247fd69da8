"""Units and memory channels in a cycle; part 2 of the contract of measurements."""

from __future__ import annotations

from mcm_compiler.arrays.kernels import inlined_njit
from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO, MEMORY
from mcm_hardware.families.fabric.measuring.laid_out import UnitArrays, span
from mcm_hardware.families.fabric.measuring.play_state import (
    NEXT_END,
    PORTS,
    Agenda,
    Play,
    StreamState,
    UnitState,
)


@inlined_njit
def after(turn: int, step: int, count: int) -> int:
    """The position this many steps after another, of `count` in a circle; at most once around."""
    place = turn + step
    return place - count if place >= count else place


@inlined_njit
def wake_actor(play: Play, unit: int) -> None:
    """Has a unit, or the channel that serves it, looked at in the next part 2."""
    agenda = play.agenda
    actor, kind = agenda.actor[unit], play.arrays.kind[unit]
    if not agenda.actor_listed[actor]:
        agenda.actor_listed[actor] = True
        agenda.actors[kind, agenda.counts[kind]] = actor
        agenda.counts[kind] += 1


@inlined_njit
def wake_port(agenda: Agenda, unit: int) -> None:
    """Has the port of a unit looked at in the next part 3."""
    if not agenda.port_listed[unit]:
        agenda.port_listed[unit] = True
        agenda.ports[agenda.counts[PORTS]] = unit
        agenda.counts[PORTS] += 1


@inlined_njit
def is_anyone_listed(agenda: Agenda) -> bool:
    """Return whether an actor or a port is on the agenda."""
    counts = agenda.counts
    return counts[COMPUTE] + counts[MEMORY] + counts[IO] + counts[PORTS] > 0


@inlined_njit
def wake_firings(play: Play, now: int) -> None:
    """Has the units whose firing ends looked at, and notes which cycle the next one ends in."""
    if play.agenda.counts[NEXT_END] != now:
        return
    soonest = -1
    for u in range(len(play.units.ends)):
        ends = play.units.ends[u]
        if ends == now:
            wake_actor(play, u)
        elif ends >= 0 and (soonest < 0 or ends < soonest):
            soonest = ends
    play.agenda.counts[NEXT_END] = soonest


@inlined_njit
def act(play: Play, now: int) -> bool:
    """Part 2: all actors on the agenda. True where a sample may have ended."""
    agenda = play.agenda
    ended = False
    for k in range(agenda.counts[COMPUTE]):
        u = agenda.actors[COMPUTE, k]
        agenda.actor_listed[u] = False
        ended |= _fire(play, int(u), now)
    agenda.counts[COMPUTE] = 0
    # Whoever did something may do more in the next cycle.
    kept = 0
    for k in range(agenda.counts[MEMORY]):
        u = agenda.actors[MEMORY, k]
        agenda.actors[MEMORY, kept] = u
        acts = _hold(play, int(u), now)
        agenda.actor_listed[u] = acts
        kept += acts
    agenda.counts[MEMORY] = kept
    kept = 0
    for k in range(agenda.counts[IO]):
        actor = agenda.actors[IO, k]
        agenda.actors[IO, kept] = actor
        acts, last = _serve_channel(play, int(actor - len(play.arrays.kind)), now)
        agenda.actor_listed[actor] = acts
        kept += acts
        ended |= last
    agenda.counts[IO] = kept
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
    first, last = span(arrays.out_ptr, u)
    ended = False
    if units.ends[u] == now:
        units.ends[u] = -1
        _end_firing(arrays, streams, units, u)
        ended = units.firing[u] == 0 and first == last
    waits = False
    for k in range(first, last):
        e = arrays.out[k]
        if streams.due[e] > 0:
            goes = int(min(streams.due[e], play.mesh.register - streams.register[e]))
            if goes > 0:
                streams.due[e] -= goes
                _register(play, e, goes, u)
            waits |= streams.due[e] > 0
    if units.ends[u] < 0 and not waits:
        _start_firing(play, u, now)
    return ended


@inlined_njit
def _end_firing(arrays: UnitArrays, streams: StreamState, units: UnitState, u: int) -> None:
    firings, done = arrays.firings[u], units.firing[u] + 1
    bursts = done % arrays.burst[u] == 0 or done == firings
    for k in range(*span(arrays.out_ptr, u)):
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
    first, last = span(arrays.in_ptr, u)
    for k in range(first, last):
        leaf = arrays.into[k]
        if streams.unread[leaf] < streams.needs[leaf]:
            return
    firings, upto = arrays.firings[u], units.firing[u] + 1
    ends_sample = upto == firings
    following = 1 if ends_sample else upto + 1
    for k in range(first, last):
        leaf = arrays.into[k]
        _read(play, int(leaf), int(streams.needs[leaf]), ends_sample, now)
        flits = arrays.flits[arrays.stream_of[leaf]]
        streams.needs[leaf] = -(-following * flits // firings) - streams.read_flit[leaf]
    ends = now + arrays.cycles[u]
    units.ends[u] = ends
    soonest = play.agenda.counts[NEXT_END]
    if soonest < 0 or ends < soonest:
        play.agenda.counts[NEXT_END] = ends


@inlined_njit
def _register(play: Play, e: int, count: int, u: int) -> None:
    """Flits of a stream go to the register of the unit that it leaves."""
    before = play.streams.register[e]
    play.streams.register[e] = before + count
    if before == 0:
        wake_port(play.agenda, u)


@inlined_njit
def _hold(play: Play, u: int, now: int) -> bool:
    """A memory unit: writes one flit and reads one; whether it did either."""
    writes = _next_to_write(play, u)
    reads = _next_to_read(play, u, writes)
    if reads >= 0:
        _register(play, reads, 1, u)
        if play.arrays.depth[u] > 0:
            _send_one(play, u, reads)
    if writes >= 0 and _read_one(play, writes, now):
        _note_written(play, u)
    return reads >= 0 or writes >= 0


@inlined_njit
def _next_to_write(play: Play, u: int) -> int:
    """The destination of which a memory unit writes a flit, or -1."""
    arrays, streams = play.arrays, play.streams
    first, last = span(arrays.in_ptr, u)
    upto = play.units.freed[u] + arrays.depth[u]
    for step in range(last - first):
        place = after(play.units.turn_write[u], step, last - first)
        leaf = arrays.into[first + place]
        if streams.unread[leaf] > 0 and streams.read_sample[leaf] < upto:
            play.units.turn_write[u] = after(place, 1, last - first)
            return int(leaf)
    return -1


@inlined_njit
def _next_to_read(play: Play, u: int, writes: int) -> int:
    """The stream for which a memory unit reads a flit while it writes one, or -1."""
    arrays, streams, banks = play.arrays, play.streams, play.mesh.banks
    first, last = span(arrays.out_ptr, u)
    bank = -1
    if writes >= 0:
        bank = (streams.read_flit[writes] + streams.read_sample[writes]) % banks
    for step in range(last - first):
        place = after(play.units.turn_read[u], step, last - first)
        e = arrays.out[first + place]
        if streams.register[e] >= play.mesh.register:
            continue
        if arrays.depth[u] > 0:
            if streams.sent_sample[e] >= play.units.written[u]:
                continue
            if bank >= 0 and (streams.sent_flit[e] + streams.sent_sample[e]) % banks == bank:
                continue
        play.units.turn_read[u] = after(place, 1, last - first)
        return int(e)
    return -1


@inlined_njit
def _send_one(play: Play, u: int, e: int) -> None:
    """A flit of a sample that a memory unit holds has been read for a stream."""
    arrays, streams = play.arrays, play.streams
    streams.sent_flit[e] += 1
    if streams.sent_flit[e] < arrays.flits[e]:
        return
    streams.sent_flit[e] = 0
    streams.sent_sample[e] += 1
    freed = streams.sent_sample[e]
    for k in range(*span(arrays.out_ptr, u)):
        freed = min(freed, streams.sent_sample[arrays.out[k]])
    play.units.freed[u] = freed


@inlined_njit
def _note_written(play: Play, u: int) -> None:
    """A memory unit has written the last flit of a sample of one stream."""
    arrays, streams = play.arrays, play.streams
    first, last = span(arrays.in_ptr, u)
    written = streams.read_sample[arrays.into[first]]
    for k in range(first + 1, last):
        written = min(written, streams.read_sample[arrays.into[k]])
    play.units.written[u] = written


@inlined_njit
def _serve_channel(play: Play, channel: int, now: int) -> tuple[bool, bool]:
    """A memory channel: whether a flit went in or out, and was the last of a sample to go out."""
    trees, streams = play.trees, play.streams
    first, last = span(trees.job_ptr, channel)
    for step in range(last - first):
        place = after(play.units.turn_channel[channel], step, last - first)
        job = int(trees.job[first + place])
        if job >= 0 and streams.register[job] >= play.mesh.register:
            continue
        if job < 0 and streams.unread[-1 - job] == 0:
            continue
        play.units.turn_channel[channel] = after(place, 1, last - first)
        if job >= 0:
            _register(play, job, 1, int(play.arrays.source[job]))
            return True, False
        return True, _read_one(play, -1 - job, now)
    return False, False
