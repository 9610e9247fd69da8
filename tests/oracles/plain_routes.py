"""Where tensors go on a ring, chip by chip: the oracle of loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mcm_compiler.placements.ring_rules import (
    COLLECTED,
    EVERYWHERE,
    FORWARDED,
    FROM_HOST,
    SENT_ONCE,
    TO_HOST,
)


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
