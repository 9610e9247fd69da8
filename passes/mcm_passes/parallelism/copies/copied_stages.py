"""Stages of a round: runs of units, copied over consecutive chips, groups of them copied as well.

A pipeline that computes L inferences in a round is a *chain of level L*: elements one after the
other along the chips. An element of level L is r copies of a chain of level L / r, rounded up:
class k of the round runs on copy k mod r. A chain of one stage on one chip is the simplest, so that
stages have numbers of copies of their own, and groups of stages nest. Equal pipelines are one
element with all stages.

For a trial period T, the table of a level holds the last position of the order that a number of
chips reaches from each position (our derivation). It is exact for demands that never fall where a
run grows, except that copies of groups of several chips pass on tensors of other copies without
taking time for it. Bisection finds the least T.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mcm_compiler.arrays.kernels import lean_inner_njit, lean_njit
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.parallelism.copies.stage_windows import StageWindows

NOWHERE = -1
PASSED_ON = 0.1
"""Share of time and memory that copies of groups may spend on tensors of other copies."""

STEPS = 12
"""Steps of the bisection: from a factor of two to about a two-thousandth."""

DOUBLINGS = 12
"""Factors of two over the least work that a period is looked for in, where none is known."""


@lean_inner_njit
def _extend(
    reached: tuple[Ints, Ints, Bools], code: int, shut: bool, found: Ints, choice: Ints
) -> None:
    """Offers one more element to a row of a table.

    Args:
        reached: `[m + 1]` each: positions before the element, positions that it reaches from each,
            and where it must not begin or end if `shut`.
        code: of the element.
        shut: whether that counts.
        found: `[m + 1]`, changed in place.
        choice: likewise.
    """
    before, after, closed = reached
    for i in range(found.size):
        at = before[i]
        to = after[at] if at >= 0 else NOWHERE
        if to > max(at, found[i]) and not (shut and (closed[at] or closed[to])):
            found[i] = to
            choice[i] = code


@lean_njit
def _reach(
    stage: Ints, copies: Ints, closed: Bools, kind_of: Ints, found: Ints, choice: Ints
) -> None:
    """Fills the tables of all levels; see the module.

    Args:
        stage: `[A, A, K, m + 1]`, the last position that a stage of level a reaches from each
            position with copies of level b, on chips of each kind.
        copies: `[A, A]`, copies of level b in level a; 0 where there are none.
        closed: `[A, m + 1]`, positions where no copied chain of level a begins or ends, since
            tensors of other copies that it passes on take too much.
        kind_of: `[C]`, kind of each chip. Where there are several, only entries for position 0
            count, and no chains are copied.
        found: `[A, C + 1, m + 1]`, the last position reached by C chips that all have units, or
            `NOWHERE`.
        choice: `[A, C + 1, m + 1]`, the last element: `b * (C + 1)` for a stage with copies of
            level b, and as much plus its chips for a chain of level b.
    """
    levels, chips, size = found.shape[0], found.shape[1] - 1, found.shape[2]
    for a in range(levels):
        for i in range(size):
            found[a, 0, i] = i
        for c in range(1, chips + 1):
            for i in range(size):
                found[a, c, i] = NOWHERE
            for b in range(a, -1, -1):
                r, code = copies[a, b], b * (chips + 1)
                if r == 0 or r > c:
                    continue
                slowest = kind_of[c - 1]
                for k in range(c - r, c):
                    # Kinds ascend by what they reach.
                    slowest = min(slowest, kind_of[k])
                row = (found[a, c - r], stage[a, b, slowest], closed[a])
                _extend(row, code, False, found[a, c], choice[a, c])
                for inner in range(2, c // r + 1 if r > 1 and stage.shape[2] == 1 else 0):
                    row = (found[a, c - r * inner], found[b, inner], closed[a])
                    _extend(row, code + inner, True, found[a, c], choice[a, c])


@lean_njit
def _furthest(least_s: Floats, period_s: float, found: Ints) -> None:
    """The last position that a stage reaches from each position, on chips of each kind.

    Args:
        least_s: `[K, m + 1, m + 1]`, see `StageTimes.least_s`.
        period_s: of a round.
        found: `[K, m + 1]`, changed in place.
    """
    for k in range(found.shape[0]):
        for i in range(found.shape[1]):
            # A run that is empty takes no chip.
            low, high = i, found.shape[1] - 1
            while low < high:
                middle = (low + high + 1) // 2
                if least_s[k, i, middle] <= period_s:
                    low = middle
                else:
                    high = middle - 1
            found[k, i] = low


@dataclass(frozen=True, eq=False)
class Reached:
    """A chain that covers the whole order.

    Attributes:
        period_s: seconds of the round that it was found for.
        chip_of: `[L, N]`, chip along the devices of each unit in each class; of those that are
            copied to their readers, 0.
    """

    period_s: float
    chip_of: Ints


class StageTimes:
    """Seconds of stages along an order, for rounds of all lengths.

    Args:
        line: the problem of one inference on a ring along the devices.
        windows: of an order of its units.
    """

    def __init__(self, line: PartitionProblem, windows: StageWindows) -> None:
        limits, block = line.limits, line.limits.buffer_alignment_bytes
        chips = np.stack([line.chip_speed, np.array(limits.sram_bytes) // block], axis=1)
        self.kinds, kind_of = np.unique(chips, axis=0, return_inverse=True)
        self.kind_of = kind_of.ravel().astype(np.int32)
        self.rate = limits.link_bytes_per_s
        self.windows = w = windows
        self._passed_s = np.maximum(w.passed_s[:, np.newaxis], w.passed_s)
        self._passed = np.maximum(w.passed[:, np.newaxis], w.passed)
        self._fixed = w.weights + np.ceil(w.peak * limits.activation_packing)
        self._known: dict[tuple[int, int], Floats] = {}

    def least_s(self, level: int, inner: int) -> Floats:
        """`[K, m + 1, m + 1]`, least seconds of a round in stages from i to j or beyond.

        Infinite for want of memory.

        Args:
            level: inferences that pass through.
            inner: those that each copy of the stage computes.
        """
        if (found := self._known.get((level, inner))) is None:
            w, others = self.windows, level - inner
            busy_s = inner * w.busy_s + others * self._passed_s
            need = self._fixed + inner * w.buffers + others * self._passed
            link_s = w.crossed * (level / self.rate)
            found = np.empty((len(self.kinds), *need.shape))
            for k, (speed, sram) in enumerate(self.kinds.tolist()):
                seconds = np.where(need <= sram, np.maximum(busy_s / speed, link_s), np.inf)
                np.minimum.accumulate(seconds[:, ::-1], axis=1, out=found[k, :, ::-1])
            self._known[level, inner] = found
        return found

    def fits(self, chips: int, seconds: float) -> bool:
        """Return whether the first chips have memory for all weights, and an inference's time."""
        speed, sram = self.kinds[self.kind_of[:chips]].sum(axis=0).tolist()
        busy_s, weights = self.windows.busy_s[0, -1], self.windows.weights[0, -1]
        return bool(weights <= sram and busy_s <= speed * seconds)


class CopiedStages:
    """Chains of level L on the first chips of a line.

    Args:
        times: of stages.
        classes: L.
    """

    def __init__(self, times: StageTimes, classes: int) -> None:
        self._times, self._windows = times, times.windows
        self._levels = [1, *sorted({-(-classes // r) for r in range(1, classes)})]
        self._kinds, self._kind_of = times.kinds, times.kind_of

    @cached_property
    def _copies(self) -> Ints:
        levels = np.array(self._levels)
        outer = levels[:, np.newaxis]
        copies = -(-outer // levels)
        return np.where(-(-outer // copies) == levels, copies, 0).astype(np.int32)

    def least_s(self, chips: int) -> float:
        """Least seconds for the work of a round."""
        speed = float(self._kinds[self._kind_of[:chips], 0].sum())
        return self._levels[-1] * float(self._windows.busy_s[0, -1]) / speed

    def reached(self, chips: int, period_s: float) -> Reached | None:
        """A chain on the first `chips` chips within a period; None where none is found."""
        tables = self._tables(chips, period_s)
        whole = np.flatnonzero(tables[0][-1, :, 0] == self._windows.size)
        if not whole.size:
            return None
        positions = np.zeros((self._levels[-1], self._windows.size), np.int32)
        classes = np.arange(self._levels[-1])
        self._place(tables, positions, (len(self._levels) - 1, int(whole[0]), 0), classes, 0)
        if len(self._kinds) == 1:
            # Copies of a chain may be more than the classes that are left for it.
            positions = np.unique(positions, return_inverse=True)[1]
            positions = positions.reshape(len(classes), -1)
        block_of = self._windows.block_of
        chip_of = np.where(block_of < 0, 0, positions[:, np.maximum(block_of, 0)])
        return Reached(period_s, chip_of.astype(np.int32))

    def fastest(self, chips: int, below_s: float) -> Reached | None:
        """The chain with about the least period; None where none is below `below_s`."""
        low, best = self.least_s(chips), None
        trials = [below_s] if below_s < np.inf else low * 2.0 ** np.arange(1, DOUBLINGS)
        for trial in trials:
            best = self.reached(chips, trial) if best is None else best
        for _ in range(STEPS if best is not None else 0):
            assert best is not None
            if best.period_s <= low * 1.001:
                break
            trial = (low + best.period_s) / 2.0
            found = self.reached(chips, trial)
            low, best = (trial, best) if found is None else (low, found)
        return best

    def _tables(self, chips: int, period_s: float) -> tuple[Ints, Ints]:
        count, size = len(self._levels), self._windows.size + 1
        stage = np.empty((count, count, len(self._kinds), size), np.int32)
        for a, b in np.argwhere(self._copies).tolist():
            least_s = self._times.least_s(self._levels[a], self._levels[b])
            _furthest(least_s, period_s, stage[a, b])
        levels, w = np.array(self._levels)[:, np.newaxis], self._windows
        speed, sram = self._kinds.min(axis=0).tolist()
        closed = levels * w.crossed > period_s * self._times.rate
        closed |= levels * w.passed_s > PASSED_ON * period_s * speed
        closed |= levels * w.passed > PASSED_ON * sram
        found = np.empty((count, chips + 1, size), np.int32)
        choice = np.empty_like(found)
        _reach(stage, self._copies, closed, self._kind_of[:chips].copy(), found, choice)
        return found, choice

    def _place(
        self,
        tables: tuple[Ints, Ints],
        positions: Ints,
        chain: tuple[int, int, int],
        classes: Longs,
        first: int,
    ) -> None:
        """Sets the chips of a chain: its level, its chips and its first position.

        Args:
            tables: what levels reach, and their choices.
            positions: `[L, m]`, changed in place.
            chain: the chain.
            classes: that it computes.
            first: its first chip.
        """
        found, choice = tables
        level, chips, start = chain
        while chips:
            inner, group = divmod(int(choice[level, chips, start]), found.shape[1])
            copies = int(self._copies[level, inner])
            each = max(group, 1)
            end = int(found[level, chips, start])
            chips -= copies * each
            at = int(found[level, chips, start])
            for copy in range(copies):
                own, place = classes[copy::copies], first + chips + copy * each
                if group:
                    self._place(tables, positions, (inner, group, at), own, place)
                else:
                    positions[own, at:end] = place
