"""The way of a tensor along the ring: from who makes it to all who want it.

The host is one more node. Where every chip reaches it, a graph input goes from the host to each
chip that reads it, and a graph output from its maker's chip to the host. Where only the ends do,
inputs enter at the first chip and travel on, and outputs travel to the last used chip, so that
ways depend on the whole placement.

A tensor is *forwarded* where each chip on its way receives it and passes it on; else its maker's
chip sends it once, and the chips that read it receive it: where long dependencies are ruled out, or
routers pass tensors on. What clonable units make never travels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mcm_compiler.contracts.partition import Longs, PartitionProblem

HOST = -1
"""The maker of graph inputs, where a chip is expected."""

FROM_HOST, EVERYWHERE, TO_HOST, COLLECTED, FORWARDED, CLONED, SENT_ONCE = (1 << k for k in range(7))
"""Bits of a tensor's kind: the host makes it; it reaches each reader's chip from the host; the host
wants it; the host wants it from the last used chip; the chips between pass it on; clonable units
make it; one set of send buffers serves the host and the next chip."""


class Route(NamedTuple):
    """The chips, or links, on which a tensor does something; a chip once for each time.

    Attributes:
        entered: chips to which the host sends it.
        received: chips that it arrives on, from the host or over a link.
        sent: chips that made it and send it on; twice where once to the host.
        passed: chips that did not make it and send it on.
        crossed: links.
        exited: chips that send it to the host.
        stays: the chip that makes it, where it never leaves that chip.
    """

    entered: tuple[int, ...] = ()
    received: tuple[int, ...] = ()
    sent: tuple[int, ...] = ()
    passed: tuple[int, ...] = ()
    crossed: tuple[int, ...] = ()
    exited: tuple[int, ...] = ()
    stays: tuple[int, ...] = ()


def route_kinds(problem: PartitionProblem) -> Longs:
    """`[T]`, the bits of each tensor."""
    made = problem.tensor_producer >= 0
    cloned = made & problem.clonable[np.maximum(problem.tensor_producer, 0)]
    ends = problem.limits.host_io == "ends"
    to_host = problem.tensor_to_host & made & ~cloned
    by_the_host = ends & (to_host | ~made)
    forwarded = by_the_host | problem.relays & made & ~cloned
    once = (problem.memory == "need") & to_host & (not ends)
    parts = (
        (FROM_HOST, ~made),
        (EVERYWHERE, ~made & (not ends)),
        (TO_HOST, to_host),
        (COLLECTED, to_host & ends),
        (FORWARDED, forwarded),
        (CLONED, cloned),
        (SENT_ONCE, once),
    )
    return np.sum([bit * holds.astype(np.int64) for bit, holds in parts], axis=0)


def passing_span(kind: int, source: int, last: int) -> tuple[int, int]:
    """The first chip that passes a forwarded tensor on, and one past the last.

    Compiled code compiles this as well.

    Args:
        kind: its bits.
        source: the chip that its way begins on; the first one for the host's.
        last: the last chip that needs it, beyond `source`.
    """
    begin = source if kind & FROM_HOST else source + 1
    return begin, last + 1 if kind & COLLECTED else last


def route(kind: int, maker: int, readers: Sequence[int], last_used: int) -> Route:
    """The way of one tensor that no clonable unit makes.

    Args:
        kind: its bits.
        maker: chip of the unit that makes it, or `HOST`.
        readers: the chips that read it, ascending, each once.
        last_used: the last chip with a unit.
    """
    if kind & FROM_HOST and not readers:
        return Route()
    if kind & EVERYWHERE:
        return Route(entered=tuple(readers), received=tuple(readers))
    source, entered = (0, (0,)) if kind & FROM_HOST else (maker, ())
    exited: tuple[int, ...] = ()
    if kind & TO_HOST:
        exited = (last_used if kind & COLLECTED else source,)
    last = max(*readers, source, *exited) if readers or exited else source
    crossed = tuple(range(source, last))
    if kind & FORWARDED:
        leaves, arrives = (*crossed, *exited), tuple(range(source + 1, last + 1))
    else:
        leaves = (*crossed[:1], *exited)
        arrives = tuple(c for c in readers if c > source)
    sent = tuple(c for c in leaves if c == maker)
    return Route(
        entered=entered,
        received=entered + arrives,
        sent=sent[:1] if kind & SENT_ONCE else sent,
        passed=tuple(c for c in leaves if c != maker),
        crossed=crossed,
        exited=exited,
        stays=() if leaves or kind & FROM_HOST else (source,),
    )
