"""Receive and send buffers that tiles and classes of a chip share where it has too little memory.

Tensors of one size take the buffers of a queue in turn, in the order in which kernels read or write
them. A schedule of one period in which no buffer is ever short gives the length: with buffers that
are free before the schedule wants them, the queue costs no time, and nothing waits for itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.program import Queue, Transfer
from mcm_compiler.graph.rounds import has_siblings
from mcm_hardware.chip.chip_dataflow import ChipDataflow
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.memory.activation_plan import buffer_bytes

STEPS = 8
"""Lengths of queues that are tried."""

SLOWER = (1.0, 1.1, math.inf)
"""Times the period that queues may lead to, in the order in which they are tried."""


class BufferTimes(NamedTuple):
    """When buffers are wanted in a steady state in which none is short.

    Attributes:
        period_s: from one inference to the next.
        received_s: `[T]`, when each transfer takes its receive buffer.
        read_s: `[T]`, when its last reader there has ended.
        made_s: `[T]`, when the kernel starts that makes it.
        left_s: `[T]`, when it has left.
    """

    period_s: float
    received_s: Floats
    read_s: Floats
    made_s: Floats
    left_s: Floats


class _Held(NamedTuple):
    """A tensor in a receive or send buffer; they sort by kind, size and use.

    Attributes:
        kind: as in `Queue`.
        size_bytes: of the buffer.
        first: kernel that takes it.
        last: last kernel that reads it.
        transfers: that bring or send it.
        taken_s: when the buffer is taken.
        free_s: when it is free.
    """

    kind: Literal["receive", "send"]
    size_bytes: int
    first: int
    last: int
    transfers: tuple[int, ...]
    taken_s: float
    free_s: float


def plan_queues(
    flow: ChipDataflow,
    transfers: Sequence[Transfer],
    spec: ChipSpec,
    excess_bytes: int,
    times: BufferTimes,
) -> tuple[Queue, ...]:
    """The longest queues that save `excess_bytes`, or the shortest where none do.

    Args:
        flow: tensors of the chip, kernels in their final order.
        transfers: all transfers of the package.
        spec: the chip.
        excess_bytes: what the chip needs beyond what it has.
        times: when buffers are wanted; the first lengths keep to them, the next to longer periods,
            and the last only to the order of buffers within an inference.
    """
    alike = _alike(_held(flow, transfers, spec, times))
    groups = [(group, _own_buffers(group, transfers)) for group in alike]
    found: list[Queue] = []
    for slower in SLOWER:
        least = [_fewest(group, own, slower * times.period_s) for group, own in groups]
        for step in reversed(range(STEPS)):
            found, saved = [], 0
            for (group, own), fewest in zip(groups, least, strict=True):
                # The fewest at step 0, nearly all that the tensors have at the last one.
                buffers = fewest + (own - fewest) * step // STEPS
                if buffers < own:
                    kind, taken = group[0].kind, tuple(one.transfers for one in group)
                    found.append(Queue(kind, taken, buffers))
                    saved += (own - buffers) * group[0].size_bytes
            if saved >= excess_bytes:
                return tuple(found)
    return tuple(found)


def _alike(held: Iterable[_Held]) -> list[list[_Held]]:
    groups = groupby(sorted(held), lambda one: (one.kind, one.size_bytes))
    return [found for _, group in groups if len(found := [*group]) > 1]


def _own_buffers(held: Sequence[_Held], transfers: Sequence[Transfer]) -> int:
    return sum(max(transfers[index].slots for index in one.transfers) for one in held)


def _fewest(held: Sequence[_Held], own: int, period_s: float) -> int:
    return next((count for count in range(1, own) if _suffice(held, count, period_s)), own)


def _held(
    flow: ChipDataflow, transfers: Sequence[Transfer], spec: ChipSpec, times: BufferTimes
) -> Iterator[_Held]:
    for value, index in flow.arriving.items():
        size = buffer_bytes(spec, transfers[index].size_bytes)
        readers = flow.readers.get(value, ())
        stays = value in flow.leaving or value in flow.kept
        if size and readers and not stays and has_siblings(transfers[index].tensor):
            taken_s, free_s = float(times.received_s[index]), float(times.read_s[index])
            yield _Held("receive", size, readers[0], readers[-1], (index,), taken_s, free_s)
    for value, sent in flow.leaving.items():
        size = buffer_bytes(spec, spec.storage.value_bytes(value))
        if size and value in flow.writer and has_siblings(value.name or ""):
            writer = flow.writer[value]
            last = max(writer, *flow.readers.get(value, (writer,)))
            taken_s = float(times.made_s[sent[0]])
            free_s = max(float(times.left_s[index]) for index in sent)
            yield _Held("send", size, writer, last, sent, taken_s, free_s)


def _suffice(held: Sequence[_Held], buffers: int, period_s: float) -> bool:
    for place, taker in enumerate(held):
        back, holder = divmod(place - buffers, len(held))
        one = held[holder]
        if back == 0 and (one.last >= taker.first or one.free_s > taker.taken_s):
            return False
        if back < 0 and one.free_s + back * period_s > taker.taken_s:
            return False
    return True
