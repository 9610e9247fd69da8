"""Demands of runs of units along an order, on one chip, for any number of inferences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.rows import Rows
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.mapping.loads.chip_demands import (
    CROSSED,
    LIVE,
    PASSED,
    RECEIVED,
    SENT,
    ChipDemands,
    chip_demands,
)
from mcm_passes.mapping.loads.order_sums import sum_between

MOST_BLOCKS = 256
"""Blocks that an order is divided into at most: tables grow with their square."""

LEAST_LEAD = 0.5
"""Share of the work that is in front of a position, less the share of weights, from which classes
take turns behind it alone."""


@dataclass(frozen=True, eq=False)
class StageWindows:
    """Demands of the run of blocks `[i, j)` of an order, for one inference on a chip of speed 1.

    Bytes are in blocks of the alignment.

    Attributes:
        block_of: `[N]`, the block of each unit; -1 for units that are copied to their readers.
        busy_s: `[m + 1, m + 1]`, seconds, with what the chip passes on.
        weights: `[m + 1, m + 1]`, bytes of distinct weights.
        buffers: `[m + 1, m + 1]`, bytes of receive and send buffers.
        peak: `[m + 1, m + 1]`, most bytes of activations that are live at once.
        crossed: `[m + 1]`, bytes that cross a link in front of each block.
        passed_s: `[m + 1]`, seconds of a chip that passes these tensors on.
        passed: `[m + 1]`, bytes of its buffers for them.
    """

    block_of: Ints
    busy_s: Floats
    weights: Floats
    buffers: Floats
    peak: Floats
    crossed: Floats
    passed_s: Floats
    passed: Floats

    @property
    def size(self) -> int:
        """Number of blocks, m."""
        return self.crossed.size - 1


def stage_windows(line: PartitionProblem, units: Ints, most: int = MOST_BLOCKS) -> StageWindows:
    """The windows of an order.

    Args:
        line: the problem on a ring along the devices.
        units: `[n]`, the units that are not copied to their readers, in a topological order.
        most: blocks of equal work that the order is divided into at most.
    """
    demands = chip_demands(line, units)
    block = np.arange(units.size)
    if units.size > most:
        # Blocks of about equal work or memory; a heavy unit has a block of its own.
        users, held = demands.items.users, demands.items.weight + demands.items.held
        room = demands.nodes.out_room.astype(np.float64)
        np.add.at(room, users.entries, held[users.owners])
        steps = _steps(demands.nodes.work_s, most) + _steps(room, most // 4)
        block = np.unique(steps, return_inverse=True)[1]
    return _counted(line, demands, units, block)


def heavy_from(seconds: Floats, held: Floats) -> int:
    """Position behind which there are most weights for the work; 0 where these hardly differ.

    Args:
        seconds: before each position, and of all units last.
        held: bytes of weights, likewise.
    """
    lead = seconds / (seconds[-1] or 1.0) - held / (held[-1] or 1.0)
    at = int(np.argmax(lead))
    return at if lead[at] > LEAST_LEAD else 0


def _counted(
    line: PartitionProblem, demands: ChipDemands, units: Ints, block: Longs
) -> StageWindows:
    m = int(block[-1]) + 1
    nodes, items, tensors = demands.nodes, demands.items, demands.tensors
    own = np.bincount(block, nodes.work_s, m)
    out = np.bincount(block, nodes.out_room, m)
    weights, busy_s, buffers = _Sums(m), _Sums(m), _Sums(m)
    first_use = _first_uses(items.users, np.full(items.users.size, -1), block)
    for amount, sums in ((items.weight, weights), (items.held, buffers), (items.busy_s, busy_s)):
        sums.entered(*first_use[:2], amount[first_use[2]])
    padded = np.append(block, -1)
    maker, last = padded[tensors.producer], padded[tensors.last]
    crosses = last > maker
    reads = _first_uses(tensors.readers, maker, block)
    amount = tensors.amount
    starts, ends, moved = maker[crosses], last[crosses], amount[crosses]
    relayed = moved if line.relays else 0 * moved
    passed_s = tensors.passed_s[crosses] * line.relays
    received = relayed[:, RECEIVED]
    arriving, crossed, passed_on, through = (
        sum_between(values, starts + 1, ends, m)
        for values in (received, moved[:, CROSSED], passed_s, received + relayed[:, PASSED])
    )
    buffers.left(starts, ends, moved[:, SENT])
    buffers.through(starts, ends, relayed[:, PASSED])
    busy_s.through(starts, ends, passed_s)
    if not line.relays:
        buffers.entered(*reads[:2], amount[reads[2], RECEIVED])
    made = np.flatnonzero(tensors.producer >= 0)
    producer, until = tensors.producer[made], np.maximum(tensors.last, tensors.producer)[made]
    live = sum_between(amount[made, LIVE], producer, until, units.size)
    highest = np.zeros(m)
    np.maximum.at(highest, block, live[:-1])
    peak = np.zeros((m + 1, m + 1))
    for i in range(m):
        peak[i, i + 1 :] = np.maximum.accumulate(highest[i:])
    block_of = np.full(line.num_units, -1, np.int32)
    block_of[units] = block
    return StageWindows(
        block_of=block_of,
        busy_s=busy_s.total() + _between(own),
        weights=weights.total(),
        buffers=buffers.total() + _between(out) + arriving[:, np.newaxis],
        peak=peak,
        crossed=crossed,
        passed_s=passed_on,
        passed=through,
    )


def _steps(amounts: Floats | Longs, most: int) -> Floats:
    """For each position the number of `most` equal shares of the sum that end before its end.

    A larger amount ends one of its own, so that what is behind it is apart.
    """
    shares = amounts / (amounts.sum() or 1.0) * most
    return np.floor(np.cumsum(shares) - 1e-9) + np.cumsum(shares > 1.0) - (shares > 1.0)


def _between(values: Floats | Longs) -> Floats:
    """`[m + 1, m + 1]`, the sum of the values of blocks i to j - 1."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return sums[np.newaxis] - sums[:, np.newaxis]


def _first_uses(users: Rows, before: Longs, block: Longs) -> tuple[Longs, Longs, Longs]:
    """For each block with a user: the block of the user before it, its own, and the row.

    Args:
        users: rows of positions, ascending.
        before: per row, the block in front of its first user.
        block: of each position.
    """
    row, at = users.owners, block[users.entries]
    previous = np.concatenate([[-1], at[:-1]])
    first: Bools = np.diff(row, prepend=-1) > 0
    previous[first] = before[row[first]]
    return previous, at, row


class _Sums:
    """Sums over windows `[i, j)`, as differences along both axes."""

    def __init__(self, blocks: int) -> None:
        self._of = np.zeros((blocks + 2, blocks + 2))

    def entered(self, before: Longs, at: Longs, amount: Floats | Longs) -> None:
        """Adds to windows that begin behind `before` and have `at`."""
        np.add.at(self._of, (before + 1, at + 1), amount)
        np.add.at(self._of, (at + 1, at + 1), -amount)

    def left(self, at: Longs, last: Longs, amount: Longs) -> None:
        """Adds to windows that have `at` and end at `last` or before."""
        for column, sign in ((at + 1, 1), (last + 1, -1)):
            np.add.at(self._of[0], column, sign * amount)
            np.add.at(self._of, (at + 1, column), -sign * amount)

    def through(self, before: Longs, last: Longs, amount: Floats | Longs) -> None:
        """Adds to windows that begin behind `before` and end at `last` or before."""
        np.add.at(self._of[:, 0], before + 1, amount)
        np.add.at(self._of, (before + 1, last + 1), -amount)

    def total(self) -> Floats:
        """`[m + 1, m + 1]`; asked for once."""
        np.cumsum(self._of, axis=0, out=self._of)
        return np.cumsum(self._of, axis=1, out=self._of)[:-1, :-1]
