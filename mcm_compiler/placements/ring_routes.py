"""The way of a tensor along the ring: from who makes it to all who want it.

The host is one more node. Where every chip reaches it, a graph input goes from the host to each
chip that reads it, and a graph output from its maker's chip to the host. Where only the ends of the
package do, the last chip still gets inputs directly, and the first gives outputs directly; what
other chips read enters at the first and what they give leaves at the last, over the links between.

A tensor is *forwarded* where each chip between its maker and its last reader receives it and passes
it on; else its maker's chip sends it once, and the chips that read it receive it: where long
dependencies are ruled out, where routers pass tensors on, and between the host and inner chips.
What clonable units make never travels.
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
wants it; it leaves at the ends of the package; the chips between pass it on; clonable units make
it; one set of send buffers serves the host and the next chip."""


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
    ends = problem.limits.at_ends
    to_host = problem.tensor_to_host & made & ~cloned
    forwarded = problem.relays & made & ~cloned
    once = (problem.memory == "need") & to_host
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


def route(kind: int, maker: int, readers: Sequence[int], end: int, num_chips: int) -> Route:
    """The way of one tensor that no clonable unit makes.

    Args:
        kind: its bits.
        maker: chip of the unit that makes it, or `HOST`.
        readers: the chips that read it, ascending, each once.
        end: the last chip of the package.
        num_chips: C; of the links behind these chips, over which outputs leave, the first stands
            for all.
    """
    if kind & FROM_HOST:
        direct = {c for c in readers if kind & EVERYWHERE or c == end}
        far = max(set(readers) - direct, default=-1)
        entered = sorted(direct | {0}) if far >= 0 else sorted(direct)
        return Route(tuple(entered), tuple(readers), crossed=tuple(range(far)))
    last = max([maker, *readers])
    collected = bool(kind & COLLECTED and maker)
    crossed = tuple(range(maker, min(end, num_chips) if collected else last))
    sent = (maker,) if last > maker else ()
    exited: tuple[int, ...] = ()
    if kind & TO_HOST:
        exited = (min(end, num_chips - 1) if collected else maker,)
        # Beyond its last reader's chip it goes on from that one's receive buffer.
        apart = not collected and not kind & SENT_ONCE
        sent = (maker, *(sent if apart else ()))
    relayed = bool(kind & FORWARDED)
    beyond = range(maker + 1, last + 1)
    return Route(
        received=tuple(beyond if relayed else [c for c in readers if c in beyond]),
        sent=sent,
        passed=tuple(range(maker + 1, last)) if relayed else (),
        crossed=crossed,
        exited=exited,
        stays=() if sent else (maker,),
    )
