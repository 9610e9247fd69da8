"""The contract of lowering: what each chip executes, with times, addresses and transfers.

A simulator runs a `LoweredProgram`, never a graph. It is plain data with a JSON form
(`program.json` in the output folder), so a compiled folder can be simulated without its model. The
types of its numbers are the ranges that a reader of such a file holds them to; whether they make
sense as a program is for the simulator to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mcm_compiler.graph.annotations import AnnotationKey
from mcm_compiler.machines.choices import MOST_SEQUENCES
from mcm_compiler.text.bounded_numbers import MAX_INDEX, Endpoint, Place, Size, Whole

MAX_SECONDS = 1e6
"""Longer kernels than eleven days come from no compile."""

KernelSeconds = Annotated[float, Meta(ge=-MAX_SECONDS, le=MAX_SECONDS)]

Slots = Annotated[int, Meta(ge=-MAX_INDEX - 1, le=MAX_INDEX)]

BufferKind = Literal["weight", "activation", "receive", "send", "stream", "state"]


@dataclass(frozen=True)
class Kernel:
    """One launch on a chip's compute engine: an op, or a fused group.

    Attributes:
        name: the op's or group's name.
        nodes: names of the ONNX nodes that it computes, in order.
        duration_s: time on the engine, launch overhead included.
        reads: indices into `LoweredProgram.transfers` that must have arrived.
        writes: indices into `LoweredProgram.transfers` that it makes ready to send.
        engine: what sets its pace: `array`, `vector`, `memory`, `none`, or `host` where
            the chip waits for a round trip to the host.
        launch_s: the part of `duration_s` that is launch overhead.
        latency_s: time from when the engine is free for the next inference until what the kernel
            writes is there: of a chip that is a pipeline itself, and works on several inferences
            at once. No kernel of the chip comes behind such a one.
    """

    name: str
    nodes: tuple[str, ...]
    duration_s: KernelSeconds
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
    engine: str = "none"
    launch_s: KernelSeconds = 0.0
    latency_s: KernelSeconds = 0.0


@dataclass(frozen=True)
class Buffer:
    """A range of a chip's SRAM and the kernels during which it is taken.

    Attributes:
        name: tensor name, with the slot if a channel has several.
        kind: weights and channel buffers are taken all the time, activations from `first` to
            `last`. `stream` buffers hold weights that come from off-package memory every time; a
            `state` buffer holds the state of every sequence in flight for its next inference.
        address: offset in SRAM, bytes.
        size_bytes: length, alignment included.
        first: index of the kernel from whose start the buffer is taken.
        last: index of the kernel after whose end it is free.
    """

    name: str
    kind: BufferKind
    address: Size
    size_bytes: Size
    first: Place
    last: Place


@dataclass(frozen=True)
class Transfer:
    """One tensor on its way, once per inference and receiving chip.

    Attributes:
        tensor: its name.
        source: sending chip, -1 for the host, -2 for off-package memory (streamed weights).
        destination: receiving chip, or -1 for the host.
        size_bytes: bytes on the wire.
        slots: receive buffers at the destination; the sender waits while all are full. The
            kernel that makes the tensor has as many send buffers.
        after: index of the transfer that this one passes on from the receive buffer of its
            `source`, or -1 where a kernel made the tensor.
        reuses: index of the transfer whose receive buffer this one fills as soon as its last
            reader has ended, or -1 where it has `slots` buffers of its own. If that transfer does
            not come before this one, the buffer is that of the inference before.
    """

    tensor: str
    source: Endpoint
    destination: Endpoint
    size_bytes: Whole
    slots: Slots
    after: Place = -1
    reuses: Place = -1


@dataclass(frozen=True)
class ChipProgram:
    """Program of one chip for one inference.

    Attributes:
        chip: index on the ring.
        kernels: in execution order.
        buffers: the memory plan; no two that are taken at once overlap.
        high_water_bytes: end of the highest buffer, that is, the SRAM that the plan needs.
        weight_bytes: SRAM held by weights.
        state_bytes: SRAM that the states of each further sequence in flight take.
    """

    chip: Endpoint
    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...]
    high_water_bytes: Size
    weight_bytes: Size
    state_bytes: Size = 0


@dataclass(frozen=True)
class Lever:
    """A change by which a chip would need less SRAM.

    Attributes:
        action: what to do, in words with numbers; names of the model in it are quoted.
        frees_bytes: by how much less.
    """

    action: str
    frees_bytes: Whole


@dataclass(frozen=True)
class MemoryOverflow:
    """A chip whose program does not fit.

    Attributes:
        chip: which one.
        demand_bytes: SRAM that its plan needs.
        limit_bytes: SRAM that it has.
        largest: its largest buffers, `(name, bytes)`, descending, at most five.
        weight_bytes: the part of the demand that weights take.
        channel_bytes: the part that receive and send buffers take.
        activation_bytes: the part that activations take, the gaps between them included.
        levers: changes that make it fit each on its own; where there is none, those that help.
        state_bytes: the part that states of sequences in flight take.
    """

    chip: Endpoint
    demand_bytes: Size
    limit_bytes: Size
    largest: tuple[tuple[str, Size], ...]
    weight_bytes: Whole = 0
    channel_bytes: Whole = 0
    activation_bytes: Whole = 0
    levers: tuple[Lever, ...] = ()
    state_bytes: Whole = 0


@dataclass(frozen=True)
class LoweredProgram:
    """The programs of all used chips.

    Attributes:
        target: name of the package.
        chips: one program per used chip, ascending.
        transfers: all transfers; kernels refer to them by index.
        overflows: chips that need more SRAM than they have; empty where everything fits.
        sequences: N sequences in flight, if chips hold states: an inference starts once the one N
            before it has ended, which is the previous step of its sequence. 0 if inferences are
            independent.
    """

    target: str
    chips: tuple[ChipProgram, ...]
    transfers: tuple[Transfer, ...]
    overflows: tuple[MemoryOverflow, ...] = ()
    sequences: Annotated[int, Meta(ge=0, le=MOST_SEQUENCES)] = 0

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; of kernels whose results are there at once it says nothing more."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        for chip in data["chips"]:
            for kernel in chip["kernels"]:
                if kernel["latency_s"] == 0:
                    del kernel["latency_s"]
        return data


PROGRAM: AnnotationKey[LoweredProgram] = AnnotationKey(
    "lowered_program", derived_from=("chip_models", "wires")
)
"""The lowered program of the model."""
