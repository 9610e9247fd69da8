"""Checking bounds without trusting whoever claims them.

Each kind of argument is recomputed from the problem in plain Python, by other code than the one
that finds bounds; a bound holds if the argument rules out every period below it. Here are the
arguments that hold on every machine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.mapping.bound_checks.chain_check import chain_does_not_fit
from mcm_passes.mapping.bound_checks.heavy_check import no_chain_of_heavy_units
from mcm_passes.mapping.bound_checks.plain_need import plain_weights, readers_of
from mcm_passes.mapping.bound_checks.window_check import plain_windows
from mcm_passes.mapping.bounds.infeasibility import impossible
from mcm_passes.mapping.bounds.packing import MOST_PARTS


def units_do_not_pack(problem: PartitionProblem, period_s: float) -> bool:
    """Ask whether a dual feasible function rules out that all units fit into the period.

    The sum of `u(k)` over the units' shares of a period would be at most the number of chips if
    they did (Fekete and Schepers 2001, theorem 5).
    """
    if period_s <= 0.0:
        return True
    fixed = problem.compute_s[~problem.clonable].tolist()
    bins = problem.num_chips
    return _fewest(*_multiples(fixed, _room(problem, period_s)), at_least=bins) > bins


def copies_do_not_fit(problem: PartitionProblem, period_s: float) -> bool:
    """Ask whether the weights that several chips need within the period exceed all memory."""
    if period_s <= 0.0:
        return True
    limits, room, bins = problem.limits, _room(problem, period_s), problem.num_chips
    if problem.streams:
        return False
    copies: Counter[int] = Counter()
    seconds, clonable = problem.compute_s.tolist(), problem.clonable.tolist()
    for weight in plain_weights(problem):
        if not (weight.users and weight.room):
            continue
        fixed = [seconds[u] for u in weight.users if not clonable[u]]
        fewest = 1
        if math.fsum(fixed) > room:
            needed = _fewest(*_multiples(fixed, room), at_least=1)
            fewest = bins + 1 if needed == math.inf else math.ceil(needed)
        copies[weight.room] += fewest
    if sum(size * count for size, count in copies.items()) > sum(limits.sram_bytes):
        return True
    return _fewest(copies, max(limits.sram_bytes), at_least=bins) > bins


def _room(problem: PartitionProblem, period_s: float) -> Fraction:
    """Seconds of work, at speed 1, that a chip does within a period."""
    return Fraction(period_s) * Fraction(float(np.max(problem.chip_speed)))


def _multiples(sizes: list[float], room: Fraction) -> tuple[Counter[int], int]:
    """Items of each size and the size of a bin, as multiples of one unit."""
    ratios = [size.as_integer_ratio() for size in sizes]
    unit = math.lcm(room.denominator, *{below for _, below in ratios})
    counts = Counter(above * (unit // below) for above, below in ratios)
    return counts, room.numerator * (unit // room.denominator)


def _fewest(counts: Counter[int], room: int, at_least: int) -> Fraction | float:
    """Bins that items need at least, which may be a fraction; infinite where one exceeds a bin.

    Args:
        counts: how many items there are of each size.
        room: size of a bin.
        at_least: bins below which the number does not matter.
    """
    if max(counts, default=0) > room:
        return math.inf
    # The images of smaller items are 0.
    large = [(size, count) for size, count in counts.items() if size * (MOST_PARTS + 1) >= room]
    together = sum(size * count for size, count in large)
    best = Fraction(at_least)
    for k in range(1, MOST_PARTS + 1):
        if together * (k + 1) <= best * k * room:
            break  # images are at most (k + 1) / k times the shares, here and for larger k
        whole = exact = 0
        for size, count in large:
            parts, rest = divmod((k + 1) * size, room)
            if rest:
                whole += count * parts
            else:
                exact += count * size
        best = max(best, Fraction(whole, k) + Fraction(exact, room))
    return best


MOST_UNITS = 4000
"""Units up to which all ancestors of all units are collected; all other checks are linear, or
linear but for sorting."""


def _heaviest_unit(problem: PartitionProblem, period_s: float) -> bool:
    return max(problem.compute_s.tolist(), default=0.0) / max(problem.chip_speed) >= period_s


def _total_work(problem: PartitionProblem, period_s: float) -> bool:
    chips = min(problem.num_chips, problem.clonable.tolist().count(False))
    speeds = problem.chip_speed.tolist()
    if not problem.on_ring:
        speeds.sort(reverse=True)
    speed = math.fsum(speeds[:chips])
    return math.fsum(problem.compute_s) >= period_s * speed > 0.0


def _fractional_work(problem: PartitionProblem, period_s: float) -> bool:
    """All units at the prices that the problem stores, against all that the chips can do."""
    kinds = problem.kinds
    if kinds is None:
        return False
    count = problem.num_units
    on = sorted(set(problem.kind_of.tolist()))
    seconds, runs = kinds.unit_s.tolist(), kinds.runs.tolist()
    # Relative to the highest: products with tiny or huge prices lose digits.
    highest = max(float(kinds.price[k]) for k in on) or 1.0
    prices = {k: float(kinds.price[k]) / highest for k in on}
    cheapest: list[float] = []
    for u in range(count):
        places = [k * count + u for k in on if runs[k * count + u]]
        if not places:
            return True
        cheapest.append(min(prices[place // count] * seconds[place] for place in places))
    chips = zip(problem.kind_of.tolist(), problem.chip_speed.tolist(), strict=True)
    have = math.fsum(prices[kind] * speed for kind, speed in chips)
    return math.fsum(cheapest) >= period_s * have > 0.0


def host_transfers(problem: PartitionProblem, period_s: float) -> bool:
    """The largest tensor alone, or the sum over all channels, or over the one they share."""
    limits = problem.limits
    fixed = problem.clonable.tolist().count(False)
    channels = min(problem.num_chips, fixed)
    if limits.at_ends:
        channels = min(channels, 2)
    room = period_s * limits.host_bytes_per_s
    shared_room = period_s * limits.host_total_bytes_per_s
    read = np.diff(problem.tensor_ptr) > 0
    made = problem.tensor_producer >= 0
    for wanted in (~made & read, made & problem.tensor_to_host):
        sizes = problem.tensor_bytes[wanted].tolist()
        if not sizes or not fixed:
            continue
        if max(*sizes, sum(sizes) / channels) >= room or 0.0 < shared_room <= sum(sizes):
            return True
    return False


def _streamed_weights(problem: PartitionProblem, period_s: float) -> bool:
    limits = problem.limits
    beyond = sum(problem.weight_bytes.tolist()) - sum(limits.sram_bytes)
    rate = problem.num_chips * limits.stream_bytes_per_s
    if limits.stream_total_bytes_per_s > 0.0:
        rate = min(rate, limits.stream_total_bytes_per_s)
    return problem.streams and beyond >= period_s * rate


def _large_tensors(problem: PartitionProblem, period_s: float) -> bool:
    """Units tied together by tensors that no link carries in time."""
    group = list(range(problem.num_units))

    def root(u: int) -> int:
        while group[u] != u:
            group[u] = group[group[u]]
            u = group[u]
        return u

    for t, u in enumerate(problem.tensor_producer.tolist()):
        too_large = problem.tensor_bytes[t] >= period_s * problem.limits.link_bytes_per_s
        if u < 0 or problem.clonable[u] or not too_large:
            continue
        for v in readers_of(problem, t):
            group[root(v)] = root(u)
    work = [0.0] * problem.num_units
    for u in range(problem.num_units):
        if not problem.clonable[u]:
            work[root(u)] += float(problem.compute_s[u])
    return max(work, default=0.0) / max(problem.chip_speed) >= period_s


def _outputs_passed_on(problem: PartitionProblem, period_s: float) -> bool:
    """A unit, and k others that it reads from: wherever the last of these is, it is too busy."""
    if problem.routing != "relay" or problem.limits.forwarding != "engine":
        return False
    room = period_s * max(problem.chip_speed)
    relayed: dict[int, dict[int, list[float]]] = {}
    for t, u in enumerate(problem.tensor_producer.tolist()):
        if u >= 0 and not problem.clonable[u]:
            for s in readers_of(problem, t):
                relayed.setdefault(s, {}).setdefault(u, []).append(float(problem.relay_s[t]))
    for s, made in relayed.items():
        by_work = sorted(made, key=lambda u: -problem.compute_s[u])
        joined_s = float(problem.compute_s[s])
        for k in range(2, min(len(by_work), problem.num_chips + 1) + 1):
            *_, lighter, lightest = by_work[:k]
            if problem.clonable[s] or problem.compute_s[[lighter, lightest]].sum() < room:
                break
            if k > problem.num_chips:
                # More units than chips, no two of which may share one.
                return True
            passed = [math.fsum(made[u]) for u in by_work[:k]]
            load = [
                float(problem.compute_s[u]) + min(joined_s, math.fsum(passed) - own)
                for u, own in zip(by_work, passed, strict=False)
            ]
            if min(load) >= room:
                return True
    return False


def around_units(problem: PartitionProblem, period_s: float) -> bool:
    """Return whether some unit has no device left between the work before it and that after it."""
    return problem.num_units <= MOST_UNITS and plain_windows(problem, period_s) is None


def _chain(problem: PartitionProblem, period_s: float) -> bool:
    return chain_does_not_fit(problem, period_s) or around_units(problem, period_s)


def _no_room(problem: PartitionProblem, period_s: float) -> bool | None:
    """Weights that no device holds, or all of them together, whatever the period.

    The weights of every unit are added up in plain Python.
    """
    if not problem.streams:
        own = [0] * problem.num_units
        total = 0
        for w, size in enumerate(problem.weight_bytes.tolist()):
            users = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
            total += size if users.size else 0
            for u in users.tolist():
                own[u] += size
        sram = problem.limits.sram_bytes
        if total > sum(sram) or max(own, default=0) > max(sram):
            return True
    return None if impossible(problem) else False


@dataclass(frozen=True)
class Argument:
    """One kind of argument: a `ProofChecker`, or an `ObjectiveChecker`.

    Attributes:
        summary: its claim.
        check: whether it rules out what `rules_out` is asked for; None where it cannot decide.
        most_units: units up to which it decides; None for any number.
        effort: see `ProofChecker`.
        reason: why it may not decide, other than too many units.
    """

    summary: str
    check: Callable[..., bool | None]
    most_units: int | None = None
    effort: int = 0
    reason: str = ""

    @property
    def undecided(self) -> str:
        """See `ProofChecker`."""
        return self.reason or f"the problem has more than {self.most_units} units"

    def rules_out(self, problem: PartitionProblem, *question: Any) -> bool | None:
        """See `ProofChecker` and `ObjectiveChecker`."""
        shown = self.check(problem, *question)
        too_large = self.most_units is not None and problem.num_units > self.most_units
        return None if too_large and not shown else shown


HEAVIEST_UNIT = Argument("a unit is not divided", _heaviest_unit)
TOTAL_WORK = Argument("all devices share the work", _total_work)
FRACTIONAL_WORK = Argument("chips of all kinds share the work", _fractional_work)
INDIVISIBLE_WORK = Argument("units do not pack into devices", units_do_not_pack)
COPIED_WEIGHTS = Argument("copies of weights do not fit", copies_do_not_fit)
HOST_TRANSFERS = Argument("the host's channels are too busy", host_transfers)
STREAMED_WEIGHTS = Argument("weights have to be read again", _streamed_weights)
LARGE_TENSORS = Argument("large tensors tie units together", _large_tensors)
AROUND_UNITS = Argument("work lies before and after a unit", around_units, MOST_UNITS, effort=1)
OUTPUTS_PASSED_ON = Argument("outputs have to be passed on", _outputs_passed_on)
CHAIN = Argument("units that all work is around", _chain, MOST_UNITS, effort=1)
HEAVY_CHAINS = Argument(
    "the heaviest units need more chips, with what these pass on",
    no_chain_of_heavy_units,
    effort=2,
    reason="there are too many units, or too many flows to follow",
)
NO_ROOM = Argument(
    "there is not room enough", _no_room, reason="the room that tensors take is not derived again"
)
