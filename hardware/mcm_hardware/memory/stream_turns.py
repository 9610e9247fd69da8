"""Streamed weights in memory that activations leave free.

Where activations nearly fill a chip, buffers that stay leave no memory for weights. Then the
weights of each kernel have a buffer of their own, from the end of an earlier kernel that reads
streamed weights to the end of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.types import Longs
from mcm_hardware.chip.chip_dataflow import ChipDataflow
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.memory.activation_plan import ActivationPlan, buffer_bytes, live_bytes
from mcm_hardware.memory.offset_assignment import plan_offsets
from mcm_hardware.memory.stream_plan import Turn, WeightStream, may_stream, stream_of

MOST_AHEAD = 8
"""Turns before that of a kernel from whose end its weights may be on the way."""

SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.0)
"""Shares of the memory up to which turns may begin early; the rest is for gaps."""

RESIDENT = (0.5, 0.2, 0.05, 0.0)
"""Shares of the memory that resident weights may take at most, as far as these are tried."""

LEAST_GAIN = 0.002
"""Share of the time that fewer resident weights must gain: each is read again for every kernel."""


class StreamPace(NamedTuple):
    """Times that the time of a plan follows from.

    Attributes:
        seconds: `[K]`, of each kernel.
        byte_s: seconds between bytes of streamed weights.
        way_s: seconds of a byte on its way.
    """

    seconds: Sequence[float]
    byte_s: float
    way_s: float


class TurnPlan(NamedTuple):
    """Streamed weights with their turns, and the activations next to them."""

    stream: WeightStream
    activations: ActivationPlan
    seconds: float


class _Turns(NamedTuple):
    """The kernels that read streamed weights, ascending.

    Attributes:
        kernels: `[T]`.
        size: `[T]`, bytes of the buffer of each.
        last_kernel: of the chip.
    """

    kernels: Sequence[int]
    size: Sequence[int]
    last_kernel: int

    def own_lives(self, ahead: Sequence[int]) -> tuple[list[int], list[int]]:
        """First and last kernel of each buffer; the first one's weights come before, and stay."""
        first = [self.kernels[turn - by] + 1 for turn, by in enumerate(ahead)]
        return [0, *first[1:]], [self.last_kernel, *self.kernels[1:]]

    def lives(
        self, ahead: Sequence[int], activations: ActivationPlan
    ) -> tuple[Longs, Longs, Longs]:
        """Sizes, first and last kernels of activations, then of the buffers."""
        held = activations.size, activations.first, activations.last
        own = self.size, *self.own_lives(ahead)
        size, first, last = map(np.concatenate, zip(held, map(np.array, own), strict=True))
        return size, first, last


def plan_turns(
    flow: ChipDataflow,
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

    taken = np.cumsum([sizes[w] for w in ranked])
    best: TurnPlan | None = None
    for resident in dict.fromkeys(
        int(np.searchsorted(taken, share * spec.sram_bytes, "right")) for share in RESIDENT
    ):
        chosen = ranked[resident:]
        room = spec.sram_bytes - fixed_bytes - sum(sizes) + sum(sizes[w] for w in chosen)
        stream = stream_of(flow, spec, users, chosen)
        found = _planned(stream, room, spec, activations, pace) if chosen else None
        if found is None:
            continue
        if best is None or found.seconds < best.seconds * (1.0 - LEAST_GAIN):
            best = found
    return best


def _planned(
    stream: WeightStream,
    room: int,
    spec: ChipSpec,
    activations: ActivationPlan,
    pace: StreamPace,
) -> TurnPlan | None:
    size = [
        sum(buffer_bytes(spec, spec.storage.value_bytes(value)) for value in read)
        for read in stream.read_by.values()
    ]
    turns = _Turns([*stream.read_by], size, len(pace.seconds) - 1)
    count = len(activations.values)
    for share in SHARES:
        ahead = _ahead(turns, activations, int(share * room))
        offset, high_water = plan_offsets(*turns.lives(ahead, activations), 0)
        if high_water <= room:
            first, last = turns.own_lives(ahead)
            placed = tuple(map(Turn, offset[count:].tolist(), size, first, last, ahead))
            beside = replace(activations, offset=offset[:count], high_water_bytes=int(high_water))
            seconds = _seconds(turns, ahead, pace)
            return TurnPlan(replace(stream, turns=placed), beside, seconds)
    return None


def _ahead(turns: _Turns, activations: ActivationPlan, most: int) -> list[int]:
    """Turns before each from whose end it is on its way, with at most `most` bytes live."""
    ahead = [1] * len(turns.kernels)
    live = live_bytes(*turns.lives(ahead, activations), turns.last_kernel + 1)
    # All begin one turn earlier before any begins two.
    for by in range(2, MOST_AHEAD + 1):
        for turn in range(by, len(ahead)):
            begin, early = turns.kernels[turn - by + 1] + 1, turns.kernels[turn - by] + 1
            full = (live[early:begin] + turns.size[turn] > most).any()
            if ahead[turn] == by - 1 and not full:
                live[early:begin] += turns.size[turn]
                ahead[turn] = by
    return ahead


def _seconds(turns: _Turns, ahead: Sequence[int], pace: StreamPace) -> float:
    """Time from the first to the last kernel, with one read after the other."""
    ends = np.zeros(len(pace.seconds) + 1)
    free = at = 0.0
    turn = 0
    for kernel, seconds in enumerate(pace.seconds):
        if turn < len(turns.kernels) and turns.kernels[turn] == kernel:
            before = ends[turns.kernels[turn - ahead[turn]]] if turn else 0.0
            begin, size = max(free, before), turns.size[turn]
            free = begin + size * pace.byte_s
            at = max(at, begin + size * pace.way_s)
            turn += 1
        at += seconds
        ends[kernel] = at
    return at
