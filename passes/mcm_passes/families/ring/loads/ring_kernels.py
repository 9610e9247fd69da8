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
from mcm_compiler.placements.ring_routes import (
    COLLECTED,
    FORWARDED,
    FROM_HOST,
    HOST,
    SENT_ONCE,
    TO_HOST,
    passing_span,
)
from mcm_passes.mapping.loads.tensor_columns import (
    CROSSED,
    ENTERED,
    EXITED,
    PASSED,
    RECEIVED,
    SENT,
    TensorLoads,
)

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
        source: the chip that its way begins on; the first one for the host's.
        last: the last chip that reads it, or -1.
        last_used: the last chip with a unit.
    """

    source: int
    last: int
    last_used: int


class Marks(NamedTuple):
    """What tells whether a chip has been charged.

    Attributes:
        stamp: `[C]`, does not hold `mark` yet; changed in place.
        mark: another one for each tensor.
    """

    stamp: Longs
    mark: int


_passing_span = inlined_njit(passing_span)


def _count_way(
    columns: TensorLoads, t: int, source: int, last: int, sign: int, loads: Loads
) -> bool:
    """Counts a tensor on the links and chips from `source` to `last`.

    Args:
        columns: the demands of tensors.
        t: the tensor; none that reaches chips directly from the host, or that clones make.
        source: the chip that its way begins on; the first one for the host's.
        last: the last chip that needs it, or one before where none beyond does. What the host
            collects is needed by the last used chip.
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
        totals[HELD, source] += sign * amount[t, PASSED if kind & FROM_HOST else SENT]
    if not kind & FORWARDED:
        return True
    for c in range(source + 1, last):
        totals[HELD, c] += sign * (amount[t, RECEIVED] + amount[t, PASSED])
    totals[HELD, last] += sign * amount[t, RECEIVED]
    begin, end = _passing_span(kind, source, last)
    for c in range(begin, end):
        loads.busy_s[c] += sign * columns.passed_s[t]
    return False


count_way = lean_inner_njit(_count_way)
"""`_count_way`, compiled."""

_inlined_way = inlined_njit(_count_way)


@inlined_njit
def _count_host(
    columns: TensorLoads, t: int, source: int, last_used: int, sign: int, totals: Longs
) -> None:
    """Counts a tensor where it enters the ring at its first chip, and where the host gets it.

    Args:
        columns: as for `count_way`.
        t: the tensor.
        source: the chip that its way begins on.
        last_used: the last chip with a unit.
        sign: 1 to count it, -1 to take it off.
        totals: as in `Loads`.
    """
    kind, amount = columns.kind[t], columns.amount
    if kind & FROM_HOST:
        totals[HOST_IN, source] += sign * amount[t, ENTERED]
        totals[HELD, source] += sign * amount[t, RECEIVED]
    elif kind & TO_HOST:
        exit_chip = last_used if kind & COLLECTED else source
        totals[HOST_OUT, exit_chip] += sign * amount[t, EXITED]
        totals[HELD, exit_chip] += sign * amount[t, SENT if exit_chip == source else PASSED]


def _count_tensor(columns: TensorLoads, t: int, way: Way, sign: int, loads: Loads) -> bool:
    """Counts a tensor at the host's channels, and on the links and chips of its way.

    Args:
        columns: the demands of tensors.
        t: the tensor; none that reaches chips directly from the host, or that clones make.
        way: of the tensor.
        sign: 1 to count it, -1 to take it off.
        loads: changed in place.

    Returns:
        Whether the chips that read it are to be charged with what they receive.
    """
    last = way.last
    if columns.kind[t] & (FROM_HOST | TO_HOST):
        _count_host(columns, t, way.source, way.last_used, sign, loads.totals)
        if columns.kind[t] & COLLECTED:
            last = max(last, way.last_used)
    return _inlined_way(columns, t, way.source, last, sign, loads)


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
    source: int,
    sign: int,
    totals: Longs,
    marks: Marks,
) -> None:
    """Counts what each chip beyond its maker's receives that reads a tensor.

    Args:
        columns: as for `count_tensor`.
        t: likewise, or one that the host sends to every chip that reads it.
        readers: `[T]` rows of the units that read each tensor.
        chip_of: `[N]`.
        source: the chip that its way begins on, or `HOST`.
        sign: 1 to count it, -1 to take it off.
        totals: as in `Loads`.
        marks: for the tensor.
    """
    for e in range(readers.ptr[t], readers.ptr[t + 1]):
        c = int(chip_of[readers.entries[e]])
        if c > source and marks.stamp[c] != marks.mark:
            marks.stamp[c] = marks.mark
            totals[HELD, c] += sign * columns.amount[t, RECEIVED]
            if source == HOST:
                totals[HOST_IN, c] += sign * columns.amount[t, ENTERED]
