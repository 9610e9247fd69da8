"""Which blocks of memory a placement makes, and who needs each of them; compiled."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, lean_inner_njit
from mcm_compiler.arrays.types import Ints, Longs
from mcm_hardware.families.box.step_arrays import Scratch, StepArrays

FOREVER = np.int32(1 << 30)
"""References of a block that is never freed."""


@lean_inner_njit
def lay_out(step: StepArrays, place: Ints, room: Scratch, held: Longs) -> None:
    """Numbers the copies and blocks of a placement, and counts who needs each block.

    Args:
        step: the problem and the box.
        place: `[N]`.
        room: written: blocks, references, copies and what waits for channels.
        held: `[D]`, written: bytes in memory from the beginning.
    """
    values, devices = len(step.producer), len(held)
    block_at = room.block_at
    block_at[:] = -1
    room.channels[:] = 0
    held[:] = 0
    for v in range(values):
        if step.producer[v] < 0:
            _lie_ready(step, place, room.read_block, v, block_at, held)
    copies = 0
    for i in range(len(step.made)):
        v = step.made[i]
        home = place[step.producer[v]]
        block = v if step.view_read[v] < 0 else room.read_block[step.view_read[v]]
        room.block[v] = block
        if block == v:
            room.references[v] = 0
        if step.begins[v]:
            held[home] += step.value_bytes[v]
        room.copy_begin[i] = copies
        needs = 1 + (FOREVER if step.held[v] else 0)
        block_at[home] = block
        for r in range(step.reader_begin[v], step.reader_begin[v + 1]):
            d = place[step.readers[r]]
            if d == home:
                needs += 1
            elif block_at[d] < 0:
                block_at[d] = values + copies
                room.copy_value[copies], room.copy_to[copies] = v, d
                room.references[values + copies] = 1
                copies += 1
            else:
                room.references[block_at[d]] += 1
            room.read_block[step.reader_read[r]] = block_at[d]
        block_at[home] = -1
        for c in range(room.copy_begin[i], copies):
            block_at[room.copy_to[c]] = -1
        moved = copies - room.copy_begin[i]
        room.channels[0, home] += moved
        # Of several that are held, the block of views would count beyond 32 bits.
        if block >= 0 and room.references[block] < FOREVER:
            room.references[block] += needs + moved
    room.copy_begin[len(step.made)] = copies
    total = 0
    for d in range(devices):
        leaving = room.channels[0, d]
        room.channels[0, d] = room.channels[1, d] = total
        total += leaving


@inlined_njit
def _lie_ready(
    step: StepArrays, place: Ints, read_block: Ints, v: int, seen: Ints, held: Longs
) -> None:
    """Takes memory for a weight on each device that reads it; leaves `seen` as it was, at -1."""
    for r in range(step.reader_begin[v], step.reader_begin[v + 1]):
        d = place[step.readers[r]]
        read_block[step.reader_read[r]] = -1
        if seen[d] < 0:
            seen[d] = 0
            held[d] += step.value_bytes[v]
    for r in range(step.reader_begin[v], step.reader_begin[v + 1]):
        seen[place[step.readers[r]]] = -1
