"""The best chain of order ideals, found in one walk over them from the smallest to the largest."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, inner_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_passes.families.ring.loads.window_costs import (
    IdealCrossings,
    PackingRatio,
    Window,
    WindowCost,
    holds,
    read_beyond,
    window_loads,
    window_scratch,
    with_activations,
)
from mcm_passes.mapping.loads.chip_demands import ChipDemands, TensorDemands
from mcm_passes.mapping.loads.device_memory import streamed_weights
from mcm_passes.mapping.problem.rule_graph import Words

SLACK = 1e-9
"""Relative slack of sums that the analytic model adds in another order."""


class Covers(NamedTuple):
    """Which ideal holds one node more than another, as in `OrderIdeals`."""

    ptr: Longs
    ideals: Ints
    nodes: Ints


class ChipLimits(NamedTuple):
    """The chips, with memory in blocks of the alignment.

    Attributes:
        speed: `[C]`.
        sram_room: `[C]`.
        most_room: of a window; infinite where weights may be streamed.
        link_bytes_per_s: of each link.
        host_bytes_per_s: of each host channel.
        stream_bytes_per_s: of weights; 0 where they are not streamed.
        packing: memory for activations per peak of live bytes.
        block_bytes: the alignment.
        stream_buffers: buffers for the largest weight where weights are streamed.
        alike: whether it does not matter which chip has which units.
    """

    speed: Floats
    sram_room: Longs
    most_room: float
    link_bytes_per_s: float
    host_bytes_per_s: float
    stream_bytes_per_s: float
    packing: PackingRatio
    block_bytes: int
    stream_buffers: int
    alike: bool


TriangleReading = Literal["none", "adjacent", "between"]
"""How a window treats long dependencies by itself. `none`: it does not. `adjacent`: what arrives
must be read here for the last time, so that every dependency spans at most one chip, which is
more than the triangle rule asks. `between`: no unit of the window is on a path parallel to a
dependency which passes the window, which is less than the triangle rule asks."""


class Triangles(NamedTuple):
    """How windows treat long dependencies, see `TriangleReading`.

    Attributes:
        adjacent: whether by that reading.
        between: whether by that one.
        ancestors: `[n, words]`, bitsets.
        descendants: `[n, words]`, bitsets.
    """

    adjacent: bool
    between: bool
    ancestors: Words
    descendants: Words


class Chains(NamedTuple):
    """The best chains that are known of k chips up to each of I ideals.

    Attributes:
        period_s: `[I, C + 1]`, infinite where there is none.
        came_from: `[I, C + 1]`, the ideal before.
        fewest: `[I]`, the fewest chips of a chain, C + 1 where there is none.
    """

    period_s: Floats
    came_from: Ints
    fewest: Longs


class Ceiling(NamedTuple):
    """Capacity of chains below a ceiling on the period, with slack for rounding in the last three.

    Attributes:
        seconds: the ceiling; may be infinite.
        left: `[I]`, seconds at speed 1 of the nodes that an ideal lacks.
        capacity: `[C + 1]`, what chips k and later can do of that.
        most_s: what one chip can do of that.
        most_crossing: bytes that one link can carry.
    """

    seconds: float
    left: Floats
    capacity: Floats
    most_s: float
    most_crossing: float


@entry_njit
def best_chain(
    d: ChipDemands,
    cuts: IdealCrossings,
    covers: Covers,
    pinned: Longs,
    package: ChipLimits,
    triangles: Triangles,
    ceiling_s: float,
    most_windows: int,
) -> tuple[Floats, Ints, int]:
    """The least period of k chips up to each ideal, where that is below a ceiling.

    Windows are weighed as they are met and none is kept, so that memory grows with the ideals
    only. Where the chips that are left could not do below the ceiling what is left to do, nothing
    is pursued: with a ceiling near the optimum that leaves out nearly all.

    Args:
        d: the demands.
        cuts: what crosses the ideals.
        covers: of the ideals.
        pinned: `[I, C + 1]`, how many nodes of each ideal are pinned to each chip, and to any.
        package: the chips.
        triangles: how long dependencies are treated.
        ceiling_s: chains from this period on are left out; may be infinite.
        most_windows: gives up beyond this number.

    Returns:
        `[I, C + 1]` each: the period, infinite where k chips can't hold exactly that ideal, and
        the ideal before; and the number of windows, which is beyond `most_windows` where it
        gave up.
    """
    count, words = cuts.members.shape
    chips = package.speed.size
    # No chip holds the empty ideal, and the host takes what it takes.
    chains = Chains(
        np.full((count, chips + 1), np.inf),
        np.full((count, chips + 1), -1, np.int32),
        np.full(count, chips + 1, np.int64),
    )
    chains.period_s[0, 0], chains.fewest[0] = d.host_s, 0
    ceiling = _ceiling(d, covers, package, ceiling_s)
    scratch = window_scratch(d)
    inside = np.zeros(words, np.uint64)
    seen = np.full(count, -1, np.int64)
    queue = np.empty(count, np.int64)
    on_chip = np.empty(chips, np.int64)
    windows = 0
    for i in range(count - 1):
        if cuts.crossing_bytes[i] > ceiling.most_crossing:
            continue
        next_chips = on_chip[: _list_next_chips(chains, ceiling, package, i, on_chip)]
        if not next_chips.size:
            continue
        most_left = ceiling.capacity[next_chips[0] + 1]
        # Larger ideals, from the smallest on, as long as one chip can do what is between.
        head, tail = 0, 1
        queue[0] = i
        while head < tail:
            j = queue[head]
            head += 1
            near = j != i and ceiling.left[j] <= most_left
            if near and _may_improve(chains, ceiling, package, next_chips, i, j):
                windows += 1
                if windows > most_windows:
                    return chains.period_s, chains.came_from, windows
                for w in range(words):
                    inside[w] = cuts.members[j, w] & ~cuts.members[i, w]
                window = Window(i, j, inside)
                cost = window_loads(d, cuts, window, scratch, windows)
                if cost.seconds > ceiling.most_s or cost.weight_room > package.most_room:
                    # Both only grow with the window.
                    continue
                # Most windows improve nothing, however little memory what stays in them takes.
                if _extends(chains, ceiling, package, pinned, next_chips, window, cost, False):
                    cost = with_activations(d, cuts, window, scratch, package.packing, cost)
                    if keeps_rule(d.tensors, cuts, triangles, window):
                        _extends(chains, ceiling, package, pinned, next_chips, window, cost, True)
            tail = _queue_larger(covers, ceiling, seen, queue, tail, i, j)
    return chains.period_s, chains.came_from, windows


@inner_njit
def _ceiling(d: ChipDemands, covers: Covers, package: ChipLimits, ceiling_s: float) -> Ceiling:
    """The capacity of chains below a ceiling."""
    chips, count = package.speed.size, covers.ptr.size - 1
    # Exactly 0 for the last ideal.
    left = np.zeros(count)
    for i in range(count - 2, -1, -1):
        e = covers.ptr[i]
        left[i] = left[covers.ideals[e]] + d.nodes.work_s[covers.nodes[e]]
    capacity = np.zeros(chips + 1)
    for k in range(chips - 1, -1, -1):
        capacity[k] = capacity[k + 1] + package.speed[k] * ceiling_s * (1.0 + SLACK)
    return Ceiling(
        ceiling_s,
        left,
        capacity,
        ceiling_s * package.speed.max() * (1.0 + SLACK),
        ceiling_s * package.link_bytes_per_s * (1.0 + SLACK),
    )


@lean_inner_njit
def _list_next_chips(
    chains: Chains, ceiling: Ceiling, package: ChipLimits, i: int, on_chip: Longs
) -> int:
    """Lists the chips on which a chain that ends at ideal i may go on; how many they are."""
    count = 0
    for k in range(chains.fewest[i], package.speed.size):
        to_beat_s = min(ceiling.seconds, _with_fewer(chains, package, i, k))
        if ceiling.left[i] <= ceiling.capacity[k] and chains.period_s[i, k] < to_beat_s:
            on_chip[count] = k
            count += 1
    return count


@lean_inner_njit
def _may_improve(
    chains: Chains, ceiling: Ceiling, package: ChipLimits, next_chips: Longs, i: int, j: int
) -> bool:
    """Return if the work from ideal i to j leaves one of the next chips below what is known."""
    work_s = (ceiling.left[i] - ceiling.left[j]) * (1.0 - SLACK)
    for k in next_chips:
        least_s = max(chains.period_s[i, k], work_s / package.speed[k])
        if least_s < _to_beat(chains, ceiling, package, j, k + 1):
            return True
    return False


@lean_inner_njit
def _extends(
    chains: Chains,
    ceiling: Ceiling,
    package: ChipLimits,
    pinned: Longs,
    next_chips: Longs,
    window: Window,
    cost: WindowCost,
    keep: bool,
) -> bool:
    """Return whether a window goes on from some chain up to its start and beats what is known.

    With `keep` all such chains are kept.
    """
    i, j = window.start, window.end
    if (
        cost.seconds + cost.relay_s > ceiling.most_s
        or cost.room > package.most_room
        or cost.link_bytes > ceiling.most_crossing
    ):
        return False
    for k in next_chips:
        if ceiling.left[j] > ceiling.capacity[k + 1] or not may_hold(pinned, window, k):
            continue
        period_s = max(chains.period_s[i, k], window_period(package, cost, k))
        if period_s < _to_beat(chains, ceiling, package, j, k + 1):
            if not keep:
                return True
            chains.period_s[j, k + 1] = period_s
            chains.came_from[j, k + 1] = i
            chains.fewest[j] = min(chains.fewest[j], k + 1)
    return False


@inlined_njit
def may_hold(pinned: Longs, window: Window, chip: int) -> bool:
    """Return whether all that is pinned in a window is pinned to a chip."""
    before, at = pinned[window.start], pinned[window.end]
    return bool(at[chip] - before[chip] == at[-1] - before[-1])


@lean_inner_njit
def _queue_larger(
    covers: Covers, ceiling: Ceiling, seen: Longs, queue: Longs, tail: int, i: int, j: int
) -> int:
    """Appends the ideals with one node more than j that one chip can get to from i; the new tail.

    `seen[I]` marks ideals that were met from i already; `queue[I]` has `tail` entries.
    """
    for e in range(covers.ptr[j], covers.ptr[j + 1]):
        larger = covers.ideals[e]
        if seen[larger] != i:
            seen[larger] = i
            if ceiling.left[i] - ceiling.left[larger] <= ceiling.most_s:
                queue[tail] = larger
                tail += 1
    return tail


@lean_inner_njit
def _to_beat(chains: Chains, ceiling: Ceiling, package: ChipLimits, j: int, chips: int) -> float:
    """The period that a chain of `chips` chips to ideal j has to stay below to be of use."""
    fewer_s = _with_fewer(chains, package, j, chips)
    return float(min(ceiling.seconds, fewer_s, chains.period_s[j, chips]))


@lean_inner_njit
def _with_fewer(chains: Chains, package: ChipLimits, j: int, chips: int) -> float:
    """Least period up to an ideal with fewer chips, where all chips are alike.

    What fewer can do need not be done by more.
    """
    least_s = np.inf
    if package.alike:
        for fewer in range(chains.fewest[j], chips):
            least_s = min(least_s, chains.period_s[j, fewer])
    return least_s


@lean_inner_njit
def keeps_rule(
    tensors: TensorDemands, cuts: IdealCrossings, triangles: Triangles, window: Window
) -> bool:
    """Return whether a window is allowed by the reading of the triangle rule."""
    if not (triangles.adjacent or triangles.between):
        return True
    for e in range(cuts.crossing_ptr[window.start], cuts.crossing_ptr[window.start + 1]):
        t = cuts.crossing[e]
        if tensors.producer[t] < 0 or not read_beyond(cuts.members, window.end, tensors.readers, t):
            continue
        # It passes the window.
        if triangles.adjacent or _is_parallel(tensors, cuts, triangles, window, t):
            return False
    return True


@lean_inner_njit
def _is_parallel(
    tensors: TensorDemands, cuts: IdealCrossings, triangles: Triangles, window: Window, t: int
) -> bool:
    """Return whether a unit of the window is on a path parallel to a tensor's way beyond it."""
    inside, u = window.inside, tensors.producer[t]
    for r in range(tensors.readers.ptr[t], tensors.readers.ptr[t + 1]):
        v = tensors.readers.entries[r]
        if holds(cuts.members, window.end, v):
            continue
        for k in range(inside.size):
            if inside[k] & triangles.descendants[u, k] & triangles.ancestors[v, k]:
                return True
    return False


@lean_inner_njit
def streamed_blocks(package: ChipLimits, cost: WindowCost, k: int) -> int:
    """Blocks of weights that chip k streams if it holds a window; negative if nothing helps."""
    return streamed_weights(
        cost.room,
        cost.weight_room,
        cost.largest_weight,
        package.sram_room[k],
        package.stream_bytes_per_s > 0.0,
        package.stream_buffers,
    )


@lean_inner_njit
def window_period(package: ChipLimits, cost: WindowCost, k: int) -> float:
    """The slowest of what chip k and the link behind it do; infinite where memory is too small."""
    period_s = (cost.seconds + cost.relay_s) / package.speed[k]
    period_s = max(period_s, cost.in_bytes / package.host_bytes_per_s)
    period_s = max(period_s, cost.out_bytes / package.host_bytes_per_s)
    period_s = max(period_s, cost.link_bytes / package.link_bytes_per_s)
    streamed = streamed_blocks(package, cost, k)
    if streamed < 0:
        return np.inf
    if streamed > 0:
        period_s = max(period_s, package.block_bytes * streamed / package.stream_bytes_per_s)
    return float(period_s)
