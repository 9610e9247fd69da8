"""The memory plan of one chip: a buffer with an address for everything that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mcm_compiler.program import Buffer, BufferKind, MemoryOverflow, Transfer
from mcm_hardware.chip_dataflow import ChipDataflow
from mcm_hardware.chip_spec import ChipSpec
from mcm_hardware.offset_assignment import assign_offsets

LARGEST_SHOWN = 5
"""Buffers that an overflow names."""


@dataclass(frozen=True)
class MemoryPlan:
    """SRAM of one chip.

    Attributes:
        buffers: weights, receive and send buffers from the bottom, then activations.
        high_water_bytes: end of the highest buffer.
        weight_bytes: bytes of weights, alignment included.
    """

    buffers: tuple[Buffer, ...]
    high_water_bytes: int
    weight_bytes: int


def plan_memory(
    flow: ChipDataflow, transfers: Sequence[Transfer], spec: ChipSpec, slots: int
) -> MemoryPlan:
    """Gives every buffer of a chip its address.

    - Weights stay all the time, each once.
    - A tensor that arrives has `slots` receive buffers, one that leaves has `slots` send buffers:
      the next inference writes into one while the last is sent from the other. They stay all the
      time too, because neighbours are at other inferences.
    - Other activations live from the kernel that writes them to the last that reads them. What
      passes within a kernel stays in registers, and views take nothing.

    Args:
        flow: tensors of the chip.
        transfers: all transfers of the package.
        spec: the chip.
        slots: send buffers per tensor that leaves.
    """
    end = max(len(flow.kernels) - 1, 0)

    def aligned(size_bytes: int) -> int:
        return -(-size_bytes // spec.alignment_bytes) * spec.alignment_bytes

    fixed: list[tuple[str, BufferKind, int]] = [
        (value.name or "", "weight", aligned(spec.storage.value_bytes(value)))
        for value in flow.weights
    ]
    for index in flow.arriving.values():
        transfer = transfers[index]
        fixed += _slots(transfer.tensor, "receive", aligned(transfer.size_bytes), transfer.slots)
    for value in flow.leaving:
        if value in flow.writer:
            size = aligned(spec.storage.value_bytes(value))
            fixed += _slots(value.name or "", "send", size, slots)
    buffers: list[Buffer] = []
    top = 0
    for name, kind, size in fixed:
        if size > 0:
            buffers.append(Buffer(name, kind, top, size, 0, end))
            top += size
    lives = _lifetimes(flow, end)
    sizes = np.array([aligned(spec.storage.value_bytes(value)) for value, _, _ in lives], np.int64)
    first = np.array([start for _, start, _ in lives], np.int64)
    last = np.array([stop for _, _, stop in lives], np.int64)
    offsets = assign_offsets(sizes, first, last, top)
    buffers += [
        Buffer(value.name or "", "activation", int(offset), int(size), start, stop)
        for (value, start, stop), offset, size in zip(lives, offsets, sizes, strict=True)
        if size > 0
    ]
    return MemoryPlan(
        buffers=tuple(buffers),
        high_water_bytes=max((b.address + b.size_bytes for b in buffers), default=0),
        weight_bytes=sum(b.size_bytes for b in buffers if b.kind == "weight"),
    )


def overflow_of(plan: MemoryPlan, chip: int, limit_bytes: int) -> MemoryOverflow | None:
    """The dynamic constraint H(G, f) of MCM, equation 5, for one chip; None where it holds."""
    if plan.high_water_bytes <= limit_bytes:
        return None
    largest = sorted(plan.buffers, key=lambda b: (-b.size_bytes, b.address))[:LARGEST_SHOWN]
    return MemoryOverflow(
        chip=chip,
        demand_bytes=plan.high_water_bytes,
        limit_bytes=limit_bytes,
        largest=tuple((b.name, b.size_bytes) for b in largest),
    )


def _slots(
    name: str, kind: BufferKind, size_bytes: int, slots: int
) -> list[tuple[str, BufferKind, int]]:
    return [(f"{name}[{slot}]", kind, size_bytes) for slot in range(slots)]


def _lifetimes(flow: ChipDataflow, end: int) -> list[tuple[ir.Value, int, int]]:
    """`(value, first, last)` of activations that need SRAM, in order of writing."""
    lives: list[tuple[ir.Value, int, int]] = []
    for value, start in flow.writer.items():
        if value in flow.leaving:
            continue
        readers = flow.readers.get(value, ())
        if value in flow.kept:
            lives.append((value, start, end))
        elif not readers or readers[-1] > start:
            lives.append((value, start, readers[-1] if readers else start))
    return lives
