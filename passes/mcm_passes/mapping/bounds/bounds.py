"""Proven lower bounds on the period of every valid partition, under the analytic model.

Chips are the devices of the problem's machine. The graph of devices has no cycle, so that devices
can be numbered in an order of it. An argument about chips in the order of the ring holds for
devices in that order.

Each argument is a function with its proof in its docstring; `lower_bound` takes the best. All but
`copied_weights` hold whatever memory the chips have, and all but `outputs_passed_on`, which counts
relays, for every routing rule, since rules and limits only take partitions away. Where chips differ
in speed, each counts as the fastest unless said otherwise.

`outputs_passed_on` is our derivation. The parts of an op that was sharded are all heavy, and one op
joins their outputs. If no two of them fit on a chip, each has a chip of its own. The last of these
passes the outputs of all others on to the op that joins them, or runs that op too.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.contracts.partition import Floats, Ints, LowerBound, PartitionProblem
from mcm_compiler.diagnostics import quote
from mcm_compiler.text.units import bytes_text, count_text, seconds_text
from mcm_passes.mapping.bounds.articulation import articulation_units_by_sweep, connected_parts
from mcm_passes.mapping.bounds.packing import copied_weights, indivisible_work, longest_too_short
from mcm_passes.mapping.bounds.work_around import work_around
from mcm_passes.mapping.models import mapping_of
from mcm_passes.mapping.problem.kind_prices import priced


def outputs_passed_on(problem: PartitionProblem) -> LowerBound:
    """The longest time that a chip among the producers of one unit must be busy for.

    Let units u1 to uk, by falling work w, be read by unit s, and let r(u) be what relays of all
    that s reads from u take. Below a period of w(uk-1) + w(uk) no chip holds two of them. Let u be
    the one on the last of their chips. All others are on chips before it and s is not, so that
    either s is on u's chip, or that chip relays whatever s reads from the others:

        period >= min(w(uk-1) + w(uk), min over u of w(u) + min(w(s), sum of the others' r))

    Holds where engines relay; every chip counts as the fastest. Clonable units do not count.
    Takes O(E log E).
    """
    best, where, count = 0.0, -1, 0
    if problem.relays:
        work_s: list[float] = problem.compute_s.tolist()
        for s, relays in _read_by(problem).items():
            seconds, parts = _longest(work_s, s, relays)
            if seconds > best:
                best, where, count = seconds, s, parts
    if where < 0:
        return LowerBound(0.0, "no unit reads from two others")
    # Rounded down by a little: the fast model adds the same numbers in another order.
    seconds = best / float(problem.chip_speed.max()) * (1.0 - 1e-12)
    return LowerBound(
        seconds,
        f"{count} units that unit {quote(problem.names[where])} reads from do not fit on a chip in "
        f"twos, and the last of their chips passes on what the others made "
        f"({seconds_text(seconds)})",
    )


def _read_by(problem: PartitionProblem) -> dict[int, dict[int, float]]:
    """For each unit that reads from two others or more, relay seconds of what it reads of each."""
    read: dict[int, dict[int, float]] = {}
    rows = np.repeat(np.arange(len(problem.tensor_names)), np.diff(problem.tensor_ptr))
    producer = problem.tensor_producer[rows]
    counts = (producer >= 0) & ~problem.clonable[np.maximum(producer, 0)]
    counts &= problem.compute_s[np.maximum(producer, 0)] > 0.0
    edges = zip(
        producer[counts].tolist(),
        problem.tensor_consumers[counts].tolist(),
        problem.relay_s[rows[counts]].tolist(),
        strict=True,
    )
    for u, v, seconds in edges:
        into = read.setdefault(v, {})
        into[u] = into.get(u, 0.0) + seconds
    return {v: into for v, into in read.items() if len(into) > 1 and not problem.clonable[v]}


def _longest(work_s: list[float], s: int, relays: dict[int, float]) -> tuple[float, int]:
    """The bound that unit s gives, in seconds of the fastest chip, and how many units it takes.

    Args:
        work_s: seconds of each unit.
        s: the unit.
        relays: relay seconds of what it reads of each unit.
    """
    joined_s = work_s[s]
    units = sorted(relays, key=lambda u: (-work_s[u], u))
    work = [work_s[u] for u in units]
    best, count = 0.0, 0
    total, least, least_alone = 0.0, math.inf, math.inf
    for k, (u, own) in enumerate(zip(units, work, strict=True), start=1):
        total += relays[u]
        # min(w(u) + w(s), w(u) - r(u) + sum of all r): the latter differs in the sum alone.
        least, least_alone = min(least, own + joined_s), min(least_alone, own - relays[u])
        if k > 1:
            seconds = min(work[k - 2] + own, least, least_alone + total)
            if seconds > best:
                best, count = seconds, k
    return best, count


MAX_CLOSURE_UNITS = 4000
"""Units up to which all ancestors are collected: N^2 bits, and N^2 additions."""


def lower_bound(problem: PartitionProblem) -> LowerBound:
    """The best of all arguments, with its name as `proof`; 0 for a problem without units.

    Holds for all partitions of `problem.at_need()`.
    """
    problem = problem.at_need()
    best = LowerBound(0.0, "no unit")
    for argument in _ARGUMENTS:
        bound = argument(problem)
        if bound.seconds > best.seconds:
            best = dataclasses.replace(bound, proof=argument.__name__)
    for further in (indivisible_work, copied_weights):
        bound = further(problem, best.seconds)
        if bound.seconds > best.seconds:
            best = dataclasses.replace(bound, proof=further.__name__)
    return mapping_of(problem).bound(problem, best)


def heaviest_unit(problem: PartitionProblem) -> LowerBound:
    """A unit is not divided, so some chip is busy for as long as the heaviest one takes."""
    if not problem.num_units:
        return LowerBound(0.0, "no unit")
    u = int(problem.compute_s.argmax())
    seconds = float(problem.compute_s[u]) / _fastest(problem)
    return LowerBound(seconds, f"heaviest unit {quote(problem.names[u])} ({seconds_text(seconds)})")


def total_work(problem: PartitionProblem) -> LowerBound:
    """Every unit runs at least once, and at most `min(C, n)` chips share the sum.

    n counts the units that are not clonable: a chip without any of them holds no clone either.
    Each chip does as much work per second as its speed says; on a ring these are the first chips,
    on other machines any, and so the fastest at best.
    """
    fixed = int((~problem.clonable).sum())
    if not fixed:
        return LowerBound(0.0, "no unit")
    chips = min(problem.num_chips, fixed)
    work = float(problem.compute_s.sum())
    speed = problem.chip_speed if problem.on_ring else -np.sort(-problem.chip_speed)
    # Rounded down by a little: the fast model adds the same numbers in another order.
    return LowerBound(
        work / float(speed[:chips].sum()) * (1.0 - 1e-12),
        f"total work of {seconds_text(work)} on {count_text(chips, 'chip')}",
    )


def fractional_work(problem: PartitionProblem) -> LowerBound:
    """Work that may be divided over chips of all kinds, at the prices of the problem.

    `kind_prices` has the proof, for whatever prices.
    """
    kinds = problem.kinds
    if kinds is None or not problem.num_units:
        return LowerBound(0.0, "all chips are of one kind")
    speeds = np.bincount(problem.kind_of, problem.chip_speed, len(kinds.names))
    room = np.array(speeds, np.float64)
    there, have = room > 0, float(kinds.price @ room)
    times = np.where(kinds.can_run, kinds.units, np.inf)[there].T
    if not have > 0.0:
        return LowerBound(0.0, "all prices of chips in use are 0")
    # Rounded down by a little, as the work of all chips is.
    bound_s = priced(times, kinds.price[there])[0] / have * (1.0 - 1e-12)
    if not np.isfinite(bound_s):
        return LowerBound(0.0, "a unit runs on no chip")
    shares = zip(kinds.names, kinds.price / kinds.price.max(), room, strict=True)
    shown = ", ".join(f"{quote(name)} {share:.3g}" for name, share, part in shares if part)
    return LowerBound(
        bound_s,
        f"work that may be divided over {count_text(problem.num_chips, 'chip')} of several kinds, "
        f"with a second worth {shown}",
    )


def host_transfers(problem: PartitionProblem) -> LowerBound:
    """Each graph input that is read enters at least once, each output leaves at least once.

    No tensor is divided, and at most `min(C, n)` channels share the sum, or two where only the ends
    of the package reach the host. Where all chips share a channel, it carries the sum, wherever
    units are.
    """
    limits = problem.limits
    fixed = int((~problem.clonable).sum())
    read = np.diff(problem.tensor_ptr) > 0
    entering = problem.tensor_bytes[(problem.tensor_producer < 0) & read]
    leaving = problem.tensor_bytes[(problem.tensor_producer >= 0) & problem.tensor_to_host]
    best = LowerBound(0.0, "no host transfer")
    for sizes, word in ((entering, "inputs"), (leaving, "outputs")):
        if not sizes.size or not fixed:
            continue
        channels = min(problem.num_chips, fixed, 2 if limits.at_ends else problem.num_chips)
        least, where = max(int(sizes.max()), int(sizes.sum()) // channels), f"{channels} channels"
        seconds = least / limits.host_bytes_per_s
        shared_s = int(sizes.sum()) / limits.host_root_bytes_per_s
        if shared_s > seconds:
            seconds, where = shared_s, "the channel that all chips share"
        if seconds > best.seconds:
            text = f"host {word} of {int(sizes.sum())} bytes over {where} ({seconds_text(seconds)})"
            best = LowerBound(seconds, text)
    return best


def work_around_a_unit(problem: PartitionProblem) -> LowerBound:
    """Work that must lie before and after one unit.

    Let v be on chip c of C, in a partition of period B. All ancestors of v are on chips 0 to c,
    so with v they take at most `(c + 1) B`; all descendants are on chips c to C - 1, so with v
    they take at most `(C - c) B`. Hence `ceil(above / B) <= c + 1` and
    `ceil(below / B) <= C - c`, and the two sum up to at most C + 1. A B at which some unit breaks
    this is impossible; larger B only loosen it, so bisection finds the threshold. Clonable units
    are left out of both sums.
    """
    n = problem.num_units
    if not n or n > MAX_CLOSURE_UNITS or problem.clonable.all():
        return LowerBound(0.0, "no unit")
    work, above, below = _work_above_and_below(problem)
    chips, speed = problem.num_chips, _fastest(problem)

    def needed(period_s: float) -> Floats:
        # Rounding must not turn an exact fit into one more chip.
        room = period_s * speed
        return np.ceil(above / room - 1e-9) + np.ceil(below / room - 1e-9)

    def too_short(period_s: float) -> bool:
        return bool((needed(period_s) > chips + 1).any())

    total = float(work.sum()) / speed
    seconds = longest_too_short(too_short, total / chips, total)
    if seconds <= 0.0:
        return LowerBound(0.0, "no unit")
    u = int(needed(seconds).argmax())
    name = problem.names[int(np.flatnonzero(~problem.clonable)[u])]
    return LowerBound(
        seconds,
        f"unit {quote(name)} has work of {seconds_text(float(above[u] - work[u]))} "
        f"before it and {seconds_text(float(below[u] - work[u]))} after it",
    )


def chain_of_units(problem: PartitionProblem) -> LowerBound:
    """Units that all other work comes before or after, taken as indivisible.

    Call a unit an articulation unit if all work is done by it, its ancestors and its descendants.
    Articulation units are ordered by the edges, and all other work is between two neighbouring
    ones. Let that work be divisible, which only helps. Fill chips from the first on, in order,
    always as early as possible. What comes after an articulation unit can't go to a chip before it,
    so no other filling ever gets ahead of this one. If it needs more than C chips of B seconds
    each, B is impossible; larger B only loosen it, so bisection finds the threshold.
    """
    n = problem.num_units
    if not n or problem.clonable.all():
        return LowerBound(0.0, "no unit")
    if n > MAX_CLOSURE_UNITS:
        return _chain_bound(problem, *articulation_units_by_sweep(problem))
    work, above, below = _work_above_and_below(problem)
    total = float(work.sum())
    around_all = (above + below - work >= total * (1 - 1e-9)) & (work > total * 1e-6)
    units = np.flatnonzero(around_all)
    if not units.size:
        return LowerBound(0.0, "no unit that all work comes before or after")
    units = units[np.argsort(above[units], kind="stable")]
    heavy = work[units]
    loose = np.diff(above[units] - heavy, prepend=0.0)
    loose[1:] -= heavy[:-1]
    rest = float(below[units[-1]] - heavy[-1])
    return _chain_bound(problem, heavy, np.maximum(loose, 0.0), rest)


def _chain_bound(
    problem: PartitionProblem, heavy: Floats, loose: Floats, rest: float
) -> LowerBound:
    if not heavy.size:
        return LowerBound(0.0, "no unit that all work comes before or after")
    speed = _fastest(problem)

    def too_short(period_s: float) -> bool:
        needed = _chips_to_fill(heavy, loose, rest, period_s * speed)
        return bool(needed > problem.num_chips)

    total = float(heavy.sum() + loose.sum() + rest) / speed
    seconds = longest_too_short(too_short, total / problem.num_chips * (1.0 - 1e-12), total)
    return LowerBound(
        seconds,
        f"{heavy.size} units that all work comes before or after, on "
        f"{count_text(problem.num_chips, 'chip')}",
    )


def tensors_too_large_to_cross(problem: PartitionProblem) -> LowerBound:
    """Units that a large tensor keeps on one chip.

    At period B no link carries more than B seconds. A tensor whose own transfer takes longer thus
    has its producer and all its readers on one chip, and so have all units that such tensors
    connect. If one such set has more work than B, then B is impossible. Larger B tie fewer units
    together, so bisection finds the threshold.
    """
    if not problem.num_units:
        return LowerBound(0.0, "no unit")
    seconds_of = problem.tensor_bytes / problem.limits.link_bytes_per_s
    rows = np.repeat(np.arange(len(problem.tensor_names)), np.diff(problem.tensor_ptr))
    producer = problem.tensor_producer[rows]
    movable = (producer >= 0) & ~problem.clonable[np.maximum(producer, 0)]
    source, target = producer[movable], problem.tensor_consumers[movable]
    edge_s = seconds_of[rows[movable]]
    work = np.where(problem.clonable, 0.0, problem.compute_s) / _fastest(problem)

    def heaviest_set(period_s: float) -> float:
        tied = edge_s > period_s
        return float(_set_work(source[tied], target[tied], work).max())

    def too_short(period_s: float) -> bool:
        return heaviest_set(period_s) > period_s * (1.0 + 1e-12)

    start = float(work.max())
    seconds = longest_too_short(too_short, start, float(work.sum()))
    if seconds <= start:
        return LowerBound(0.0, "no tensor ties units together")
    return LowerBound(
        seconds,
        f"tensors that take longer than {seconds_text(seconds)} on a link tie together work of "
        f"{seconds_text(heaviest_set(seconds))}",
    )


def streamed_weights(problem: PartitionProblem) -> LowerBound:
    """Weights beyond the memory of all chips together are streamed for every inference.

    Each weight is on some chip at least once, and what a chip does not hold it streams at its own
    rate, so that some chip streams at least its share. A channel that all chips share carries all.
    """
    limits = problem.limits
    beyond = int(problem.weight_bytes.sum()) - sum(limits.sram_bytes)
    if not problem.streams or beyond <= 0:
        return LowerBound(0.0, "no weight needs to be streamed")
    seconds = beyond / (problem.num_chips * limits.stream_bytes_per_s)
    where = f"by {count_text(problem.num_chips, 'chip')}"
    shared_s = beyond / limits.stream_root_bytes_per_s
    if shared_s > seconds:
        seconds, where = shared_s, "over the channel that all chips share"
    return LowerBound(seconds, f"{bytes_text(beyond)} of weights streamed {where}")


def _fastest(problem: PartitionProblem) -> float:
    return float(problem.chip_speed.max())


def _work_above_and_below(problem: PartitionProblem) -> tuple[Floats, Floats, Floats]:
    """`[n]` each, of units that are not clonable: work of it, with ancestors, with descendants.

    Clonable units count as no work and no ancestors.
    """
    around = work_around(problem)
    return around.own_s, around.before_s + around.own_s, around.after_s + around.own_s


_ARGUMENTS = (
    heaviest_unit, total_work, fractional_work, host_transfers, work_around_a_unit, chain_of_units,
    tensors_too_large_to_cross, streamed_weights, outputs_passed_on,
)  # fmt: skip
"""Those that need no bound to begin with."""


@entry_njit
def _chips_to_fill(heavy: Floats, loose: Floats, rest: float, period_s: float) -> int:
    """Chips of `period_s` seconds that the chain needs; `loose[i]` comes before `heavy[i]`."""
    room = period_s * (1.0 + 1e-9)
    chip, load = 0, 0.0
    for i in range(heavy.size + 1):
        load += loose[i] if i < heavy.size else rest
        if load > room:
            further = int(np.ceil(load / room)) - 1
            chip += further
            load = max(load - further * room, 0.0)
        if i < heavy.size:
            if heavy[i] > room:
                return np.iinfo(np.int64).max
            if load + heavy[i] > room:
                chip += 1
                load = 0.0
            load += heavy[i]
    return chip + 1


@entry_njit
def _set_work(source: Ints, target: Ints, work: Floats) -> Floats:
    """`[N]`, at the first of each set of connected units its work, 0 elsewhere."""
    part = connected_parts(source, target, work.size)
    total = np.zeros(work.size)
    for u in range(work.size):
        total[part[u]] += work[u]
    return total
