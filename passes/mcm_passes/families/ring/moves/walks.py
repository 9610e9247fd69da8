"""Walks of local search, whose steps cost what they change: propose, weigh, accept."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import TO_HOST
from mcm_passes.families.ring.loads.ring_kernels import Loads
from mcm_passes.families.ring.loads.ring_seconds import load_of_chip, load_of_root
from mcm_passes.families.ring.moves.channel_loads import (
    LOST,
    LOST_BEFORE,
    begin_channels,
    busiest_channel,
    power,
    score_of_channels,
    stream_to,
    undo_channels,
    weigh_channels,
)
from mcm_passes.families.ring.moves.placed_problem import (
    LAST_USED,
    PlacedProblem,
    breaks_triangle_rule,
    placed_problem,
)
from mcm_passes.families.ring.moves.placement_state import (
    ARRIVED,
    PlacementState,
    Undo,
    empty_state,
    empty_undo,
    fill_state,
    find_peaks,
    held_on_chip,
    place_unit,
    refill_state,
    take_back,
    take_back_readers,
    weigh_memory,
)
from mcm_passes.families.ring.moves.proposals import (
    Proposal,
    empty_proposal,
    propose,
    units_at_borders,
)
from mcm_passes.families.ring.solver.random_stream import uniform
from mcm_passes.mapping.loads.device_memory import LivePeaks, live_peaks
from mcm_passes.mapping.machine.device_order import order_of
from mcm_passes.mapping.models import evaluate

Words = npt.NDArray[np.uint64]

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


class ChipLoads(NamedTuple):
    """Loads and memory of each chip.

    Attributes:
        busiest_s: `[C]`, seconds of its busiest resource; infinite where its memory overflows.
        score: `[C]`, sum of high powers of its loads.
        needed: `[C]`, blocks of memory.
        peak: `[C]`, no fewer blocks than what comes and goes takes at once.
        streamed: `[C]`, blocks of weights that it streams.
        root: `[2]`, seconds of the busiest channel that all chips share, and what such channels
            add to the score.
        busy_s: `[C]`, as in `PlacementState`; its very array where the loads are those of a walk.
        totals: `[7, C]`, likewise.
    """

    busiest_s: Floats
    score: Floats
    needed: Longs
    peak: Longs
    streamed: Longs
    root: Floats
    busy_s: Floats
    totals: Longs


class Walk(NamedTuple):
    """One walk from partition to partition; all arrays change as it goes on.

    Attributes:
        state: where it is.
        loads: its loads.
        before: space for the loads before a step.
        undo: how to take the moves of a step back.
        room: for proposals.
        scratch: for counting.
        reaches: `[C, C]`, likewise.
        best: `[N]`, the best partition since the walk began.
        best_device: `[C]`, the device of each chip there.
        best_s: `[1]`, its period; infinite where it does not fit.
        best_score: `[1]`, its score.
        changed: `[N]`, units that may be elsewhere in `best`.
        num_changed: `[1]`, how many; more than N where all may be.
        score: `[1]`, of the state.
        history: `[H]`, scores of the last steps.
        step: `[1]`, steps made.
        looks: `[1]`, units that may be looked at to find peaks of memory.
        stream: `[1]`, state of its random stream.
    """

    state: PlacementState
    loads: ChipLoads
    before: ChipLoads
    undo: Undo
    room: Proposal
    scratch: LivePeaks
    reaches: Bools
    best: Ints
    best_device: Longs
    best_s: Floats
    best_score: Floats
    changed: Ints
    num_changed: Longs
    score: Floats
    history: Floats
    step: Longs
    looks: Longs
    stream: Words


def _empty_loads(chips: int) -> ChipLoads:
    return ChipLoads(
        np.zeros(chips),
        np.zeros(chips),
        np.zeros(chips, np.int64),
        np.zeros(chips, np.int64),
        np.zeros(chips, np.int64),
        np.zeros(2),
        np.zeros(chips),
        np.zeros((7, chips), np.int64),
    )


def empty_walk(p: PlacedProblem, state: PlacementState, memory: int, stream: Words) -> Walk:
    """Arrays of a walk; `begin_walk` gives it a partition.

    Args:
        p: the problem.
        state: arrays of its state.
        memory: steps that late acceptance looks back.
        stream: `[1]`, state of its random stream.
    """
    n, chips = state.chip.size, p.ring.room.size
    return Walk(
        state=state,
        loads=_empty_loads(chips)._replace(busy_s=state.busy_s, totals=state.totals),
        before=_empty_loads(chips),
        undo=empty_undo(p),
        room=empty_proposal(n),
        scratch=live_peaks(n, chips),
        reaches=np.zeros((chips, chips), np.bool_),
        best=np.zeros(n, np.int32),
        best_device=np.arange(chips),
        best_s=np.zeros(1),
        best_score=np.zeros(1),
        changed=np.zeros(n, np.int32),
        num_changed=np.zeros(1, np.int64),
        score=np.zeros(1),
        history=np.zeros(memory),
        step=np.zeros(1, np.int64),
        looks=np.zeros(1, np.int64),
        stream=stream,
    )


@entry_njit
def begin_walk(
    p: PlacedProblem, walk: Walk, chip_of: Ints, needed: Longs, reference_s: float
) -> None:
    """Puts a walk to a valid partition.

    Args:
        p: the problem.
        walk: the walk.
        chip_of: `[N]`, the partition.
        needed: `[C]`, blocks of memory that it is known to need at most.
        reference_s: the period that scores are relative to.
    """
    s, loads = walk.state, walk.loads
    begin_channels(s.channels)
    fill_state(p, s, chip_of)
    chips = loads.peak.size
    find_peaks(p, s, walk.scratch, 0, chips - 1, loads.peak)
    for c in range(chips):
        loads.peak[c] = max(min(loads.peak[c], needed[c] - held_on_chip(s, c)), 0)
        _weigh(p, walk, c, reference_s)
    _weigh_roots(p, walk, reference_s)
    if p.network.used:
        walk.before.streamed[:] = 0
        _stream(p, walk, 0, chips - 1)
        weigh_channels(p.network, s.channels, reference_s)
    walk.score[0] = _whole_score(p, walk, reference_s)
    walk.history[:] = walk.score[0]
    walk.best[:], walk.best_device[:] = s.chip, s.device
    walk.best_s[0] = _period(p, walk)
    walk.best_score[0] = walk.score[0]
    walk.num_changed[0] = 0


@entry_njit
def take_steps(p: PlacedProblem, walk: Walk, reference_s: float, steps: int, heat: float) -> None:
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
        reference_s: the period that scores are relative to.
        steps: how many.
        heat: temperature at the first step, as a share of the mean score of a chip; 0 for none.
    """
    # Sums again: differences have their rounding.
    walk.score[0] = _whole_score(p, walk, reference_s)
    _step(p, walk, units_at_borders(p, walk.state.chip), reference_s, steps, heat)


@lean_inner_njit
def _step(
    p: PlacedProblem, walk: Walk, borders: Ints, reference_s: float, steps: int, heat: float
) -> None:
    """`take_steps`, without what has to be counted before."""
    s, loads, before, room = walk.state, walk.loads, walk.before, walk.room
    hot = _busiest(p, walk)
    for step in range(steps):
        slot = walk.step[0] % walk.history.size
        walk.step[0] += 1
        cooled = heat * (1.0 - step / steps)
        if p.network.used and _move_devices(p, walk, reference_s, cooled, slot):
            walk.history[slot], hot = walk.score[0], _busiest(p, walk)
            continue
        walk.looks[0] = min(walk.looks[0] + UNITS_PER_STEP, MOST_LOOKS * s.chip.size)
        count = propose(p, s, hot, borders, walk.stream, room)
        # What a tensor loads changes up to the chips where its units were and are.
        first, last = loads.peak.size, -1
        for k in range(count):
            first = min(first, room.old[k], room.new[k])
            last = max(last, room.old[k], room.new[k])
        if p.network.used and not p.network.routes.relays:
            first = _first_sender(p, s, room, count, first)
        elif p.network.used or p.ring.at_ends:
            # Any engine may pass tensors on.
            # Where what goes to the host leaves depends on whether the first chip makes it.
            first, last = 0, loads.peak.size - 1
        _copy_loads(before, loads, first, last)
        walk.undo.size[0] = 0
        for k in range(count):
            place_unit(p, s, room.units[k], room.new[k], walk.undo)
        if count and _accepts(p, walk, first, last, reference_s, cooled, slot):
            _note(p, walk, count)
            hot = _busiest(p, walk)
        elif count:
            for k in range(count - 1, -1, -1):
                take_back(p, s, room.units[k], room.old[k])
            take_back_readers(s, walk.undo)
            if p.network.used:
                undo_channels(p.network, s.channels)
            _copy_loads(loads, before, first, last)
        walk.history[slot] = walk.score[0]


@inlined_njit
def _accepts(
    p: PlacedProblem,
    walk: Walk,
    first: int,
    last: int,
    reference_s: float,
    heat: float,
    slot: int,
) -> bool:
    """Weighs the chips that have changed; whether the step stays, with its score if so."""
    s, loads, before = walk.state, walk.loads, walk.before
    for c in range(first, 0 if p.ring.skips else min(last, s.counts[LAST_USED]) + 1):
        if s.size[c] == 0:
            return False
    if p.ring.strict and breaks_triangle_rule(s.pairs, s.counts, walk.reaches):
        return False
    score, relieved = walk.score[0], False
    for c in range(first, last + 1):
        grown = s.totals[ARRIVED, c] - before.totals[ARRIVED, c]
        loads.peak[c] += int(np.ceil(grown * p.ring.packing))
        _weigh(p, walk, c, reference_s)
        if loads.busiest_s[c] == np.inf and loads.needed[c] > before.needed[c]:
            return False
        relieved |= before.busiest_s[c] == np.inf and loads.needed[c] < before.needed[c]
        score += loads.score[c] - before.score[c]
    if p.ring.shared:
        _weigh_roots(p, walk, reference_s)
        score += loads.root[1] - before.root[1]
    if p.network.used:
        _stream(p, walk, first, last)
        counts = s.channels.counts
        if counts[LOST] > counts[LOST_BEFORE]:
            return False
        score += weigh_channels(p.network, s.channels, reference_s)
        if relieved or counts[LOST] < counts[LOST_BEFORE]:
            walk.score[0] = score
            return True
    limit = max(walk.score[0], walk.history[slot])
    if heat > 0.0:
        temperature = heat * walk.score[0] / loads.score.size
        limit -= temperature * np.log(max(uniform(walk.stream, 0), 1e-12))
    if score > limit:
        return False
    walk.score[0] = score
    return True


@inlined_njit
def _note(p: PlacedProblem, walk: Walk, count: int) -> None:
    """Takes note of an accepted step, and of the partition if it is the best so far."""
    n = walk.best.size
    for k in range(count):
        _note_unit(walk, walk.room.units[k])
    period_s = _period(p, walk)
    better = period_s == walk.best_s[0] and walk.score[0] < walk.best_score[0]
    if not (period_s < walk.best_s[0] or better):
        return
    walk.best_s[0], walk.best_score[0] = period_s, walk.score[0]
    if p.network.used:
        for c in range(walk.best_device.size):
            walk.best_device[c] = walk.state.device[c]
    if walk.num_changed[0] > n:
        for u in range(n):
            walk.best[u] = walk.state.chip[u]
    else:
        for k in range(walk.num_changed[0]):
            u = walk.changed[k]
            walk.best[u] = walk.state.chip[u]
    walk.num_changed[0] = 0


@inlined_njit
def _note_unit(walk: Walk, unit: int) -> None:
    """Takes note of a unit that has moved."""
    if walk.num_changed[0] < walk.changed.size:
        walk.changed[walk.num_changed[0]] = unit
    walk.num_changed[0] += 1


@inlined_njit
def _busiest(p: PlacedProblem, walk: Walk) -> int:
    """The chip that the busiest resource belongs to."""
    loads, at = walk.loads, 0
    for c in range(loads.busiest_s.size):
        if loads.busiest_s[c] > loads.busiest_s[at]:
            at = c
    return _chip_at_channel(p, walk, at) if p.network.used else at


@lean_inner_njit
def _chip_at_channel(p: PlacedProblem, walk: Walk, busiest: int) -> int:
    """A chip at the channel with the highest load, or the busiest one if that has more."""
    channels = walk.state.channels
    if not channels.load_s.size:
        return busiest
    k = busiest_channel(channels)
    if channels.load_s[k] > walk.loads.busiest_s[busiest]:
        for c in range(walk.state.device.size):
            if walk.state.device[c] == p.network.device[k]:
                return c
    return busiest


@lean_inner_njit
def _period(p: PlacedProblem, walk: Walk) -> float:
    """Seconds of the busiest resource; infinite where no route leads or memory overflows."""
    period_s, channels = walk.loads.root[0], walk.state.channels
    for c in range(walk.loads.busiest_s.size):
        period_s = max(period_s, walk.loads.busiest_s[c])
    for k in range(channels.load_s.size):
        period_s = max(period_s, channels.load_s[k])
    return np.inf if p.network.used and channels.counts[LOST] > 0 else period_s


@inlined_njit
def _whole_score(p: PlacedProblem, walk: Walk, reference_s: float) -> float:
    """The sum of all scores."""
    score = 0.0
    for c in range(walk.loads.score.size):
        score += walk.loads.score[c]
    score += walk.loads.root[1]
    if p.network.used:
        score += score_of_channels(walk.state.channels, reference_s)
    return score


@lean_inner_njit
def _stream(p: PlacedProblem, walk: Walk, first: int, last: int) -> None:
    """Counts on channels how much more or less weights some chips stream than before."""
    s, loads, before = walk.state, walk.loads, walk.before
    for c in range(first, last + 1):
        more = loads.streamed[c] - before.streamed[c]
        if more != 0:
            stream_to(p.network, s.channels, s.device[c], more)


@lean_inner_njit
def _first_sender(
    p: PlacedProblem, s: PlacementState, room: Proposal, count: int, first: int
) -> int:
    """The first chip whose buffers may change: a tensor to the host may be sent on by a reader."""
    tensors = p.demands.tensors
    for k in range(count):
        u = room.units[k]
        for e in range(p.read.ptr[u], p.read.ptr[u + 1]):
            t = p.read.entries[e]
            if tensors.kind[t] & TO_HOST:
                first = min(first, int(s.chip[tensors.producer[t]]))
    return first


@lean_inner_njit
def _move_devices(p: PlacedProblem, walk: Walk, reference_s: float, heat: float, slot: int) -> bool:
    """Begins a step on a machine that is no ring; whether it is one of devices, which is made."""
    begin_channels(walk.state.channels)
    kind = uniform(walk.stream, 0)
    if kind < EXCHANGES:
        # Engines of one of them may pass on what the other one makes.
        if not p.network.routes.relays:
            _exchange_numbers(p, walk, reference_s)
    elif kind < SWAPS:
        _swap_devices(p, walk, reference_s, heat, slot)
    return kind < SWAPS


@lean_inner_njit
def _exchange_numbers(p: PlacedProblem, walk: Walk, reference_s: float) -> None:
    """Lets a chip and the next one exchange numbers, unless the next one depends on it."""
    s, loads, after = walk.state, walk.loads, p.graph.after
    chips = s.device.size
    a = int(uniform(walk.stream, 0) * (chips - 1))
    b = min(a + 1, chips - 1)
    for k in range(s.size[a]):
        u = s.members[a, k]
        for e in range(after.ptr[u], after.ptr[u + 1]):
            if s.chip[after.entries[e]] == b:
                return
    for c in (a, b):
        for k in range(s.size[c]):
            s.chip[s.members[c, k]] = a + b - c
            _note_unit(walk, s.members[c, k])
    s.device[a], s.device[b] = s.device[b], s.device[a]
    loads.peak[a], loads.peak[b] = loads.peak[b], loads.peak[a]
    refill_state(p, s, s.chip)
    _weigh(p, walk, a, reference_s)
    _weigh(p, walk, b, reference_s)
    for c in range(chips):
        stream_to(p.network, s.channels, s.device[c], loads.streamed[c])
    weigh_channels(p.network, s.channels, reference_s)


@lean_inner_njit
def _swap_devices(p: PlacedProblem, walk: Walk, reference_s: float, heat: float, slot: int) -> None:
    """Lets two chips change their devices, and counts all tensors again."""
    s, loads, before = walk.state, walk.loads, walk.before
    chips = s.device.size
    a, b = int(uniform(walk.stream, 0) * chips), int(uniform(walk.stream, 0) * chips)
    if a == b or not p.movable[s.device[a]] or not p.movable[s.device[b]]:
        return
    _copy_loads(before, loads, 0, chips - 1)
    s.device[a], s.device[b] = s.device[b], s.device[a]
    refill_state(p, s, s.chip)
    for c in range(chips):
        # What comes and goes, and is streamed, is the same.
        before.totals[ARRIVED, c] = s.totals[ARRIVED, c]
        stream_to(p.network, s.channels, s.device[c], loads.streamed[c])
    if _accepts(p, walk, 0, chips - 1, reference_s, heat, slot):
        _note(p, walk, 0)
        return
    s.device[a], s.device[b] = s.device[b], s.device[a]
    refill_state(p, s, s.chip)
    undo_channels(p.network, s.channels)
    _copy_loads(loads, before, 0, chips - 1)


@inlined_njit
def _weigh(p: PlacedProblem, walk: Walk, c: int, reference_s: float) -> None:
    """Sets the loads of a chip, from the totals and the limit of its peak."""
    s, loads = walk.state, walk.loads
    looks = walk.looks[0] >= s.chip.size
    streamed = weigh_memory(p, s, walk.scratch, c, looks, loads.peak, loads.needed)
    if looks and loads.needed[c] > p.ring.room[s.device[c]]:
        walk.looks[0] -= s.chip.size
    busiest_s, score = 0.0, 0.0
    for k in range(p.ring.rate.shape[0]):
        if p.network.used:
            load_s = s.busy_s[c] / p.ring.rate[k, s.device[c]]
        else:
            load_s = load_of_chip(p.ring.rate, Loads(s.busy_s, s.totals), k, c, max(streamed, 0))
        busiest_s = max(busiest_s, load_s)
        score += power(load_s / reference_s)
    loads.score[c] = score
    loads.streamed[c] = max(streamed, 0)
    loads.busiest_s[c] = busiest_s if streamed >= 0 else np.inf


@inlined_njit
def _weigh_roots(p: PlacedProblem, walk: Walk, reference_s: float) -> None:
    """Sets the loads of the channels that all chips share."""
    loads = walk.loads
    loads.root[0], loads.root[1] = 0.0, 0.0
    for k in range(p.ring.root_rate.size if p.ring.shared else 0):
        load_s = load_of_root(p.ring.root_rate, walk.state.totals, k, loads.streamed)
        loads.root[0] = max(loads.root[0], load_s)
        loads.root[1] += power(load_s / reference_s)


@inlined_njit
def _copy_loads(to: ChipLoads, loads: ChipLoads, first: int, last: int) -> None:
    """Sets the loads of some chips to what others are, bit-identical."""
    to.root[0], to.root[1] = loads.root[0], loads.root[1]
    for c in range(first, last + 1):
        to.busiest_s[c] = loads.busiest_s[c]
        to.score[c] = loads.score[c]
        to.needed[c] = loads.needed[c]
        to.peak[c] = loads.peak[c]
        to.streamed[c] = loads.streamed[c]
        to.busy_s[c] = loads.busy_s[c]
    for k in range(loads.totals.shape[0]):
        for c in range(first, last + 1):
            to.totals[k, c] = loads.totals[k, c]


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
        self.placed = placed_problem(problem)
        self._reference_s = reference_s
        self._memory = memory

    def walk(self, chip_of: Ints, stream: Words) -> Walk:
        """A walk from a valid partition `[N]`, with the state `[1]` of its random stream."""
        made = empty_walk(self.placed, empty_state(self.placed), self._memory, stream)
        self.begin(made, chip_of)
        return made

    def begin(self, walk: Walk, chip_of: Ints) -> None:
        """Has a walk go on from another valid partition `[N]`, whose best is forgotten."""
        problem = self._problem
        order = order_of(problem, chip_of)
        walk.state.device[:] = order.device
        needed = np.full(problem.num_chips, UNKNOWN)
        if problem.memory == "need" and not problem.streams:
            # Moves count memory as an estimate does; what is needed at the start is known better.
            block = problem.limits.buffer_alignment_bytes
            needed = (evaluate(problem, chip_of).memory_bytes // block)[order.device]
        begin_walk(self.placed, walk, order.chips(chip_of), needed, self._reference_s)

    def best(self, walk: Walk) -> Ints:
        """`[N]`, the best partition of a walk, by devices."""
        return walk.best_device[walk.best].astype(np.int32)

    def advance(self, walk: Walk, steps: int, heat: float = 0.0) -> None:
        """Makes steps, annealed from `heat` down to 0; see `take_steps`."""
        take_steps(self.placed, walk, self._reference_s, steps, heat)
