"""Where search starts: clusters in order of depth, dealt out to devices in stripes.

A network of layers keeps all its devices busy if neighbouring layers lie on neighbouring devices;
where it is a sequence of several stacks, such as an encoder and a decoder, each stack wants all
devices for itself. How many stacks there are is tried (our derivation).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.boxes.box import Box
from mcm_passes.families.box.search.units import Units

MOST_STACKS = 3


def device_speeds(work: Floats, times: Floats, kind_of: Ints) -> Floats:
    """`[D]`, how fast devices are at a whole step, as a share of the fastest.

    Args:
        work: `[N]`, time on the fastest device.
        times: `[N, K]`, infinite where a kind cannot run an op.
        kind_of: `[D]`.
    """
    known = np.where(np.isfinite(times), times, 10.0 * work[:, None] + 1e-6)
    sums = np.maximum(known.sum(axis=0), 1e-30)  # all are as fast where nothing takes time
    return (sums.min() / sums)[kind_of]


def fast_devices(speeds: Floats) -> Ints:
    """Devices that are at least half as fast as the fastest, ascending."""
    return np.flatnonzero(speeds >= 0.5 * speeds.max()).astype(np.int32)


def striped_starts(units: Units, depth: Floats, box: Box, speeds: Floats) -> Iterator[Ints]:
    """Devices `[U]` of starts: all on one device, and stripes over all fast ones.

    Args:
        units: clusters; one unit each.
        depth: `[U]`, where each begins.
        box: where.
        speeds: `[D]`, see `device_speeds`.
    """
    fast = fast_devices(speeds)
    yield np.full(units.count, fast[0], np.int32)
    if len(fast) < 2:
        return
    order = np.argsort(depth, kind="stable")
    sums = np.cumsum(units.work[order])
    middle = (sums - units.work[order] / 2) / max(float(sums[-1]), 1e-30)
    by_count = (np.arange(units.count) + 0.5) / units.count
    for share in (middle, by_count):
        for stacks in range(1, MOST_STACKS + 1):
            stripe = np.minimum(
                (share * stacks * len(fast)).astype(np.int64), stacks * len(fast) - 1
            )
            there_and_back = stripe % (2 * len(fast))
            back = there_and_back >= len(fast)
            there_and_back[back] = 2 * len(fast) - 1 - there_and_back[back]
            for chosen in (stripe % len(fast), there_and_back)[:stacks]:
                devices = np.empty(units.count, np.int32)
                devices[order] = fast[chosen]
                yield devices
