"""Which weights of a chip that is too full come from off-package memory in every inference.

A kernel's streamed weights are together in one of a few stream buffers. The kernels that have any
take these by turns, so that the weights of the next ones come while one runs. A weight that several
kernels read comes once for each of them. To keep it from the first to the last would hold a stream
buffer for long, and may block the kernels between them, or is the same as not to stream it.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.types import Bools, Longs
from mcm_hardware.compiled.stable_order import ascending

SIZES_TRIED = 64
"""Most sizes of the stream buffers that are tried."""


@entry_njit
def choose_streamed(
    size: Longs, user_ptr: Longs, users: Longs, num_kernels: int, buffers: int, excess: int
) -> tuple[Bools, int]:
    """The weights to stream so that a chip fits, with few bytes per inference.

    For each size of the stream buffers, weights with the fewest readers come first, the largest of
    them first, and in the end the smallest that suffices. Those of one kernel must fit into a
    buffer. Of all sizes the one with the fewest streamed bytes is taken, and the smallest of
    those. A heuristic; the problem contains the knapsack problem.

    Args:
        size: `[W]`, bytes of each weight, alignment included.
        user_ptr: `[W + 1]`, readers of weight w are `users[user_ptr[w]:user_ptr[w + 1]]`; one
            without readers is not streamed.
        users: `[U]`, kernels, distinct for each weight.
        num_kernels: of the chip.
        buffers: stream buffers.
        excess: bytes that the chip needs beyond what it has, with all weights resident.

    Returns:
        `[W]` whether each is streamed, and the bytes of one stream buffer; no weight and 0 where
        the chip does not fit in this way either.
    """
    count = len(size)
    uses = user_ptr[1:] - user_ptr[:-1]
    order = ascending(ascending(np.arange(count), -size), uses)
    in_kernel = np.zeros(num_kernels, np.int64)
    for weight in range(count):
        for at in range(user_ptr[weight], user_ptr[weight + 1]):
            in_kernel[users[at]] += size[weight]
    limits = np.concatenate((size, in_kernel))
    limits = limits[ascending(np.arange(len(limits)), limits)]
    distinct = 0
    for at in range(len(limits)):
        if limits[at] > 0 and (distinct == 0 or limits[at] > limits[distinct - 1]):
            limits[distinct] = limits[at]
            distinct += 1
    tries = min(distinct, SIZES_TRIED)
    chosen = np.zeros(count, np.bool_)
    buffer_bytes, fewest = 0, -1
    for attempt in range(tries):
        limit = limits[(attempt + 1) * distinct // tries - 1]
        picked, largest, streamed = _fill(
            size, user_ptr, users, uses, order, num_kernels, limit, excess + buffers * limit
        )
        if streamed >= 0 and (fewest < 0 or streamed < fewest):
            chosen, buffer_bytes, fewest = picked, largest, streamed
    return chosen, buffer_bytes


@inner_njit
def _fill(
    size: Longs,
    user_ptr: Longs,
    users: Longs,
    uses: Longs,
    order: Longs,
    num_kernels: int,
    limit: int,
    missing: int,
) -> tuple[Bools, int, int]:
    """Weights that free `missing` bytes, at most `limit` of one kernel.

    Returns:
        Which, the most of one kernel, and the bytes per inference, -1 where they do not suffice.
    """
    picked = np.zeros(len(size), np.bool_)
    in_kernel = np.zeros(num_kernels, np.int64)
    largest, streamed = 0, 0
    suffices = -1
    for weight in order:
        fits = uses[weight] > 0
        for at in range(user_ptr[weight], user_ptr[weight + 1]):
            fits = fits and in_kernel[users[at]] + size[weight] <= limit
        if not fits:
            continue
        if suffices >= 0 and (size[weight] < missing or uses[weight] != uses[suffices]):
            break
        if size[weight] >= missing:
            if suffices < 0 or size[weight] < size[suffices]:
                suffices = weight
            continue
        picked[weight] = True
        missing -= int(size[weight])
        streamed += int(size[weight] * uses[weight])
        for at in range(user_ptr[weight], user_ptr[weight + 1]):
            in_kernel[users[at]] += size[weight]
            largest = max(largest, int(in_kernel[users[at]]))
    if suffices < 0:
        return picked, 0, -1
    picked[suffices] = True
    streamed += int(size[suffices] * uses[suffices])
    for at in range(user_ptr[suffices], user_ptr[suffices + 1]):
        largest = max(largest, int(in_kernel[users[at]] + size[suffices]))
    return picked, largest, streamed
