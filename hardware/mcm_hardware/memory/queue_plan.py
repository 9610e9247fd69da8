"""Receive and send buffers that tiles and classes of a chip share where it has too little memory.

Tensors of one size take the buffers of a queue in turn, in the order in which kernels read or write
them. A schedule of one period in which no buffer is ever short gives the length: with buffers that
are free before the schedule wants them, the queue costs no time, and nothing waits for itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
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


@dataclass(frozen=True)
class _Sharers:
    """Tensors of one kind and size, in the order in which kernels take their buffers.

    Attributes:
        held: the tensors.
        own: buffers that they have without a queue.
        least: buffers that suffice.
    """

    held: tuple[_Held, ...]
    own: int
    least: int

    def buffers(self, step: int) -> int:
        """Buffers of a queue: the fewest at step 0, nearly all that they have at the last one."""
        return self.least + (self.own - self.least) * step // STEPS


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
    held = sorted(_held(flow, transfers, spec, times))
    groups = [tuple(group) for _, group in groupby(held, lambda one: (one.kind, one.size_bytes))]
    shared: list[tuple[_Sharers, int]] = []
    for slower, step in product(SLOWER, reversed(range(STEPS))):
        period_s = slower * times.period_s
        sharers = [_sharers(group, transfers, period_s) for group in groups if len(group) > 1]
        shared = [(s, s.buffers(step)) for s in sharers if s.buffers(step) < s.own]
        if sum((s.own - buffers) * s.held[0].size_bytes for s, buffers in shared) >= excess_bytes:
            break
    return tuple(
        Queue(s.held[0].kind, tuple(one.transfers for one in s.held), buffers)
        for s, buffers in shared
    )


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


def _sharers(held: tuple[_Held, ...], transfers: Sequence[Transfer], period_s: float) -> _Sharers:
    own = sum(max(transfers[index].slots for index in one.transfers) for one in held)
    fits = (buffers for buffers in range(1, own) if _suffice(held, buffers, period_s))
    return _Sharers(held, own, next(fits, own))


def _suffice(held: Sequence[_Held], buffers: int, period_s: float) -> bool:
    for place, taker in enumerate(held):
        back, holder = divmod(place - buffers, len(held))
        one = held[holder]
        if back == 0 and (one.last >= taker.first or one.free_s > taker.taken_s):
            return False
        if back < 0 and one.free_s + back * period_s > taker.taken_s:
            return False
    return True
