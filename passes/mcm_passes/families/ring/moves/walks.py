"""Walks of local search, whose steps cost what they change: propose, weigh, accept."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, lean_inner_njit, lean_njit
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_passes.families.ring.moves.placed_problem import PlacedProblem, placed_problem
from mcm_passes.families.ring.moves.placement_state import (
    ARRIVED,
    FIRST,
    LAST,
    LAST_USED,
    STEP,
    Loads,
    PlacementState,
    begin_step,
    breaks_triangle_rule,
    copy_changed,
    empty_loads,
    empty_state,
    exchange_devices,
    fill_state,
    find_peaks,
    held_on,
    move_unit,
    place_unit,
    swap_devices,
    weigh_memory,
)
from mcm_passes.families.ring.moves.proposals import Proposal, empty_proposal, propose
from mcm_passes.families.ring.solver.random_stream import uniform
from mcm_passes.mapping.loads.device_memory import LivePeaks, live_peaks
from mcm_passes.mapping.machine.device_order import order_of
from mcm_passes.mapping.models import evaluate
from mcm_passes.mapping.problem.rule_graph import Words

UNITS_PER_STEP = 64
"""Units that may be looked at in each step, on average, to find peaks of memory again."""

SWAPS = 1.0 / 64.0
"""Share of steps on a machine that is no ring in which two chips change their devices, which takes
as long as some dozens of moves of units."""

EXCHANGES = SWAPS / 4.0
"""Share of steps in which two neighbours of the order that do not depend on each other exchange
places, which changes no load, but where units can go."""

MOST_LOOKS = 8
"""Times that all units may be looked at in a row."""


class Walk(NamedTuple):
    """One walk from placement to placement; all arrays change as it goes on.

    Attributes:
        state: where it is.
        before: its loads before the present step.
        room: for proposals.
        scratch: for counting.
        reaches: `[C, C]`, likewise.
        best: `[N]`, the best placement since the walk began, on chips.
        best_device: `[C]`, the device of each chip there.
        best_s: `[1]`, its period; infinite where it does not fit.
        best_score: `[1]`, its score.
        score: `[1]`, of the state.
        history: `[H]`, scores of the last steps.
        step: `[1]`, steps made.
        looks: `[1]`, units that may be looked at to find peaks of memory.
        stream: `[1]`, state of its random stream.
    """

    state: PlacementState
    before: Loads
    room: Proposal
    scratch: LivePeaks
    reaches: Bools
    best: Ints
    best_device: Longs
    best_s: Floats
    best_score: Floats
    score: Floats
    history: Floats
    step: Longs
    looks: Longs
    stream: Words


@entry_njit
def begin_walk(
    p: PlacedProblem, walk: Walk, chip_of: Ints, needed: Longs, reference_s: float
) -> None:
    """Puts a walk to a valid placement.

    Args:
        p: the problem.
        walk: the walk.
        chip_of: `[N]`, the placement, on chips.
        needed: `[C]`, blocks of memory that each device is known to need at most.
        reference_s: the period that scores are relative to.
    """
    s, loads = walk.state, walk.state.loads
    fill_state(p, s, chip_of)
    find_peaks(p, s, walk.scratch, -1)
    loads.streamed[:] = 0
    for device in range(needed.size):
        loads.peak[device] = max(min(loads.peak[device], needed[device] - held_on(s, device)), 0)
        weigh_memory(p, s, walk.scratch, device, walk.looks)
    for owner in range(loads.score.size):
        _weigh(p, s, owner, reference_s)
    copy_changed(p, s, walk.before, loads)
    walk.score[0] = _whole_score(s)
    walk.history[:] = walk.score[0]
    walk.best_s[0], walk.best_score[0] = np.inf, np.inf
    _note(walk)


@lean_njit
def take_steps(
    p: PlacedProblem, walk: Walk, borders: Ints, reference_s: float, steps: int, heat: float
) -> None:
    """Proposes `steps` changes, and looks only at what each changes.

    The score is a sum of high powers of all loads. Unlike their maximum, it shows which of two
    partitions is closer to a better one. A step is accepted if the score is no higher than it was,
    or than it was some steps ago (Burke and Bykov 2017, *The late acceptance hill-climbing
    heuristic*), and above that by annealing. No chip below the highest used one is left empty, and
    none gets more memory than it has or had. On a machine that is no ring chips may be empty, and
    a placement that is not valid yet comes closer to one that is, whatever its score.

    Args:
        p: the problem.
        walk: the walk.
        borders: units with a neighbour on another chip, or without any before or behind them.
        reference_s: the period that scores are relative to.
        steps: how many.
        heat: temperature at the first step, as a share of the mean score of a chip; 0 for none.
    """
    s, room = walk.state, walk.room
    # Sums again: differences have their rounding.
    walk.score[0] = _whole_score(s)
    hot = _busiest(s)
    for step in range(steps):
        slot = walk.step[0] % walk.history.size
        walk.step[0] += 1
        begin_step(s)
        cooled = heat * (1.0 - step / steps)
        kind = 1.0 if p.machine.routes.ring else uniform(walk.stream, 0)
        if kind < SWAPS:
            if kind >= EXCHANGES:
                _swap_devices(p, walk, reference_s, cooled, slot)
            elif not p.machine.routes.relays:
                # Engines of one of them may pass on what the other one makes.
                _exchange_chips(p, walk)
            walk.history[slot], hot = walk.score[0], _busiest(s)
            continue
        walk.looks[0] = min(walk.looks[0] + UNITS_PER_STEP, MOST_LOOKS * s.chip.size)
        count = propose(p, s, hot, borders, walk.stream, room)
        for k in range(count):
            place_unit(p, s, room.units[k], room.new[k])
        if count and _accepts(p, walk, reference_s, cooled, slot):
            copy_changed(p, s, walk.before, s.loads)
            _note(walk)
            hot = _busiest(s)
        elif count:
            for k in range(count - 1, -1, -1):
                move_unit(p, s, room.units[k], room.old[k], False)
            copy_changed(p, s, s.loads, walk.before)
        walk.history[slot] = walk.score[0]


@inlined_njit
def _accepts(p: PlacedProblem, walk: Walk, reference_s: float, heat: float, slot: int) -> bool:
    """Weighs the owners that have changed; whether the step stays, with its score if so."""
    s, loads, before, counts = walk.state, walk.state.loads, walk.before, walk.state.counts
    if p.machine.routes.ring:
        for c in range(counts[FIRST], min(counts[LAST], counts[LAST_USED]) + 1):
            if s.size[c] == 0:
                return False
    if p.machine.strict and breaks_triangle_rule(s, walk.reaches):
        return False
    relief = _relief(p, walk)
    if relief < 0:
        return False
    score = walk.score[0]
    for owner in range(counts[FIRST], counts[LAST] + 1):
        if s.changed[owner] == counts[STEP] and _differs(p, loads, before, owner):
            _weigh(p, s, owner, reference_s)
            score += loads.score[owner] - before.score[owner]
    limit = max(walk.score[0], walk.history[slot])
    if relief > 0 and not p.machine.routes.ring:
        limit = np.inf
    elif heat > 0.0:
        temperature = heat * walk.score[0] / s.size.size
        limit -= temperature * np.log(max(uniform(walk.stream, 0), 1e-12))
    if score > limit:
        return False
    walk.score[0] = score
    return True


@inlined_njit
def _differs(p: PlacedProblem, one: Loads, other: Loads, owner: int) -> bool:
    """Return whether some resource of an owner has another load: hops on the way may not."""
    owned, devices = p.machine.owned, p.machine.routes.num_devices
    differs = False
    if owner < one.streamed.size:
        differs = one.amount[owner] != other.amount[owner]
        differs |= one.streamed[owner] != other.streamed[owner]
    for e in range(owned.ptr[owner], owned.ptr[owner + 1]):
        k = devices + owned.entries[e]
        differs |= one.amount[k] != other.amount[k]
    return bool(differs)


@inlined_njit
def _relief(p: PlacedProblem, walk: Walk) -> int:
    """Weighs memory; -1 where more is amiss than before the step, 1 where less is, else 0."""
    s, loads, before, counts = walk.state, walk.state.loads, walk.before, walk.state.counts
    if loads.lost[0] > before.lost[0]:
        return -1
    relieved = loads.lost[0] < before.lost[0]
    for device in range(counts[FIRST], min(counts[LAST], s.size.size - 1) + 1):
        if s.changed[device] != counts[STEP]:
            continue
        grown = loads.blocks[ARRIVED, device] - before.blocks[ARRIVED, device]
        loads.peak[device] += int(np.ceil(grown * p.machine.packing))
        weigh_memory(p, s, walk.scratch, device, walk.looks)
        if loads.streamed[device] < 0 and loads.needed[device] > before.needed[device]:
            return -1
        relieved |= before.streamed[device] < 0 and loads.needed[device] < before.needed[device]
    return int(relieved)


@inlined_njit
def _note(walk: Walk) -> None:
    """Takes note of the placement if it is the best so far."""
    s, period_s = walk.state, 0.0
    for owner in range(s.loads.busiest_s.size):
        period_s = max(period_s, s.loads.busiest_s[owner])
    if s.loads.lost[0] > 0:
        period_s = np.inf
    better = period_s == walk.best_s[0] and walk.score[0] < walk.best_score[0]
    if not (period_s < walk.best_s[0] or better):
        return
    walk.best_s[0], walk.best_score[0] = period_s, walk.score[0]
    for u in range(walk.best.size):
        walk.best[u] = s.chip[u]
    for c in range(walk.best_device.size):
        walk.best_device[c] = s.device[c]


@inlined_njit
def _busiest(s: PlacementState) -> int:
    """The chip that owns the busiest resource of all that chips own."""
    busiest_s, at = s.loads.busiest_s, 0
    for c in range(s.device.size):
        if busiest_s[s.device[c]] > busiest_s[s.device[at]]:
            at = c
    return at


@inlined_njit
def _whole_score(s: PlacementState) -> float:
    """The sum of all scores."""
    score = 0.0
    for owner in range(s.loads.score.size):
        score += s.loads.score[owner]
    return score


@lean_inner_njit
def _exchange_chips(p: PlacedProblem, walk: Walk) -> None:
    """Lets a chip and the next one exchange places, unless the next one depends on it."""
    s, after = walk.state, p.after
    a = int(uniform(walk.stream, 0) * (s.device.size - 1))
    b = min(a + 1, s.device.size - 1)
    first, second = s.device[a], s.device[b]
    for k in range(s.size[first]):
        u = s.members[first, k]
        for e in range(after.ptr[u], after.ptr[u + 1]):
            if s.chip[after.entries[e]] == b:
                return
    for c, device in ((b, first), (a, second)):
        s.device[c], s.chip_at[device] = device, c
        for k in range(s.size[device]):
            s.chip[s.members[device, k]] = c


@lean_inner_njit
def _swap_devices(p: PlacedProblem, walk: Walk, reference_s: float, heat: float, slot: int) -> None:
    """Lets two chips change their devices."""
    s, loads, before = walk.state, walk.state.loads, walk.before
    chips = s.device.size
    a, b = int(uniform(walk.stream, 0) * chips), int(uniform(walk.stream, 0) * chips)
    first, second = s.device[a], s.device[b]
    if a == b or not p.movable[first] or not p.movable[second]:
        return
    if p.machine.routes.relays:
        # What other chips send may pass through the two.
        exchange_devices(s, a, b)
        fill_state(p, s, s.chip)
        loads.streamed[:] = 0
    else:
        swap_devices(p, s, a, b)
    # Units stay together, so that the peaks of what comes and goes are the same.
    loads.peak[first], loads.peak[second] = loads.peak[second], loads.peak[first]
    for device in range(chips):
        before.blocks[ARRIVED, device] = loads.blocks[ARRIVED, device]
    if _accepts(p, walk, reference_s, heat, slot):
        copy_changed(p, s, before, loads)
        _note(walk)
        return
    exchange_devices(s, a, b)
    copy_changed(p, s, loads, before)


@inlined_njit
def _weigh(p: PlacedProblem, s: PlacementState, owner: int, reference_s: float) -> None:
    """Sets the busiest resource of an owner, and its score."""
    loads, m = s.loads, p.machine
    busiest_s, score, overflows = 0.0, 0.0, False
    if owner < s.size.size:
        busiest_s = loads.amount[owner] / m.rate[owner]
        score = _power(float(busiest_s / reference_s))
        overflows = loads.streamed[owner] < 0
    for e in range(m.owned.ptr[owner], m.owned.ptr[owner + 1]):
        k = m.routes.num_devices + m.owned.entries[e]
        if loads.amount[k] != 0.0:
            load_s = float(loads.amount[k] / m.rate[k])
            busiest_s = max(busiest_s, load_s)
            score += _power(load_s / reference_s)
    loads.score[owner] = score
    loads.busiest_s[owner] = np.inf if overflows else busiest_s


@inlined_njit
def _power(x: float) -> float:
    """The sixteenth power, whose sum over all loads is a score."""
    x *= x
    x *= x
    x *= x
    return x * x


UNKNOWN = np.iinfo(np.int64).max // 2
"""Blocks of memory where nothing is known."""


class Walker:
    """A problem prepared for walks.

    Args:
        problem: the problem.
        reference_s: the period that scores are relative to.
        memory: steps that late acceptance looks back; 1 for the last one alone.

    Attributes:
        placed: the problem as moves see it.
    """

    def __init__(self, problem: PartitionProblem, reference_s: float, memory: int = 1) -> None:
        self._problem = problem
        self.placed = p = placed_problem(problem)
        self._free = p.fixed & (p.demands.nodes.pinned < 0)
        self._at_end = (np.diff(p.before.ptr) == 0) | (np.diff(p.after.ptr) == 0)
        self._reference_s = reference_s
        self._memory = memory

    def walk(self, chip_of: Ints, stream: Words) -> Walk:
        """A walk from a valid partition `[N]`, with the state `[1]` of its random stream."""
        n, chips = chip_of.size, self._problem.num_chips
        walk = Walk(
            state=empty_state(self.placed),
            before=empty_loads(self.placed),
            room=empty_proposal(n),
            scratch=live_peaks(n, chips),
            reaches=np.zeros((chips, chips), np.bool_),
            best=np.zeros(n, np.int32),
            best_device=np.arange(chips),
            best_s=np.zeros(1),
            best_score=np.zeros(1),
            score=np.zeros(1),
            history=np.zeros(self._memory),
            step=np.zeros(1, np.int64),
            looks=np.zeros(1, np.int64),
            stream=stream,
        )
        self.begin(walk, chip_of)
        return walk

    def begin(self, walk: Walk, chip_of: Ints) -> None:
        """Has a walk go on from another valid partition `[N]`, whose best is forgotten."""
        problem = self._problem
        order = order_of(problem, chip_of)
        walk.state.device[:] = order.device
        needed = np.full(problem.num_chips, UNKNOWN)
        if problem.memory == "need" and not problem.streams:
            # Moves count memory as an estimate does; what is needed at the start is known better.
            block = problem.limits.buffer_alignment_bytes
            needed = evaluate(problem, chip_of).memory_bytes // block
        begin_walk(self.placed, walk, order.chips(chip_of), needed, self._reference_s)

    def best(self, walk: Walk) -> Ints:
        """`[N]`, the best partition of a walk, by devices."""
        return walk.best_device[walk.best].astype(np.int32)

    def advance(self, walk: Walk, steps: int, heat: float = 0.0) -> Ints:
        """Makes steps, annealed from `heat` down to 0, see `take_steps`; the best partition."""
        chip, source, target = walk.state.chip, self.placed.after.owners, self.placed.after.entries
        apart, border = chip[source] != chip[target], self._at_end.copy()
        border[source[apart]] = border[target[apart]] = True
        borders = np.flatnonzero(border & self._free).astype(np.int32)
        take_steps(self.placed, walk, borders, self._reference_s, steps, heat)
        return self.best(walk)
