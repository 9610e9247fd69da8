"""Whether buffers of a memory plan share an address while both are taken.

Independent of whatever planned them: it sees only addresses and lifetimes.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from mcm_compiler.contracts.program import Buffer


def overlapping_buffers(buffers: Sequence[Buffer]) -> list[tuple[Buffer, Buffer]]:
    """Pairs of buffers that share an address while both are taken; at most one per buffer.

    Knows nothing of the allocator: it sweeps over time and keeps the live buffers sorted by
    address, in which order only neighbours can overlap as long as no pair did before.
    """
    events: list[tuple[int, int, int]] = []
    for index, buffer in enumerate(buffers):
        if buffer.size_bytes > 0:
            events.append((buffer.first, 1, index))
            events.append((buffer.last + 1, 0, index))
    events.sort()
    live: list[tuple[int, int]] = []
    found: list[tuple[Buffer, Buffer]] = []
    for _time, begins, index in events:
        buffer = buffers[index]
        key = (buffer.address, index)
        at = bisect.bisect_left(live, key)
        if not begins:
            if at < len(live) and live[at] == key:
                del live[at]
            continue
        below = buffers[live[at - 1][1]] if at else None
        above = buffers[live[at][1]] if at < len(live) else None
        if below is not None and below.address + below.size_bytes > buffer.address:
            found.append((below, buffer))
        elif above is not None and buffer.address + buffer.size_bytes > above.address:
            found.append((buffer, above))
        else:
            live.insert(at, key)
    return found
