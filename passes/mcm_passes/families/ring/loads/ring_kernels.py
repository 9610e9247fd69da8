"""What tensors load on their way along the ring, as compiled code: the table in flat arrays.

A search counts a tensor millions of times, here or there, once on and once off. The functions below
are all that it takes: `count_way` between chips, or `count_tensor` where readers are at hand, and
`count_host` at the host's channels. A channel that all chips share is no row of `totals`: its load
is the sum over a row of the chips' own. Property tests hold them against a plain reading of the
table, `tests/oracles/reference_loads.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from mcm_compiler.arrays.lean_kernels import inlined_njit, lean_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_compiler.placements.ring_routes import (
    COLLECTED,
    FORWARDED,
    FROM_HOST,
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
    TensorColumns,
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


class Placed(NamedTuple):
    """Where units are.

    Attributes:
        chip_of: `[N]`.
        last_used: the last chip with a unit.
    """

    chip_of: Ints
    last_used: int


_passing_span = inlined_njit(passing_span)


def _count_way(
    columns: TensorColumns, t: int, source: int, last: int, sign: int, loads: Loads
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


count_way = lean_njit(_count_way)
"""`_count_way`, compiled."""

_inlined_way = inlined_njit(_count_way)


@inlined_njit
def count_tensor(
    columns: TensorColumns,
    t: int,
    readers: Rows,
    placed: Placed,
    source: int,
    loads: Loads,
    stamp: Longs,
) -> bool:
    """Counts a tensor on all links and chips, where its readers are known one by one.

    Args:
        columns: as for `count_way`.
        t: likewise.
        readers: `[T]` rows of the units that read each tensor.
        placed: where units are.
        source: the chip that its way begins on.
        loads: changed in place.
        stamp: `[C]`, does not hold `t` yet; changed in place.

    Returns:
        Whether it gets to another chip.
    """
    last = placed.last_used if columns.kind[t] & COLLECTED else -1
    for e in range(readers.ptr[t], readers.ptr[t + 1]):
        last = max(last, int(placed.chip_of[readers.entries[e]]))
    if _inlined_way(columns, t, source, last, 1, loads):
        for e in range(readers.ptr[t], readers.ptr[t + 1]):
            c = int(placed.chip_of[readers.entries[e]])
            if c > source and stamp[c] != t:
                stamp[c] = t
                loads.totals[HELD, c] += columns.amount[t, RECEIVED]
    return last > source


@inlined_njit
def count_host(
    columns: TensorColumns, t: int, source: int, last_used: int, sign: int, totals: Longs
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
