"""The compiled search over stages: which stage each unit is in, and on which device each stage is.

A placement is kept as a number per unit that never falls along a dependency, its stage, and a
device per stage. So the graph of devices has no circle, whatever moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_passes.mapping.loads.problem_arrays import ProblemArrays
from mcm_passes.mapping.machine.load_kernels import RouteArrays, loads_on_machine

UNIT_MOVES, SWAPS = 0.7, 0.93
"""Shares of all moves up to which units change their stage, and two stages their devices; with the
rest, two neighbouring stages that do not depend on each other change their numbers."""

PUSHES = 0.4
"""Share of unit moves that take along what stands in the way, so that a whole branch moves."""

FROM_BUSIEST = 0.5
"""Share of unit moves that begin on the busiest device."""

NEAR = 0.7
"""Share of unit moves that lead to a neighbouring stage."""

OVERFLOW_COST, SPREAD_COST = 10.0, 1e-3
"""What memory that is missing costs, per byte of all that there is and in periods; and what a
second of work or transfers costs beside the busiest resource, so that a search has a slope."""


class DeviceLimits(NamedTuple):
    """What limits a placement on C devices and L channels.

    Attributes:
        speed: `[C]`.
        memory_bytes: `[C]`.
        bytes_per_s: `[L]`.
        packing: room that the peak of activations needs, as a multiple.
        alignment: what buffers are rounded up to.
        stream_bytes_per_s: rate at which each device streams weights; 0 where it cannot.
        stream_buffers: buffers that streamed weights pass through.
    """

    speed: Floats
    memory_bytes: Longs
    bytes_per_s: Floats
    packing: float
    alignment: int
    stream_bytes_per_s: float
    stream_buffers: int


class Graph(NamedTuple):
    """Dependencies between the units that have a place of their own.

    Attributes:
        units: those units.
        source: `[E]`, where each dependency comes from.
        target: `[E]`, where it goes to.
        before: `[N]` rows of the units that each one reads from.
        after: `[N]` rows of the units that read from each one.
        pinned: `[N]`, the device that each unit must be on, or -1.
    """

    units: Longs
    source: Longs
    target: Longs
    before: Rows
    after: Rows
    pinned: Longs


@entry_njit
def cost_of(
    p: ProblemArrays, routes: RouteArrays, package: DeviceLimits, chip_of: Ints
) -> tuple[float, float, int]:
    """What a search compares, the period, or infinity where it is not valid, and who is busiest.

    The busiest is a device, or C plus a channel.
    """
    found = loads_on_machine(p, routes, chip_of)
    period_s, spread_s, busiest = 0.0, 0.0, 0
    missing, room = 0.0, 0.0
    for c in range(p.num_chips):
        busy = found.busy_s[c] / package.speed[c]
        spread_s += busy * busy
        if busy > period_s:
            period_s, busiest = busy, c
        peak = int(np.ceil(found.peak[c] * package.packing))
        peak = -(-peak // package.alignment) * package.alignment
        over = found.weights[c] + found.held[c] + peak - package.memory_bytes[c]
        room += package.memory_bytes[c]
        if over > 0 and package.stream_bytes_per_s > 0.0:
            buffers = package.stream_buffers * found.largest[c]
            streamed = min(over + buffers, found.weights[c])
            over += buffers - streamed
            seconds = streamed / package.stream_bytes_per_s
            if seconds > period_s:
                period_s, busiest = seconds, c
        missing += max(float(over), 0.0)
    total_s = 0.0
    for k in range(package.bytes_per_s.size):
        busy = found.crossed[k] / package.bytes_per_s[k]
        total_s += busy
        if busy > period_s:
            period_s, busiest = busy, p.num_chips + k
    spread_s = spread_s / max(period_s, 1e-30) / p.num_chips
    cost = period_s + SPREAD_COST * (spread_s + total_s / package.bytes_per_s.size)
    cost += OVERFLOW_COST * (period_s + 1e-9) * missing / max(room, 1.0)
    cost += (period_s + 1e-9) * found.lost
    return cost, np.inf if missing > 0 or found.lost > 0 else period_s, busiest


class Standing(NamedTuple):
    """A placement by stages; its arrays change in place.

    Attributes:
        stage_of: `[N]`, stage of each unit.
        device_of: `[C]`, device of each stage.
        score: `[3]`, its cost, its period, and its busiest resource, see `cost_of`.
    """

    stage_of: Longs
    device_of: Longs
    score: Floats


COST, PERIOD, BUSIEST = range(3)
"""Places of `Standing.score`."""


@entry_njit
def search_stages(
    problem: ProblemArrays,
    routes: RouteArrays,
    package: DeviceLimits,
    graph: Graph,
    current: Standing,
    best: Standing,
    draws: Floats,
    worse: Floats,
) -> int:
    """Tries a move for each row of `draws`, and keeps those that are better, or a little worse.

    Args:
        problem: the problem.
        routes: of the machine.
        package: what limits a placement.
        graph: dependencies.
        current: the present placement; changed in place.
        best: the best placement so far; changed in place.
        draws: `[M, 5]`, random numbers from 0 to 1.
        worse: `[M]`, how much worse a move may be, as a share.

    Returns:
        Placements that were evaluated.
    """
    evaluations = 0
    chip_of = placement(current.stage_of, current.device_of)
    stages = current.device_of.size
    moved, came_from = np.empty(chip_of.size, np.int64), np.empty(chip_of.size, np.int64)
    for i in range(draws.shape[0]):
        kind, first, second = draws[i, 0], draws[i, 1], draws[i, 2]
        a, b = int(first * stages), int(second * stages)
        count = 0
        if kind < UNIT_MOVES:
            count = _move_units(graph, current, chip_of, draws[i], moved, came_from)
        elif kind < SWAPS and a != b:
            _swap_devices(graph, current, a, b, chip_of)
        elif kind >= SWAPS and a + 1 < stages:
            _change_numbers(graph, current.stage_of, current.device_of, a)
        if count == 0 and (a == b or not UNIT_MOVES <= kind < SWAPS):
            # No unit is on another device.
            continue
        evaluations += 1
        found = cost_of(problem, routes, package, chip_of)
        if _is_taken(found, _misplaced(graph, chip_of), current, best, worse[i]):
            continue
        if count:
            for k in range(count):
                u, back = moved[k], came_from[k]
                current.stage_of[u], chip_of[u] = back, current.device_of[back]
        else:
            _swap_devices(graph, current, a, b, chip_of)
    return evaluations


@inner_njit
def _is_taken(
    found: tuple[float, float, int],
    missing: int,
    current: Standing,
    best: Standing,
    worse: float,
) -> bool:
    """Whether a placement is better than the present one, or by no more than a share worse.

    Args:
        found: what `cost_of` says of it.
        missing: units that are not where the user wants them.
        current: the placement, with the score of the one before; with its own where it is taken.
        best: the best placement so far; becomes this one where that is better.
        worse: the share.
    """
    cost, period_s, busiest = found
    cost *= 1.0 + missing
    if cost > current.score[COST] * (1.0 + worse):
        return False
    score = best.score
    current.score[COST], current.score[BUSIEST] = cost, busiest
    if missing == 0 and (
        period_s < score[PERIOD] or (period_s == score[PERIOD] and cost < score[COST])
    ):
        score[COST], score[PERIOD] = cost, period_s
        best.stage_of[:] = current.stage_of
        best.device_of[:] = current.device_of
    return True


@inlined_njit
def _move_units(
    graph: Graph, current: Standing, chip_of: Ints, draw: Floats, moved: Longs, came_from: Longs
) -> int:
    """As `_move`, of a unit and to a stage that are drawn."""
    stage_of, device_of = current.stage_of, current.device_of
    u = _pick_unit(graph, chip_of, int(current.score[BUSIEST]), draw[1], draw[3])
    push = draw[4] < PUSHES and graph.pinned[u] < 0
    new = _pick_stage(graph, current, u, draw[2], push)
    if new == stage_of[u]:
        return 0
    count = _move(graph, stage_of, u, new, moved, came_from)
    for k in range(count):
        chip_of[moved[k]] = device_of[new]
    return count


@inlined_njit
def _swap_devices(graph: Graph, current: Standing, a: int, b: int, chip_of: Ints) -> None:
    stage_of, device_of = current.stage_of, current.device_of
    device_of[a], device_of[b] = device_of[b], device_of[a]
    for u in graph.units:
        chip_of[u] = device_of[stage_of[u]]


@inlined_njit
def _move(graph: Graph, stage_of: Longs, u: int, new: int, moved: Longs, came_from: Longs) -> int:
    """Moves a unit to a stage, and with it all that depend on it, or it on, and stand before that.

    Returns:
        How many units moved; `moved` and `came_from` tell which, and their stages before.
    """
    forward = new > stage_of[u]
    moved[0], came_from[0] = u, stage_of[u]
    stage_of[u] = new
    count, k = 1, 0
    while k < count:
        v = moved[k]
        k += 1
        first = graph.after.ptr[v] if forward else graph.before.ptr[v]
        end = graph.after.ptr[v + 1] if forward else graph.before.ptr[v + 1]
        for e in range(first, end):
            w = graph.after.entries[e] if forward else graph.before.entries[e]
            if stage_of[w] < new if forward else stage_of[w] > new:
                moved[count], came_from[count] = w, stage_of[w]
                stage_of[w] = new
                count += 1
    return count


@entry_njit
def placement(stage_of: Longs, device_of: Longs) -> Ints:
    """`[N]`, the device of each unit."""
    chip_of = np.empty(stage_of.size, np.int32)
    for u in range(stage_of.size):
        chip_of[u] = device_of[stage_of[u]]
    return chip_of


@inlined_njit
def _misplaced(graph: Graph, chip_of: Ints) -> int:
    """Units that are not where the user wants them."""
    count = 0
    for u in graph.units:
        if graph.pinned[u] >= 0 and graph.pinned[u] != chip_of[u]:
            count += 1
    return count


@inlined_njit
def _pick_unit(graph: Graph, chip_of: Ints, busiest: int, first: float, third: float) -> int:
    """A unit, often one of the busiest device."""
    count = graph.units.size
    u = int(graph.units[int(first * count)])
    if third >= FROM_BUSIEST:
        return u
    start = int(first * count)
    for k in range(count):
        v = int(graph.units[(start + k) % count])
        if chip_of[v] == busiest:
            return v
    return u


@inlined_njit
def _pick_stage(graph: Graph, current: Standing, u: int, second: float, push: bool) -> int:
    """A stage that the unit may move to, its own if there is no other.

    Without `push` it stays between those that it depends on and those that depend on it.
    """
    stage_of, device_of = current.stage_of, current.device_of
    low, high = 0, device_of.size - 1
    for k in range(graph.before.ptr[u], 0 if push else graph.before.ptr[u + 1]):
        low = max(low, int(stage_of[graph.before.entries[k]]))
    for k in range(graph.after.ptr[u], 0 if push else graph.after.ptr[u + 1]):
        high = min(high, int(stage_of[graph.after.entries[k]]))
    old = int(stage_of[u])
    if graph.pinned[u] >= 0:
        for s in range(low, high + 1):
            if device_of[s] == graph.pinned[u]:
                return s
    if second < NEAR:
        new = old + (1 if second < NEAR / 2 else -1)
        return min(max(new, low), high)
    return low + min(int((second - NEAR) / (1.0 - NEAR) * (high - low + 1)), high - low)


@inlined_njit
def _change_numbers(graph: Graph, stage_of: Longs, device_of: Longs, a: int) -> None:
    """Lets stages `a` and `a + 1` change numbers, where nothing leads from one to the other."""
    for e in range(graph.source.size):
        if stage_of[graph.source[e]] == a and stage_of[graph.target[e]] == a + 1:
            return
    for u in graph.units:
        if stage_of[u] == a:
            stage_of[u] = a + 1
        elif stage_of[u] == a + 1:
            stage_of[u] = a
    device_of[a], device_of[a + 1] = device_of[a + 1], device_of[a]


@entry_njit
def cut_order(
    work: Floats, memory: Longs, stages: int, room: int, period_s: float, stage_at: Longs
) -> bool:
    """Fills stages one after the other along an order, each up to a period and to its memory.

    Args:
        work: `[n]`, seconds of the unit at each position.
        memory: `[n]`, bytes of weights that it brings.
        stages: how many there are.
        room: bytes that a stage has.
        period_s: seconds that a stage has.
        stage_at: `[n]`, stage of each position; filled in.

    Returns:
        Whether the stages suffice.
    """
    stage, busy, held = 0, 0.0, 0
    for i in range(work.size):
        if i and (busy + work[i] > period_s or held + memory[i] > room) and busy + held > 0:
            stage, busy, held = stage + 1, 0.0, 0
            if stage == stages:
                return False
        busy += work[i]
        held += memory[i]
        stage_at[i] = stage
    return True
