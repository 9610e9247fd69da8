"""What tensors load on their way along the ring, as compiled code: the table in flat arrays.

A search counts a tensor millions of times, here or there, once on and once off. The functions below
are all that it takes: `count_way` between chips, or `count_tensor` where readers are at hand, and
`count_host` at the host's channels. A channel that all chips share is no row of `totals`: its load
is the sum over a row of the chips' own. Property tests hold them together with `reference`.
"""

from __future__ import annotations

from mcm_compiler.lean_kernels import inlined_njit, lean_njit
from mcm_compiler.partition import Floats, Ints, Longs
from mcm_compiler.ring_routes import (
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
)

LINK, HOST_OUT, HOST_IN, HELD = range(4)
"""Rows of `totals`; a caller may have more behind them."""


_passing_span = inlined_njit(passing_span)


def _count_way(
    kinds: Longs,
    amount: Longs,
    passed_s: Floats,
    t: int,
    source: int,
    last: int,
    sign: int,
    busy: Floats,
    totals: Longs | Floats,
) -> bool:
    """Counts a tensor on the links and chips from `source` to `last`.

    Args:
        kinds: as in `TensorColumns`, like the next two.
        amount: likewise.
        passed_s: likewise.
        t: the tensor; none that reaches chips directly from the host, or that clones make.
        source: the chip that its way begins on; the first one for the host's.
        last: the last chip that needs it, or one before where none beyond does. What the host
            collects is needed by the last used chip.
        sign: 1 to count it, -1 to take it off.
        busy: `[C]`, seconds.
        totals: rows as above, at least 4 of `[C]`.

    Returns:
        Whether it leaves its chip without being forwarded, so that the chips that read it are to
        be charged with what they receive.
    """
    if last <= source:
        return False
    kind = kinds[t]
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
        busy[c] += sign * passed_s[t]
    return False


count_way = lean_njit(_count_way)
"""`_count_way`, compiled."""

_inlined_way = inlined_njit(_count_way)


@inlined_njit
def count_tensor(
    kinds: Longs,
    amount: Longs,
    passed_s: Floats,
    t: int,
    reader_ptr: Longs,
    readers: Longs | Ints,
    chip_of: Ints,
    source: int,
    last_used: int,
    sign: int,
    busy: Floats,
    totals: Longs | Floats,
    stamp: Longs,
    mark: int,
) -> bool:
    """Counts a tensor on all links and chips, where its readers are known one by one.

    Args:
        kinds: as for `count_way`, like the next three.
        amount: likewise.
        passed_s: likewise.
        t: likewise.
        reader_ptr: CSR of the readers of all tensors.
        readers: those readers.
        chip_of: their chips.
        source: the chip that its way begins on.
        last_used: the last chip with a unit.
        sign: 1 to count it, -1 to take it off.
        busy: as for `count_way`, like the next.
        totals: likewise.
        stamp: `[C]`, holds no `mark` yet.
        mark: to mark chips with.

    Returns:
        Whether it gets to another chip.
    """
    last = last_used if kinds[t] & COLLECTED else -1
    for e in range(reader_ptr[t], reader_ptr[t + 1]):
        last = max(last, int(chip_of[readers[e]]))
    if _inlined_way(kinds, amount, passed_s, t, source, last, sign, busy, totals):
        for e in range(reader_ptr[t], reader_ptr[t + 1]):
            c = int(chip_of[readers[e]])
            if c > source and stamp[c] != mark:
                stamp[c] = mark
                totals[HELD, c] += sign * amount[t, RECEIVED]
    return last > source


@inlined_njit
def count_host(
    kinds: Longs,
    amount: Longs,
    t: int,
    source: int,
    last_used: int,
    sign: int,
    totals: Longs | Floats,
) -> None:
    """Counts a tensor where it enters the ring at its first chip, and where the host gets it.

    Args:
        kinds: as for `count_way`, like the next two.
        amount: likewise.
        t: the tensor.
        source: the chip that its way begins on.
        last_used: the last chip with a unit.
        sign: 1 to count it, -1 to take it off.
        totals: as for `count_way`.
    """
    kind = kinds[t]
    if kind & FROM_HOST:
        totals[HOST_IN, source] += sign * amount[t, ENTERED]
        totals[HELD, source] += sign * amount[t, RECEIVED]
    elif kind & TO_HOST:
        exit_chip = last_used if kind & COLLECTED else source
        totals[HOST_OUT, exit_chip] += sign * amount[t, EXITED]
        totals[HELD, exit_chip] += sign * amount[t, SENT if exit_chip == source else PASSED]
