"""From the memory that a chip needs to what it streams: the rule for weights that do not fit."""

from __future__ import annotations

from mcm_compiler.arrays.kernels import inlined_njit


@inlined_njit
def streamed_weights(
    needed: int, weights: int, largest: int, sram: int, streams: bool, buffers: int
) -> int:
    """How much of its weights a chip reads from off-package memory for every inference.

    What is streamed passes through buffers that hold the largest weight each, so that as much more
    has to go. All in bytes, or all in blocks.

    Args:
        needed: memory for all that the chip holds, weights included.
        weights: the part of it that weights take.
        largest: the largest weight.
        sram: what the chip has.
        streams: whether weights may be streamed at all.
        buffers: that streamed weights pass through.

    Returns:
        0 where all fits, and -1 where nothing helps.
    """
    over = needed - sram
    if over <= 0:
        return 0
    streamed = over + buffers * largest
    return streamed if streams and streamed <= weights else -1
