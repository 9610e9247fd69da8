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
        stage: `[K, A, A, m + 1]`, the last position that a stage of level a reaches from each
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
                row = (found[a, c - r], stage[slowest, a, b], closed[a])
                _extend(row, code, False, found[a, c], choice[a, c])
                for inner in range(2, c // r + 1 if r > 1 and stage.shape[0] == 1 else 0):
                    row = (found[a, c - r * inner], found[b, inner], closed[a])
                    _extend(row, code + inner, True, found[a, c], choice[a, c])


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


class CopiedStages:
    """Chains of level L on the first chips of a line.

    Args:
        line: the problem of one inference on a ring along the devices.
        windows: of an order of its units.
        classes: L.
    """

    def __init__(self, line: PartitionProblem, windows: StageWindows, classes: int) -> None:
        self._windows = windows
        self._levels = [1, *sorted({-(-classes // r) for r in range(1, classes)})]
        limits, block = line.limits, line.limits.buffer_alignment_bytes
        chips = np.stack([line.chip_speed, np.array(limits.sram_bytes) // block], axis=1)
        self._kinds, kind_of = np.unique(chips, axis=0, return_inverse=True)
        self._kind_of = kind_of.ravel().astype(np.int32)
        self._rate = limits.link_bytes_per_s
        self._packing = limits.activation_packing
        self._chips = line.num_chips

    @cached_property
    def _copies(self) -> Ints:
        levels = np.array(self._levels)
        outer = levels[:, np.newaxis]
        copies = -(-outer // levels)
        return np.where(-(-outer // copies) == levels, copies, 0).astype(np.int32)

    @cached_property
    def _stage_s(self) -> Floats:
        """`[K, A, A, m + 1, m + 1]`, seconds of a round in a stage; infinite for want of memory."""
        w, count = self._windows, len(self._levels)
        size = w.size + 1
        table = np.full((len(self._kinds), count, count, size, size), np.inf)
        passed_s = np.maximum(w.passed_s[:, np.newaxis], w.passed_s)
        passed = np.maximum(w.passed[:, np.newaxis], w.passed)
        fixed = w.weights + np.ceil(w.peak * self._packing)
        link_s = w.crossed / self._rate
        for a, level in enumerate(self._levels):
            for b, inner in enumerate(self._levels[: a + 1]):
                if not self._copies[a, b]:
                    continue
                others = level - inner
                busy_s = inner * w.busy_s + others * passed_s
                need = fixed + inner * w.buffers + others * passed
                for k, (speed, sram) in enumerate(self._kinds.tolist()):
                    seconds = np.maximum(busy_s / speed, level * link_s)
                    table[k, a, b] = np.where(need <= sram, seconds, np.inf)
        return table

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
        best = self.reached(chips, below_s)
        low = self.least_s(chips)
        for _ in range(STEPS if best is not None else 0):
            assert best is not None
            if best.period_s <= low * 1.001:
                break
            trial = (low + best.period_s) / 2.0
            found = self.reached(chips, trial)
            low, best = (trial, best) if found is None else (low, found)
        return best

    def _tables(self, chips: int, period_s: float) -> tuple[Ints, Ints]:
        within = self._stage_s <= period_s
        last = self._windows.size - within[..., ::-1].argmax(axis=-1)
        starts = np.arange(self._windows.size + 1)
        stage = np.where(within.any(axis=-1), last, starts)
        # A run that is empty takes no chip.
        stage = np.maximum(stage, starts).astype(np.int32)
        levels, w = np.array(self._levels)[:, np.newaxis], self._windows
        speed, sram = self._kinds.min(axis=0).tolist()
        closed = levels * w.crossed > period_s * self._rate
        closed |= levels * w.passed_s > PASSED_ON * period_s * speed
        closed |= levels * w.passed > PASSED_ON * sram
        found = np.empty((len(self._levels), chips + 1, self._windows.size + 1), np.int32)
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
