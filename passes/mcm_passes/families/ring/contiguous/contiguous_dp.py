"""The best contiguous partition of several topological orders, by bisection on the period.

Where routers forward tensors, what passes a chip by takes no memory there, and what it receives it
holds once for all its units. The windows of `contiguous_windows` count both from above, as if
engines forwarded them. Here each window is weighed by itself, which takes longer and finds
partitions of tight problems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.partition import (
    Budget,
    Evaluate,
    Ints,
    Longs,
    Outcome,
    PartitionProblem,
)
from mcm_compiler.diagnostics import quote
from mcm_compiler.text.option_fields import at_least, between, checked
from mcm_compiler.text.units import bytes_text, count_text
from mcm_passes.families.ring.contiguous.contiguous_kernels import chain_windows
from mcm_passes.families.ring.contiguous.contiguous_windows import (
    Windows,
    chips_from_cuts,
    tried_partitions,
    windows_along,
)
from mcm_passes.families.ring.contiguous.strict_windows import StrictWindows, beginnings, costs_from
from mcm_passes.families.ring.loads.window_costs import PackingRatio, cuts_of, window_scratch
from mcm_passes.mapping.loads.chip_demands import chip_demands
from mcm_passes.mapping.machine.device_order import along, device_orders, first_line, first_order
from mcm_passes.mapping.problem.resident_sizes import weight_sizes
from mcm_passes.mapping.problem.topological_orders import Order, tile_major, topological_orders
from mcm_passes.mapping.search.search import Search

MOST_SHARES = 4.0
"""Work of the longest window that is weighed, in shares of the whole."""


class RoutedWindows:
    """All windows along one order of a problem that a chip may have.

    Args:
        problem: the problem, on a line of chips that all reach the host, without pins.
        order: `[n]`, the units that are not clonable in a topological order.
    """

    def __init__(self, problem: PartitionProblem, order: Ints) -> None:
        limits, n, speed = problem.limits, order.size, problem.chip_speed
        d = chip_demands(problem.reached(), order, own_buffers=True)
        cuts, scratch = cuts_of(beginnings(n), d.tensors), window_scratch(d)
        packing = PackingRatio(*limits.activation_packing.as_integer_ratio())
        work_s, heaviest_s = float(d.nodes.work_s.sum()), float(d.nodes.work_s.max(initial=0.0))
        most_s = max(MOST_SHARES * work_s / float(speed.sum()), heaviest_s) * float(speed.max())
        room = np.array(limits.sram_bytes, np.int64) // limits.buffer_alignment_bytes
        found = [
            costs_from(d, cuts, scratch, (j, j * n), packing, most_s, int(room.max()), np.inf)
            for j in range(n)
        ]
        lengths = [seconds.shape[1] for seconds, _ in found]
        begin = np.repeat(np.arange(n), lengths)
        end = np.concatenate([j + 1 + np.arange(length) for j, length in enumerate(lengths)])
        by_end = np.lexsort((begin, end))
        self._begin, self._end, self._n = begin[by_end], end[by_end], n
        self._busy_s = np.concatenate([seconds[1] for seconds, _ in found])[by_end]
        amounts = np.concatenate([amounts for _, amounts in found], axis=1)[:, by_end]
        self._host_s, self._room_of = amounts[0] / limits.host_bytes_per_s, amounts[3]
        self._room, self._speed = room, speed

    def cuts_within(self, period_s: float) -> Longs:
        """The cuts of a partition whose windows are within a period, with the fewest chips.

        Channels between chips are not looked at; whoever evaluates the cuts counts them.

        Returns:
            `cuts[k + 1]` from 0 to n, or an empty array where there are none.
        """
        begin, end, n = self._begin, self._end, self._n
        rows, first = np.unique(end, return_index=True)
        reached, starts = np.zeros(n + 1, np.bool_), list[Longs]()
        reached[0] = True
        for room, speed in zip(self._room.tolist(), self._speed.tolist(), strict=True):
            fits = (self._room_of <= room) & (self._busy_s <= period_s * speed)
            fits &= (self._host_s <= period_s) & reached[begin]
            start = np.full(n + 1, n + 1, np.int64)
            start[rows] = np.minimum.reduceat(np.where(fits, begin, n + 1), first)
            starts.append(start)
            reached = start <= n
            if reached[n]:
                found = [n]
                for one in starts[::-1]:
                    found.append(int(one[found[-1]]))
                return np.array(found[::-1], np.int64)
        return np.empty(0, np.int64)


def tightest_unit(problem: PartitionProblem, orders: Sequence[Order]) -> str:
    """The unit that needs most memory with a chip to itself, in the best for it of some orders.

    Next to its weights a chip holds all slots of what crosses its two cuts, be it for this unit or
    only passed on; that is what makes a unit tight whose weights would fit.
    """
    problem = problem.at_need()
    least = np.full(problem.num_units, np.iinfo(np.int64).max)
    own = np.zeros(problem.num_units, dtype=np.int64)
    for order in orders:
        w = windows_along(problem, order.units, count_live=False)
        n = order.units.size
        held = w.out_held.copy()
        np.add.at(held, np.repeat(np.arange(n), np.diff(w.items.ptr)), w.items.held)
        crossing = w.cuts.arriving[:-1] + w.cuts.leaving[1:]
        least[order.units] = np.minimum(least[order.units], held + crossing)
        own[order.units] = held
    need = np.where(problem.clonable, -1, least)
    unit = int(need.argmax())
    buffers = int(need[unit] - own[unit])
    least_sram, most_sram = min(problem.limits.sram_bytes), max(problem.limits.sram_bytes)
    # Which of several sizes a chip has decides whether that is too much.
    sram = bytes_text(most_sram)
    if least_sram < most_sram:
        sram = f"{bytes_text(least_sram)} to {sram}"
    return (
        f"along them {quote(problem.names[unit])} alone needs {bytes_text(int(need[unit]))} on a "
        f"chip of {sram}, {bytes_text(buffers)} of it for "
        "tensors that arrive and leave there"
    )


NO_CUTS = np.empty(0, np.int64)

SLACK = 1e-9
"""Relative space for the rounding of running sums."""

STREAM_SHARES = (0.0, 0.25, 1.0, 4.0)
"""Bounds that are tried for what a chip may lack where weights can be streamed, as shares of its
memory; all weights together are tried as well."""

STREAM_UNITS = 5000
"""Units up to which all sizes of streamed weights are tried, even if one has led to a partition."""

STREAM_PARTS = (2, 4, 8)
"""Weights of at most these parts of a chip's memory are streamed, one limit after the other."""

STRICT_UNITS = 4000
"""Units up to which cuts that are not adjacent are looked for under the strict rule."""

STRICT_STEPS = 4_000_000
"""Units and tensors that are looked at for them in all; a million takes about a second."""

STRICT_TOLERANCE = 2e-3
"""Relative width at which their bisection stops."""

TILE_SHARES = (0.2, 0.1, 0.05)
"""Shares of a chip's memory for the weights that tiles pass through in a tile-major order."""

STRICT_GAP = 0.02
"""Distance to the work's bound within which adjacent cuts are good enough."""


@dataclass(frozen=True)
@checked(orders=at_least(1), tolerance=between(0, 1))
class ContiguousDp:
    """Bisection on the period; at each period, dynamic programming over cuts (our derivation).

    A period is feasible if the order can be chained from windows that fit into it. Clones,
    relays, links, host channels and memory are inside, so that what is found is valid. Exact up
    to `tolerance` for chains; for other graphs the best of its orders. On a machine that is no
    ring, windows are those of a ring along a walk over the devices, and periods those of the
    machine.

    Attributes:
        orders: topological orders to cut, at least 1; see `topological_orders`.
        tolerance: relative width at which the bisection stops.
    """

    name: ClassVar[str] = "dp"
    any_machine: ClassVar[bool] = True
    summary: ClassVar[str] = "best contiguous cuts of several topological orders, by bisection"

    orders: int = 7
    tolerance: float = 1e-6

    @property
    def gives_start(self) -> bool:
        """True if its outcome is what others begin with; they ask for the defaults."""
        return self == ContiguousDp()

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Cuts each order; nothing is random."""
        del rng
        search = _Search(problem, evaluate, budget, self.tolerance)
        orders = topological_orders(problem, self.orders)
        for devices in device_orders(problem):
            search.order = devices
            self._cut_orders(along(problem, devices), orders, search)
        if search.best is not None:
            return search.outcome("")
        problem = first_line(problem)
        rule = " under the strict rule" if problem.routing == "strict" else ""
        pins = " and the pinned chips" if (problem.pinned_chip >= 0).any() else ""
        return search.outcome(
            f"no contiguous cuts of {count_text(len(orders), 'topological order')} fit the "
            f"memory{pins}{rule}; " + tightest_unit(problem, orders)
        )

    def _cut_orders(
        self, problem: PartitionProblem, orders: Sequence[Order], search: _Search
    ) -> None:
        """Cuts each order for a ring."""
        shares = _stream_shares(problem)
        for most in _streamed_sizes(problem):
            for order in orders:
                for share in shares:
                    windows = windows_along(
                        problem, order.units, stream_share=share, stream_most=most
                    )
                    search.cut(order, windows)
            if search.best is not None and problem.num_units > STREAM_UNITS:
                break
        if search.best is None:
            # Activations are estimated from above along an order; the evaluation counts exactly.
            for order in orders:
                search.cut(order, windows_along(problem, order.units, count_live=False))
        if search.best is None and _weighs_windows(problem):
            for share in TILE_SHARES:
                orders = [*orders, tile_major(problem, share)]
            for order in orders:
                search.cut(order, RoutedWindows(problem, order.units))
        if problem.routing == "strict" and not problem.limits.at_ends:
            search.cut_apart(orders)
        # Half of what is left, so that a search that begins with the result can go on.
        for chip_of in tried_partitions(problem)[: search.left // 2]:
            search.take(chip_of)


def dp_outcome(
    problem: PartitionProblem, evaluate: Evaluate, rng: np.random.Generator, budget: Budget
) -> Outcome:
    """Find cuts by `dp`: from the budget's start where that is of this problem, else again."""
    if budget.start is not None and budget.start.problem is problem:
        return budget.start.outcome
    return ContiguousDp().solve(problem, evaluate, rng, budget)


def _weighs_windows(problem: PartitionProblem) -> bool:
    pinned = (problem.pinned_chip >= 0).any()
    tight = problem.memory == "need" and not problem.streams
    routed = problem.limits.forwarding == "router"
    return tight and routed and not pinned and problem.num_units <= STRICT_UNITS


def _stream_shares(problem: PartitionProblem) -> tuple[float, ...]:
    if not problem.streams:
        return (0.0,)
    everything = float(problem.weight_bytes.sum()) / max(problem.limits.sram_bytes)
    return (*(share for share in STREAM_SHARES if share < everything), everything)


def _streamed_sizes(problem: PartitionProblem) -> list[int | None]:
    """Limits on the size of a streamed weight; None for no limit.

    A chip that streams at all has two buffers for its largest weight, and it must not have a
    weight that leaves no space for them.
    """
    if not problem.streams:
        return [None]
    sizes = weight_sizes(problem)
    limits = [max(problem.limits.sram_bytes) // parts for parts in STREAM_PARTS]
    largest = [int(sizes[sizes <= limit].max(initial=0)) for limit in limits]
    return [None, *(size for size in dict.fromkeys(largest) if size)]


class _Search(Search):
    """The best partition so far, over all orders; of equals the one on the fewest chips.

    Attributes:
        order: devices of the chips that are cut for.
    """

    def __init__(
        self, problem: PartitionProblem, evaluate: Evaluate, budget: Budget, tolerance: float
    ) -> None:
        super().__init__(problem, evaluate, budget, most=1)
        self.order = first_order(problem)
        self._tolerance = tolerance
        work = float(problem.compute_s.sum())
        heaviest = float(problem.compute_s.max(initial=0.0))
        speed = problem.chip_speed
        self._least = max(work / float(speed.sum()), heaviest / float(speed.max()))
        self._last = 0

    @property
    def enough(self) -> bool:
        """Never: fewer chips are sought for a period that cannot be beaten, too."""
        return False

    def cut(self, order: Order, windows: Windows | RoutedWindows) -> None:
        """Bisects on the period along one order, below the best one known."""
        if isinstance(windows, RoutedWindows):
            within, tolerance = windows.cuts_within, STRICT_TOLERANCE
        else:
            within, tolerance = partial(chain_windows, windows), self._tolerance
        attempt = self._attempt(order, within)
        high = attempt(self.best_period_s * (1.0 - tolerance))
        # Most optima are near the lower end, so guesses lean towards it.
        low = min(self._least, high) * (1.0 - SLACK)
        self._bisect(attempt, low, high, 0.25, tolerance)

    def cut_apart(self, orders: Sequence[Order]) -> None:
        """Bisects along all orders with cuts that dependencies may pass chips by.

        Under the strict rule, where adjacent cuts are far from what the work allows, or there are
        none.
        """
        enough = max(self._least, self.budget.enough_s) * (1.0 + STRICT_GAP)
        if self.problem.num_units > STRICT_UNITS or self.best_period_s <= enough:
            return
        steps = STRICT_STEPS
        for order in orders:
            windows = StrictWindows(self.problem, order.units, steps)
            attempt = self._attempt(order, windows.cuts_within)
            low, found = self._least * (1.0 - SLACK), float("inf")
            # The work's bound is tried first, then longer periods until one is long enough.
            for factor in (1.0, 1.5, 3.0, 12.0, 1e6):
                if enough * factor >= self.best_period_s:
                    break
                found = attempt(enough * factor)
                if np.isfinite(found):
                    break
                low = enough * factor
            self._bisect(attempt, low, found, 0.5, STRICT_TOLERANCE)
            steps = windows.steps_left

    def _most_s(self, period_s: float) -> float:
        """Sum of times that partitions of windows within a period need at least.

        Windows know nothing of each other. What all of them put on a channel that they share may
        take longer than each of them, and less if they are longer and fewer.
        """
        limits = self.problem.limits
        shared = limits.host_total_bytes_per_s + limits.stream_total_bytes_per_s > 0.0
        return period_s * (1.0 + self._tolerance) if shared else np.finfo(np.float64).max

    def _bisect(
        self,
        attempt: Callable[[float], float],
        low: float,
        high: float,
        share: float,
        tolerance: float,
    ) -> None:
        """Narrows the range of the least period; guesses are at a share of it from the lower end.

        Args:
            attempt: the period of a partition within one, or infinity.
            low: no partition is known within it.
            high: a partition has this period; nothing is tried where it is infinite.
            share: from 0 to 1.
            tolerance: relative width at which it stops.
        """
        while np.isfinite(high) and high - low > tolerance * high:
            middle = low + share * (high - low)
            found = attempt(middle)
            if found <= self._most_s(middle):
                high = min(found, middle)
            else:
                low = middle

    def _attempt(
        self, order: Order, cuts_within: Callable[[float], Longs]
    ) -> Callable[[float], float]:
        """For a period the one of a partition within it, or infinity where there is none."""

        def attempt(period_s: float) -> float:
            cuts = cuts_within(period_s * (1.0 + SLACK)) if self.left else NO_CUTS
            if not cuts.size:
                return float("inf")
            return self.take(chips_from_cuts(self.problem, order.units, cuts))

        return attempt

    def take(self, chip_of: Ints) -> float:
        """Evaluates a partition on chips and keeps it if it is the best; its period."""
        device_of, last = self.order.devices(chip_of), int(chip_of.max())
        best_s, found = self.best_period_s, self.period(device_of)
        if found == best_s < float("inf") and last < self._last:
            self.best = device_of
            self.budget.monitor.best(device_of, found)
        if found < best_s or self.best is device_of:
            self._last = last
        return found
