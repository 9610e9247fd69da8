"""Changes of a partition that local search proposes: units, and all that must move along."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Bools, Ints
from mcm_passes.families.ring.moves.placed_problem import PlacedProblem
from mcm_passes.families.ring.moves.placement_state import LAST_USED, PlacementState
from mcm_passes.families.ring.solver.random_stream import uniform
from mcm_passes.mapping.problem.rule_graph import Words

AT_BORDERS = 0.2
"""Share of steps that begin at any border between chips; the others begin mostly at a busy chip."""

FOLLOW_UPS = 4
"""Most moves of one step."""

MOST_MOVED = 64
"""Units that a step may move; steps that would move more are hardly ever accepted."""

TRIES = 12
"""Units that are looked at to find one that can move without others."""


class Proposal(NamedTuple):
    """Units to move; space for one step.

    Attributes:
        units: `[MOST_MOVED]`.
        old: `[MOST_MOVED]`, where each is.
        new: `[MOST_MOVED]`, where each is to go.
        queue: `[MOST_MOVED]`, space for the units of one move.
        known: `[N]`, whether each unit is among them while a proposal is made; else False.
    """

    units: Ints
    old: Ints
    new: Ints
    queue: Ints
    known: Bools


def empty_proposal(num_units: int) -> Proposal:
    """Space for proposals on `num_units` units."""
    units, old, new, queue = np.empty((4, MOST_MOVED), np.int32)
    return Proposal(units, old, new, queue, np.zeros(num_units, np.bool_))


@inlined_njit
def propose(
    p: PlacedProblem, s: PlacementState, hot: int, borders: Ints, stream: Words, room: Proposal
) -> int:
    """Fills a proposal with units to move, under which all dependencies point forwards.

    Args:
        p: the problem.
        s: where the units are.
        hot: the chip at which most steps begin that do not at a border.
        borders: units at borders between chips, perhaps some steps ago.
        stream: `[1]`, state of a random stream.
        room: what is filled.

    Returns:
        How many units; 0 where nothing can be moved.
    """
    if borders.size and uniform(stream, 0) < AT_BORDERS:
        count = _from_border(p, s, borders, stream, room)
    else:
        count = _from_chip(p, s, hot, stream, room)
    # The state stays as it is: what was moved for the proposal's sake goes back.
    size = abs(count)
    for k in range(size):
        u = room.units[k]
        room.new[k] = s.chip[u]
        s.chip[u] = room.old[k]
        room.known[u] = False
    return max(count, 0)


@inlined_njit
def _from_border(
    p: PlacedProblem, s: PlacementState, borders: Ints, stream: Words, room: Proposal
) -> int:
    """Moves a unit alone to where it can go, or one with others to the next chip."""
    u = borders[int(uniform(stream, 0) * borders.size)]
    old = int(s.chip[u])
    low, high = _window(p, s.chip, u)
    top = s.counts[LAST_USED] if p.machine.routes.ring else s.device.size - 1
    high = min(high, top)
    if uniform(stream, 0) < 0.8:
        if low >= high:
            return 0
        to = low + int(uniform(stream, 0) * (high - low))
        if to >= old:
            to += 1
        # Far moves are rarely good; half of the steps go next door where they can.
        if uniform(stream, 0) < 0.5:
            to = old + 1 if to > old else old - 1
    else:
        to = old + 1 if uniform(stream, 0) < 0.5 else old - 1
        if to < 0 or to > top:
            return 0
    return _move(p, s.chip, u, to, room, 0)


@inlined_njit
def _window(p: PlacedProblem, chip: Ints, u: int) -> tuple[int, int]:
    """The chips that a unit may be on while all others stay."""
    low, high = 0, np.iinfo(np.int32).max
    for e in range(p.before.ptr[u], p.before.ptr[u + 1]):
        low = max(low, int(chip[p.before.entries[e]]))
    for e in range(p.after.ptr[u], p.after.ptr[u + 1]):
        high = min(high, int(chip[p.after.entries[e]]))
    return low, high


@inlined_njit
def _from_chip(p: PlacedProblem, s: PlacementState, hot: int, stream: Words, room: Proposal) -> int:
    """Moves units off a chip, and then perhaps pushes others on, or back."""
    chips = s.device.size
    chip = hot
    kind = uniform(stream, 0)
    if kind < 0.25:
        # What loads a link may as well sit on the chip behind it.
        chip = min(hot + 1, chips - 1)
    elif kind >= 0.6:
        chip = int(uniform(stream, 0) * chips)
    up = uniform(stream, 0) < 0.5
    count = 0
    for _ in range(FOLLOW_UPS):
        u = _unit_on(p, s, chip, up, uniform(stream, 0) < 0.75, stream)
        if u < 0:
            break
        to = chip + 1 if up else chip - 1
        if uniform(stream, 0) < 0.25:
            to = _chip_of_neighbour(p, s.chip, u, up, stream)
        if to < 0 or to >= chips or to == chip:
            break
        count = _move(p, s.chip, u, to, room, count)
        if count <= 0:
            break
        after = uniform(stream, 0)
        if after < 0.4:
            break
        # Go on from the chip that has just got something, onwards or back.
        chip = to
        if after < 0.7:
            up = not up
    return count


@lean_inner_njit
def _unit_on(
    p: PlacedProblem, s: PlacementState, chip: int, up: bool, lone: bool, stream: Words
) -> int:
    """A random unit on a chip, or -1; if `lone` mostly one that can leave it without others."""
    next_to = p.after if up else p.before
    device = s.device[chip]
    size = s.size[device]
    unit = -1
    for _ in range((TRIES if lone else 1) if size else 0):
        u = s.members[device, int(uniform(stream, 0) * size)]
        if s.chip[u] != chip:
            # An earlier move of the same step has taken it off.
            continue
        unit = u
        free = True
        for e in range(next_to.ptr[u], next_to.ptr[u + 1]):
            free = free and s.chip[next_to.entries[e]] != chip
        if free:
            break
    return unit


@lean_inner_njit
def _chip_of_neighbour(p: PlacedProblem, chip: Ints, u: int, up: bool, stream: Words) -> int:
    """The chip of a random reader, or of a unit that is read; -1 where there is none."""
    next_to = p.after if up else p.before
    begin, end = next_to.ptr[u], next_to.ptr[u + 1]
    if begin == end:
        return -1
    return int(chip[next_to.entries[begin + int(uniform(stream, 0) * (end - begin))]])


@lean_inner_njit
def _move(p: PlacedProblem, chip: Ints, u: int, to: int, room: Proposal, count: int) -> int:
    """Sets `chip` to `to` for a unit and all that must not be before or behind it.

    Returns:
        The new count of the proposal; the negative of it where a pinned unit would have to move,
        or too many.
    """
    up = to > chip[u]
    next_to = p.after if up else p.before
    count = _take(p, chip, u, to, room, count)
    queue = room.queue
    begin, end = 0, 1
    queue[0] = u
    while count > 0 and begin < end:
        x = queue[begin]
        begin += 1
        for e in range(next_to.ptr[x], next_to.ptr[x + 1]):
            v = next_to.entries[e]
            if not (chip[v] < to if up else chip[v] > to):
                continue
            count = _take(p, chip, v, to, room, count)
            if count < 0:
                break
            queue[end] = v
            end += 1
    return count


@inlined_njit
def _take(p: PlacedProblem, chip: Ints, u: int, to: int, room: Proposal, count: int) -> int:
    """Adds a unit to a proposal; the new count, or the negative of the old one."""
    if p.demands.nodes.pinned[u] >= 0:
        return -count
    if not room.known[u]:
        if count == room.units.size:
            return -count
        room.known[u] = True
        room.units[count] = u
        room.old[count] = chip[u]
        count += 1
    chip[u] = to
    return count
