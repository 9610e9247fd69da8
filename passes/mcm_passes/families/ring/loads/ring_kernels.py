"""What tensors load on their way along the ring, as compiled code: the table in flat arrays.

A search counts a tensor millions of times, here or there, once on and once off. The functions below
are all that it takes: `count_tensor`, or `count_way` alone between chips, and `count_received`
where a tensor is not forwarded. A channel that all chips share is no row of `totals`: its load is
the sum over a row of the chips' own. Property tests hold them against a plain reading of the table,
`tests/oracles/reference_loads.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from mcm_compiler.arrays.kernels import inlined_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_compiler.placements.ring_rules import (
    COLLECTED,
    EVERYWHERE,
    FORWARDED,
    HOST,
    SENT_ONCE,
    TO_HOST,
)
from mcm_passes.families.ring.loads.chip_demands import TensorDemands
from mcm_passes.mapping.loads.problem_arrays import (
    CROSSED,
    ENTERED,
    EXITED,
    PASSED,
    RECEIVED,
    SENT,
    TensorColumns,
)

TensorLoads = TensorColumns | TensorDemands
"""Demands of tensors: of all of a problem, or of those that travel."""

LINK, HOST_OUT, HOST_IN, HELD = range(4)
"""Rows of `Loads.totals`; a caller may have more behind them."""


class Loads(NamedTuple):
    """What is loaded on C chips.

    Attributes:
        busy_s: `[C]`, seconds.
        totals: rows as above, at least 4 of `[C]`.
    """

    busy_s: Floats
    totals: Longs


class Way(NamedTuple):
    """Where a tensor comes from and gets to.

    Attributes:
        source: the chip that makes it, or `HOST`.
        last: the last chip that reads it, or -1.
        end: the last chip of the package.
    """

    source: int
    last: int
    end: int


class Marks(NamedTuple):
    """What tells whether a chip has been charged.

    Attributes:
        stamp: `[C]`, does not hold `mark` yet; changed in place.
        mark: another one for each tensor.
    """

    stamp: Longs
    mark: int


def _count_way(
    columns: TensorLoads, t: int, source: int, last: int, sign: int, loads: Loads
) -> bool:
    """Counts a tensor on the links and chips from `source` to `last`.

    Args:
        columns: the demands of tensors.
        t: the tensor, which a unit makes that is not clonable.
        source: the chip that makes it.
        last: the last chip that reads it, or one before where none beyond does.
        sign: 1 to count it, -1 to take it off.
        loads: changed in place.

    Returns:
        Whether it leaves its chip without being forwarded, so that the chips that read it are to
        be charged with what they receive.
    """
    if last <= source:
        return False
    kind, amount, totals = columns.kind[t], columns.amount, loads.totals
    for c in range(source, last):
        totals[LINK, c] += sign * amount[t, CROSSED]
    if not kind & SENT_ONCE:
        totals[HELD, source] += sign * amount[t, SENT]
    if not kind & FORWARDED:
        return True
    for c in range(source + 1, last):
        totals[HELD, c] += sign * (amount[t, RECEIVED] + amount[t, PASSED])
        loads.busy_s[c] += sign * columns.passed_s[t]
    totals[HELD, last] += sign * amount[t, RECEIVED]
    return False


count_way = lean_inner_njit(_count_way)
"""`_count_way`, compiled."""

_inlined_way = inlined_njit(_count_way)


@inlined_njit
def _count_exit(columns: TensorLoads, t: int, way: Way, sign: int, totals: Longs) -> None:
    """Counts a tensor that the host wants, from its last reader on where it leaves at the ends.

    Args:
        columns: as for `count_way`.
        t: the tensor.
        way: of the tensor.
        sign: 1 to count it, -1 to take it off.
        totals: as in `Loads`.
    """
    kind, amount = columns.kind[t], columns.amount
    exit_chip, source = way.source, way.source
    apart = kind & SENT_ONCE == 0
    if kind & COLLECTED and source > 0:
        chips = totals.shape[1]
        exit_chip = min(way.end, chips - 1)
        for c in range(max(way.last, source), min(way.end, chips)):
            totals[LINK, c] += sign * amount[t, CROSSED]
        apart = False
    totals[HOST_OUT, exit_chip] += sign * amount[t, EXITED]
    # With one set of send buffers for all, `_count_way` has them only where it has sets apart.
    if way.last <= source or apart or kind & SENT_ONCE:
        totals[HELD, source] += sign * amount[t, SENT]


def _count_tensor(columns: TensorLoads, t: int, way: Way, sign: int, loads: Loads) -> bool:
    """Counts a tensor at the host's channels, and on the links and chips of its way.

    Args:
        columns: the demands of tensors.
        t: the tensor, which a unit makes that is not clonable.
        way: of the tensor.
        sign: 1 to count it, -1 to take it off.
        loads: changed in place.

    Returns:
        Whether the chips that read it are to be charged with what they receive.
    """
    if columns.kind[t] & TO_HOST:
        _count_exit(columns, t, way, sign, loads.totals)
    return _inlined_way(columns, t, way.source, way.last, sign, loads)


count_tensor = inlined_njit(_count_tensor)
"""`_count_tensor`, where it is called at one place."""

count_tensor_apart = lean_inner_njit(_count_tensor)
"""`_count_tensor`, where it is called at many places."""


@inlined_njit
def count_received(
    columns: TensorLoads,
    t: int,
    readers: Rows,
    chip_of: Ints,
    way: Way,
    sign: int,
    totals: Longs,
    marks: Marks,
) -> None:
    """Counts what each chip beyond its maker's receives that reads a tensor, and where it enters.

    Args:
        columns: as for `count_tensor`.
        t: likewise, or a tensor of the host.
        readers: `[T]` rows of the units that read each tensor.
        chip_of: `[N]`.
        way: of the tensor; the chips are found here once more.
        sign: 1 to count it, -1 to take it off.
        totals: as in `Loads`.
        marks: for the tensor.
    """
    far = -1
    for e in range(readers.ptr[t], readers.ptr[t + 1]):
        c = int(chip_of[readers.entries[e]])
        if c > way.source and marks.stamp[c] != marks.mark:
            marks.stamp[c] = marks.mark
            totals[HELD, c] += sign * columns.amount[t, RECEIVED]
            if way.source == HOST:
                if columns.kind[t] & EVERYWHERE or c == way.end:
                    totals[HOST_IN, c] += sign * columns.amount[t, ENTERED]
                else:
                    far = max(far, c)
    if far >= 0:
        totals[HOST_IN, 0] += sign * columns.amount[t, ENTERED]
        for c in range(far):
            totals[LINK, c] += sign * columns.amount[t, CROSSED]
