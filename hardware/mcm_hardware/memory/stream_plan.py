"""The streamed weights of one chip: their transfers, and the kernels that read them.

Where activations nearly fill a chip, buffers that stay leave no memory for weights. Then the
weights of each kernel have a buffer of their own, from the end of an earlier kernel that reads
streamed weights to the end of theirs. Each is in the lowest gap between activations and the
buffers before it, as early as there is one.

Inputs from the host may have such buffers too, to the end of their last reader. Those of later
classes of a round come while the class before ends. That of the first class comes once the
inference before has read all its weights.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.program import Transfer
from mcm_compiler.contracts.target import OFF_PACKAGE
from mcm_compiler.machines.machine import HOST
from mcm_hardware.chip.chip_dataflow import ChipDataflow
from mcm_hardware.chip.chip_spec import STREAM_BUFFERS, ChipSpec
from mcm_hardware.memory.activation_plan import ActivationPlan, buffer_bytes
from mcm_hardware.memory.offset_assignment import plan_offsets
from mcm_hardware.memory.weight_streaming import choose_streamed


class Turn(NamedTuple):
    """The stream buffer of one kernel or of an input, among the activations.

    Attributes:
        offset: bytes from where activations begin.
        size_bytes: its length.
        first: kernel from whose start the buffer is taken.
        last: kernel after whose end it is free.
        freed_by: turn of weights from whose end on it is filled; if negative, counted from behind
            the last one of the inference before.
    """

    offset: int
    size_bytes: int
    first: int
    last: int
    freed_by: int


@dataclass(frozen=True)
class WeightStream:
    """The weights of a chip that come from off-package memory in every inference.

    Attributes:
        weights: which.
        streamed_bytes: bytes per inference.
        read_by: weights that each kernel reads from its stream buffer, kernels ascending.
        buffers: stream buffers that stay.
        buffer_bytes: bytes of each.
        turns: where none stays, the buffer of each kernel in `read_by`.
        inputs: buffers of inputs that lie among the activations too, by their transfers.
    """

    weights: tuple[ir.Value, ...]
    streamed_bytes: int
    read_by: Mapping[int, tuple[ir.Value, ...]]
    buffers: int = 0
    buffer_bytes: int = 0
    turns: tuple[Turn, ...] = ()
    inputs: Mapping[int, Turn] = field(default_factory=dict[int, Turn])


def may_stream(flow: ChipDataflow) -> list[tuple[int, ...]]:
    """Kernels that read each weight; none for those that leave the chip, and stay."""
    return [
        () if value in flow.leaving or value in flow.kept else flow.readers.get(value, ())
        for value in flow.weights
    ]


def stream_of(
    flow: ChipDataflow, spec: ChipSpec, users: Sequence[Sequence[int]], streamed: Sequence[int]
) -> WeightStream:
    """The weights of these indices as streamed ones, without buffers."""
    read_by: dict[int, list[ir.Value]] = {}
    for index in streamed:
        for kernel in users[index]:
            read_by.setdefault(kernel, []).append(flow.weights[index])
    return WeightStream(
        weights=tuple(flow.weights[index] for index in streamed),
        streamed_bytes=sum(
            spec.storage.value_bytes(flow.weights[index]) * len(users[index]) for index in streamed
        ),
        read_by={kernel: tuple(read_by[kernel]) for kernel in sorted(read_by)},
    )


def plan_stream(flow: ChipDataflow, spec: ChipSpec, excess_bytes: int) -> WeightStream | None:
    """The weights to stream so that a chip fits.

    With two stream buffers where that suffices, so that the weights of the next kernel come while
    one runs; else with one.

    Args:
        flow: tensors of the chip, kernels in their final order.
        spec: the chip.
        excess_bytes: what the chip needs beyond what it has, with all weights resident.

    Returns:
        The plan, or None where the chip does not fit in this way either.
    """
    users = may_stream(flow)
    sizes = [spec.storage.value_bytes(value) for value in flow.weights]
    for buffers in range(STREAM_BUFFERS, 0, -1):
        chosen, room = choose_streamed(
            np.array([buffer_bytes(spec, size) for size in sizes], np.int64),
            np.array([0, *accumulate(map(len, users))], np.int64),
            np.array([*chain.from_iterable(users)], np.int64),
            len(flow.kernels),
            buffers,
            excess_bytes,
        )
        if streamed := np.flatnonzero(chosen).tolist():
            found = stream_of(flow, spec, users, streamed)
            return replace(found, buffers=buffers, buffer_bytes=int(room))
    return None


def stream_transfers(
    stream: WeightStream, chip: int, spec: ChipSpec, transfers: list[Transfer]
) -> dict[int, tuple[int, ...]]:
    """Adds the transfers of streamed weights.

    Each fills the stream buffer of the kernel that had the buffer before, which is in the
    inference before for the first ones. So do inputs that have such a buffer.

    Args:
        stream: what to stream.
        chip: the chip.
        spec: its numbers.
        transfers: all transfers of the package so far.

    Returns:
        The indices that each kernel reads.
    """
    reads: dict[int, tuple[int, ...]] = {}
    end = len(transfers)
    for kernel, weights in stream.read_by.items():
        reads[kernel] = tuple(range(end, end + len(weights)))
        end += len(weights)
    first = [read[0] for read in reads.values()]
    for turn, kernel in enumerate(reads):
        before = stream.turns[turn].freed_by if stream.turns else turn - stream.buffers
        for weight in stream.read_by[kernel]:
            name, size = weight.name or "", spec.storage.value_bytes(weight)
            transfers.append(Transfer(name, OFF_PACKAGE, chip, size, 1, reuses=first[before]))
    for index, turn in stream.inputs.items():
        freed_by, lag = first[turn.freed_by], int(turn.freed_by < 0)
        transfers[index] = replace(transfers[index], reuses=freed_by, lag=lag)
    return reads


RESIDENT = (0.5, 0.2, 0.05, 0.0)
"""Shares of the memory that resident weights may take at most, as far as these are tried."""

LEAST_GAIN = 0.002
"""Share of the time that must be gained by fewer resident weights, which are read again for every
kernel, and by inputs that come later."""


class StreamPace(NamedTuple):
    """Times that the time of a plan follows from.

    Attributes:
        seconds: `[K]`, of each kernel.
        byte_s: seconds between bytes of streamed weights.
        way_s: seconds of such a byte on its way.
        input_s: seconds of a byte of an input on its way, behind those of all other chips.
    """

    seconds: Sequence[float]
    byte_s: float
    way_s: float
    input_s: float


class TurnPlan(NamedTuple):
    """Streamed weights with their turns, and the activations next to them."""

    stream: WeightStream
    activations: ActivationPlan
    seconds: float


class _Held(NamedTuple):
    """Memory from `begin` to `end` that is taken from kernel `first` to `last`."""

    begin: int
    end: int
    first: int
    last: int


class _Input(NamedTuple):
    """An input from the host: its transfer, the bytes of a buffer, first and last reader."""

    transfer: int
    size: int
    slots: int
    first: int
    last: int


def plan_turns(
    flow: ChipDataflow,
    transfers: Sequence[Transfer],
    spec: ChipSpec,
    fixed_bytes: int,
    activations: ActivationPlan,
    pace: StreamPace,
) -> TurnPlan | None:
    """Plans what is streamed, from when, and what is resident, for little time.

    Weights with the most readers are resident first. How many are is decided by the time that the
    chip takes.

    Args:
        flow: tensors of the chip, kernels in their final order.
        transfers: all transfers of the package.
        spec: the chip.
        fixed_bytes: all that is no weight and no activation.
        activations: as planned without streams.
        pace: times of kernels and of streamed bytes.

    Returns:
        The plan; None where the chip does not fit.
    """
    users = may_stream(flow)
    sizes = [buffer_bytes(spec, spec.storage.value_bytes(value)) for value in flow.weights]
    ranked = sorted(
        (w for w in range(len(sizes)) if users[w]), key=lambda w: (-len(users[w]), sizes[w])
    )
    inputs = [*_inputs(flow, transfers, spec)]
    taken = np.cumsum([sizes[w] for w in ranked])
    best: TurnPlan | None = None
    for resident in dict.fromkeys(
        int(np.searchsorted(taken, share * spec.sram_bytes, "right")) for share in RESIDENT
    ):
        chosen = ranked[resident:]
        room = spec.sram_bytes - fixed_bytes - sum(sizes) + sum(sizes[w] for w in chosen)
        stream = stream_of(flow, spec, users, chosen)
        for among in (inputs[:0], inputs) if chosen else ():
            found = _planned(stream, among, room, spec, activations, pace)
            if found and (best is None or found.seconds < best.seconds * (1.0 - LEAST_GAIN)):
                best = found
    return best


def _inputs(flow: ChipDataflow, transfers: Sequence[Transfer], spec: ChipSpec) -> Iterator[_Input]:
    for value, index in flow.arriving.items():
        one, readers = transfers[index], flow.readers.get(value, ())
        stays = value in flow.leaving or value in flow.kept
        if one.source == HOST and one.size_bytes and readers and not stays:
            size = buffer_bytes(spec, one.size_bytes)
            yield _Input(index, size, one.slots, readers[0], readers[-1])


def _planned(
    stream: WeightStream,
    inputs: Sequence[_Input],
    room: int,
    spec: ChipSpec,
    activations: ActivationPlan,
    pace: StreamPace,
) -> TurnPlan | None:
    size = [
        sum(buffer_bytes(spec, spec.storage.value_bytes(value)) for value in read)
        for read in stream.read_by.values()
    ]
    kernels = [*stream.read_by]
    inputs = [one for one in inputs if one.last <= kernels[-1]]
    room += sum(one.size * one.slots for one in inputs)
    freed_by = [_freed_by(kernels, one, pace) for one in inputs]
    own = [one.size for one in inputs], _firsts(kernels, freed_by), [one.last for one in inputs]
    lives = zip((activations.size, activations.first, activations.last), own, strict=True)
    sizes, first, last = (np.append(known, np.array(more, np.int64)) for known, more in lives)
    offset, count = activations.offset, len(activations.values)
    if inputs:
        # Inputs of the next inference may come once all weights are read: what is held then has its
        # memory alone.
        offset, _ = plan_offsets(sizes, np.where(last > kernels[-1], 0, first), last, 0)
    held = [*map(_Held, offset.tolist(), (offset + sizes).tolist(), first.tolist(), last.tolist())]
    if (found := _in_turn(kernels, size, held, room)) is None:
        return None
    above, turns_by = found
    turns = map(Turn, above, size, _firsts(kernels, turns_by), kernels, turns_by)
    received = map(Turn, offset[count:].tolist(), *own, freed_by)
    stream = replace(
        stream,
        turns=tuple(turns),
        inputs=dict(zip((one.transfer for one in inputs), received, strict=True)),
    )
    high_water = max(*(one.end for one in held), *map(sum, zip(above, size, strict=True)))
    beside = replace(activations, offset=offset[:count], high_water_bytes=high_water)
    first_s = max((one.size * pace.input_s for one in inputs), default=0.0)
    return TurnPlan(stream, beside, first_s + _seconds(kernels, size, turns_by, pace))


def _firsts(kernels: Sequence[int], freed_by: Sequence[int]) -> list[int]:
    """The first kernels of buffers that these turns free."""
    return [kernels[turn] + 1 if turn >= 0 else 0 for turn in freed_by]


def _in_turn(
    kernels: Sequence[int], size: Sequence[int], held: Sequence[_Held], room: int
) -> tuple[list[int], list[int]] | None:
    """Offsets of buffers next to what is held, and the turns that free them, -1 for none.

    Each is in the lowest gap as soon as there is one. None where one does not fit.
    """
    begins, freed_by, freed = list[int](), list[int](), -1
    tail = [(one.begin, one.end) for one in held if one.last > kernels[-1]]
    coming = sorted(held, key=lambda one: -one.first)
    live: list[_Held] = []
    for turn, taken in enumerate(size):
        while coming and coming[-1].first <= kernels[turn]:
            live.append(coming.pop())
        while True:
            since = kernels[freed] + 1 if freed >= 0 else 0
            live = [one for one in live if one.last >= since]
            own = zip(begins[freed + 1 :], size[freed + 1 : turn], strict=True)
            full = [(one.begin, one.end) for one in live] + [(low, low + n) for low, n in own]
            begin = 0
            for low, high in sorted(full + (tail if freed < 0 else [])):
                if low - begin >= taken:
                    break
                begin = max(begin, high)
            if begin + taken <= room:
                break
            freed += 1
            if freed == turn:
                return None
        begins.append(begin)
        freed_by.append(freed)
    return begins, freed_by


def _freed_by(kernels: Sequence[int], one: _Input, pace: StreamPace) -> int:
    """The last turn from whose end on an input is there in time, -1 for that of the one before."""
    turn, needs_s = bisect_left(kernels, one.first) - 1, one.size * pace.input_s
    while turn >= 0 and sum(pace.seconds[kernels[turn] + 1 : one.first]) < needs_s:
        turn -= 1
    return turn


def _seconds(
    kernels: Sequence[int], size: Sequence[int], freed_by: Sequence[int], pace: StreamPace
) -> float:
    """Time from the first to the last kernel, with one read after the other."""
    ends = np.zeros(len(pace.seconds) + 1)
    free = at = 0.0
    turn = 0
    for kernel, seconds in enumerate(pace.seconds):
        if turn < len(kernels) and kernels[turn] == kernel:
            before = ends[kernels[freed_by[turn]]] if freed_by[turn] >= 0 else 0.0
            begin = max(free, before)
            free = begin + size[turn] * pace.byte_s
            at = max(at, begin + size[turn] * pace.way_s)
            turn += 1
        at += seconds
        ends[kernel] = at
    return at
