"""The contracts of lowered programs and of simulation results.

A simulator runs a `LoweredProgram`, never a graph. It is plain data with a JSON form
(`program.json` in the output folder), so a compiled folder can be simulated without its model. The
types of its numbers are the ranges that a reader of such a file holds them to; whether they make
sense as a program is for the simulator to say.

A simulator is kept apart from the cost model, or search would optimise its own referee.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta

from mcm_compiler.arrays.types import Floats
from mcm_compiler.graph.annotations import AnnotationKey
from mcm_compiler.machines.choices import MOST_SEQUENCES
from mcm_compiler.text.json_text import MAX_INDEX, Amount, Endpoint, Place, Size, Whole

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
            `last`. `stream` buffers hold what comes from outside every time, and may be taken from
            `first` to `last` alone: weights from off-package memory, inputs of chips that have
            such weights. A `state` buffer holds the state of every sequence in flight for its next
            inference.
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
            kernel that makes the tensor has as many send buffers. A `Queue` takes their place.
        after: index of the transfer that this one passes on from the receive buffer of its
            `source`, or -1 where a kernel made the tensor. Of streamed weights, the transfer
            whose read over the channel that all chips share this one shares.
        reuses: index of the transfer whose receive buffer this one fills as soon as its last
            reader has ended, or -1 where it has `slots` buffers of its own.
        lag: how many inferences before that is, 0 or 1; if -1, 0 where that transfer comes before
            this one, and else 1.
    """

    tensor: str
    source: Endpoint
    destination: Endpoint
    size_bytes: Whole
    slots: Slots
    after: Place = -1
    reuses: Place = -1
    lag: Place = -1


@dataclass(frozen=True)
class Queue:
    """Buffers of a chip that tensors of one size take in turn.

    Tensor k of n takes buffer `(i n + k) mod buffers` in inference i, once the tensor that had it
    before has been read and sent on. It is then that of `buffers` places before.

    Attributes:
        kind: `receive` or `send`.
        tensors: the transfers that bring or send each tensor, in the order in which kernels take
            the buffers.
        buffers: how many there are.
    """

    kind: Literal["receive", "send"]
    tensors: tuple[tuple[Place, ...], ...]
    buffers: Slots


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
        queues: receive and send buffers that several tensors share; a tensor is in one of each
            kind at most.
    """

    chip: Endpoint
    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...]
    high_water_bytes: Size
    weight_bytes: Size
    state_bytes: Size = 0
    queues: tuple[Queue, ...] = ()


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
        period_s: with `start_s`, time from one inference to the next.
        start_s: start of each kernel, then of each hop of each transfer, of inference 0 in a steady
            state. Channels serve in the order of one period that follows from them. Empty where
            channels serve one inference after another.
    """

    target: str
    chips: tuple[ChipProgram, ...]
    transfers: tuple[Transfer, ...]
    overflows: tuple[MemoryOverflow, ...] = ()
    sequences: Annotated[int, Meta(ge=0, le=MOST_SEQUENCES)] = 0
    period_s: Amount = 0.0
    start_s: tuple[Amount, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, without defaults of latencies, lags, start times and queues."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        if not self.start_s:
            del data["period_s"], data["start_s"]
        for transfer in data["transfers"]:
            if transfer["lag"] < 0:
                del transfer["lag"]
        for chip in data["chips"]:
            if not chip["queues"]:
                del chip["queues"]
            for kernel in chip["kernels"]:
                if kernel["latency_s"] == 0:
                    del kernel["latency_s"]
        return data


PROGRAM: AnnotationKey[LoweredProgram] = AnnotationKey(
    "lowered_program", derived_from=("chip_models", "wires")
)
"""The lowered program of the model."""


@dataclass(frozen=True)
class ChipActivity:
    """Activity of a chip, per inference in steady state.

    Attributes:
        chip: index on the ring.
        busy_s: time its compute engine worked.
        stall_s: time it waited, by reason: `input` (an operand was not made yet), `link` (it was
            made, and in transfer or queueing for a link), `buffer` (back-pressure).
        engine_s: the part of `busy_s` that each engine limits; launches are `launch`.
        high_water_bytes: SRAM used.
    """

    chip: int
    busy_s: float
    stall_s: dict[str, float] = field(default_factory=dict[str, float])
    engine_s: dict[str, float] = field(default_factory=dict[str, float])
    high_water_bytes: int = 0


@dataclass(frozen=True)
class LinkActivity:
    """Traffic of a link, per inference in steady state.

    Attributes:
        source: the chip it leaves, or a place outside as in `mcm_compiler.machines.machine`.
        destination: the chip it reaches, or such a place.
        busy_s: time it was taken.
        bytes_per_inference: bytes it carried.
        queue_s: time that ready transfers waited for the link, summed over them.
    """

    source: int
    destination: int
    busy_s: float
    bytes_per_inference: int
    queue_s: float = 0.0


@dataclass(frozen=True)
class SimulationResult:
    """Result of simulating a program.

    Attributes:
        simulator: name of the simulator.
        period_s: time between two inferences that leave the package, in steady state.
        latency_s: from the start of the first inference to its last output.
        inferences: how many were simulated.
        chips: one entry per used chip.
        links: one entry per used link, host links included.
        steady_from: the inference from which starts repeat with the period, or None where the
            pattern did not settle and the period is the maximum cycle ratio of the event graph.
        cycle_waits: where nothing is busy for the whole period, kinds of waits on a cycle that sets
            it: `buffer` for a free one, `channel` for the turn of another transfer, `step` for the
            step before of a sequence. Empty where something is, or where the simulator does not
            say.
    """

    simulator: str
    period_s: float
    latency_s: float
    inferences: int
    chips: tuple[ChipActivity, ...]
    links: tuple[LinkActivity, ...]
    steady_from: int | None = None
    cycle_waits: tuple[str, ...] = ()

    @property
    def throughput_per_s(self) -> float:
        """Inferences per second in steady state."""
        return 1.0 / self.period_s


@dataclass(frozen=True)
class Hop:
    """One transfer on one link.

    Attributes:
        transfer: index into `LoweredProgram.transfers`.
        source: as in `LinkActivity`.
        destination: as in `LinkActivity`.
        busy_s: time that it takes the link.
        latency_s: time from then until the tensor has arrived.
    """

    transfer: int
    source: int
    destination: int
    busy_s: float
    latency_s: float


@dataclass(frozen=True, eq=False)
class Timeline:
    """When everything happened in a simulation.

    Attributes:
        program: what was simulated.
        hops: all hops of one inference.
        kernel_start_s: `[inferences, kernels]`, kernels chip by chip in the order of the program.
        hop_start_s: `[inferences, hops]`.
    """

    program: LoweredProgram
    hops: tuple[Hop, ...]
    kernel_start_s: Floats
    hop_start_s: Floats


class Simulator(Protocol):
    """Executes lowered programs for many inferences in flight."""

    @property
    def name(self) -> str: ...

    def run(self, program: LoweredProgram, inferences: int = 64) -> SimulationResult:
        """Simulates `inferences` inferences that enter as fast as the package takes them.

        Raises:
            CompileError: MCM-T010 if the program deadlocks, MCM-T011 if it does not fit.
        """
        ...

    def timeline(self, program: LoweredProgram, inferences: int = 8) -> Timeline:
        """When each kernel and each hop of the first `inferences` inferences starts.

        Raises:
            CompileError: as `run`.
        """
        ...


SIMULATION: AnnotationKey[SimulationResult] = AnnotationKey("simulation", derived_from=(PROGRAM,))
"""Result of simulating the lowered program."""
