"""The contract of targets: a package of chips as passes see it.

Passes never import hardware. What they need to know of a package stands in `PackageLimits`, and
its costs are behind the `Target` protocol. What else a target can do is a protocol each: `Lowers`,
`Simulates`, `JudgesBatches`, `ShrinkableTarget`. `mcm_compiler.capabilities` asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import onnx_ir as ir

from mcm_compiler.cost import CostModel
from mcm_compiler.machine import HOST, OFF_PACKAGE, Bools, Machine
from mcm_compiler.program import LoweredProgram
from mcm_compiler.simulation import Simulator

if TYPE_CHECKING:
    from mcm_compiler.judging import BatchJudge
    from mcm_compiler.partition import PartitionProblem

HostIo = Literal["any", "ends"]
"""Where the host reaches the ring: at every chip, or only at the first and the last one."""

RING = "ring"
"""The family of machines that `PackageLimits` describes whole."""

Forwarding = Literal["engine", "router"]
"""Who passes a tensor on that a chip does not want itself: its compute engine, with a copy (a
relay), or its router, which takes no time of the chip and has buffers of its own."""

Routing = Literal["strict", "relay"]
"""How long dependencies are ruled: `strict` is the paper's chip-triangle rule on the graph as it
is after cloning (MCM, Eq. 4); `relay` passes a tensor on from neighbour to neighbour."""


@dataclass(frozen=True)
class PackageLimits:
    """The numbers of a ring package that partitioning needs.

    Chip c reaches chip c+1 over link c; the ring runs one way, from chip 0 to the last.

    Attributes:
        num_chips: chips on the ring.
        sram_bytes: `[num_chips]`, SRAM of each chip.
        link_bytes_per_s: rate of each link.
        hop_latency_s: delay of one hop.
        host_io: see `HostIo`.
        host_bytes_per_s: rate between the host and each chip that it reaches.
        channel_slots: receive buffers per tensor (2 is double buffering).
        chip_speed: `[num_chips]`, clock of each chip relative to the one that the cost model
            speaks of; empty where all run at 1.
        stream_bytes_per_s: rate at which each chip reads weights that do not fit from
            off-package memory, once per inference; 0 where that is not possible, so that what
            does not fit is an error.
        buffer_alignment_bytes: buffers in SRAM start at multiples of this, so that each takes a
            multiple of it.
        stream_buffers: buffers that streamed weights pass through; with two, one is filled while
            the other is read. Estimates count them.
        activation_packing: room that estimates keep for the gaps of a memory plan, as a multiple
            of the peak of live bytes, at least 1. No proof looks at it.
        host_total_bytes_per_s: rate, each way, of the one channel between the host and all chips
            together, the *host's root*, which carries once per chip what several chips get from
            the host; 0 where there is none, so that chips do not hinder each other. Of pipelines
            side by side each has its part of the rate, see `first`.
        stream_total_bytes_per_s: likewise of the one channel from off-package memory.
        forwarding: see `Forwarding`.
    """

    num_chips: int
    sram_bytes: tuple[int, ...]
    link_bytes_per_s: float
    hop_latency_s: float
    host_io: HostIo
    host_bytes_per_s: float
    channel_slots: int = 2
    chip_speed: tuple[float, ...] = ()
    stream_bytes_per_s: float = 0.0
    buffer_alignment_bytes: int = 64
    stream_buffers: int = 2
    activation_packing: float = 1.25
    host_total_bytes_per_s: float = 0.0
    stream_total_bytes_per_s: float = 0.0
    forwarding: Forwarding = "engine"

    def first(self, num_chips: int, pipelines: int = 1) -> PackageLimits:
        """The numbers of the first so many chips alone, for one of equal pipelines.

        Of a channel that all pipelines share, each has its part. R pipelines of period P that
        answer in turn give R inferences every P seconds, so that the channel carries R times what
        one inference takes in P, and one pipeline what its own takes at a part of the rate: the
        package's seconds per inference, P / R, are never less than the channel's.

        Args:
            num_chips: chips of the pipeline.
            pipelines: that share the package.
        """
        return replace(
            self,
            num_chips=num_chips,
            sram_bytes=self.sram_bytes[:num_chips],
            chip_speed=self.chip_speed[:num_chips],
            host_total_bytes_per_s=self.host_total_bytes_per_s / pipelines,
            stream_total_bytes_per_s=self.stream_total_bytes_per_s / pipelines,
        )

    @property
    def host_root_bytes_per_s(self) -> float:
        """Rate of the host's root each way; infinite where there is none."""
        return self.host_total_bytes_per_s or float("inf")

    @property
    def stream_root_bytes_per_s(self) -> float:
        """Rate of the channel that all streamed weights share; infinite where there is none."""
        return self.stream_total_bytes_per_s or float("inf")


def machine_limits(machine: Machine) -> PackageLimits:
    """The numbers of any machine, for whoever does not look at its routes.

    Rates are those of the fastest channel of a kind, so that times from them are never too long.
    """
    ends, rates = machine.channel_ends, machine.channel_bytes_per_s

    def fastest(chosen: Bools) -> float:
        return float(rates[chosen].max(initial=0.0))

    at_device = ends >= 0
    between = at_device[:, 0] & at_device[:, 1]
    at_host = (ends[:, 0] == HOST) & at_device[:, 1] | (ends[:, 1] == HOST) & at_device[:, 0]
    off_package = (ends[:, 0] == OFF_PACKAGE) & at_device[:, 1]
    return PackageLimits(
        num_chips=machine.num_devices,
        sram_bytes=tuple(machine.memory_bytes.tolist()),
        link_bytes_per_s=fastest(between),
        hop_latency_s=float(machine.channel_latency_s[between].min(initial=0.0)),
        host_io="any",
        host_bytes_per_s=fastest(at_host),
        channel_slots=machine.channel_slots,
        chip_speed=tuple(machine.speed.tolist()),
        stream_bytes_per_s=fastest(off_package) if machine.streams else 0.0,
        buffer_alignment_bytes=machine.buffer_alignment_bytes,
        stream_buffers=machine.stream_buffers,
        activation_packing=machine.activation_packing,
    )


@dataclass(frozen=True)
class ChipModel:
    """The part of a model that one chip runs, as a complete ONNX model.

    Attributes:
        chip: index on the ring.
        model: the subgraph with its weights, in topological order; the target may run it in
            another one. Nodes carry `metadata_props["mcm.group"]` where they belong to a fusion
            group.
        inputs: names of tensors that arrive, from the host or from the previous chip.
        outputs: names of tensors that leave, to the host or to the next chip.
    """

    chip: int
    model: ir.Model
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Wire:
    """One tensor that travels between chips or between a chip and the host.

    Attributes:
        tensor: its name; the same at both ends.
        source: sending chip, or `HOST`.
        destinations: receiving chips in ascending order, or `(HOST,)`.
    """

    tensor: str
    source: int
    destinations: tuple[int, ...]


__all__ = [
    "HOST",
    "OFF_PACKAGE",
    "RING",
    "ChipModel",
    "DescribesMachine",
    "Forwarding",
    "HostIo",
    "JudgesBatches",
    "Lowers",
    "PackageLimits",
    "Routing",
    "ShrinkableTarget",
    "Simulates",
    "Target",
    "TargetFamily",
    "Wire",
    "machine_limits",
    "machine_of",
    "other_machine_of",
]


class Target(Protocol):
    """A package that models can be compiled for."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """One line for `mcmc targets`."""
        ...

    @property
    def limits(self) -> PackageLimits: ...

    @property
    def source_text(self) -> str:
        """The description that the target was made from (TOML); stored beside compiled models."""
        ...

    def details(self) -> Mapping[str, Mapping[str, str | float]]:
        """All numbers of the package by section and key, for `mcmc targets show`.

        Keys have their units in their names; defaults are filled in, and a section `derived` has
        what follows from the others.
        """
        ...

    def cost_model(self) -> CostModel:
        """The fast analytic model of one chip."""
        ...


@runtime_checkable
class DescribesMachine(Protocol):
    """A target that tells its devices, channels and routes; one that does not is a ring."""

    @property
    def machine(self) -> Machine:
        """Devices, channels and routes."""
        ...


def machine_of(target: Target) -> Machine | None:
    """Devices, channels and routes of a target; None for a ring that tells its limits alone."""
    return target.machine if isinstance(target, DescribesMachine) else None


def other_machine_of(target: Target) -> Machine | None:
    """The machine of a target that is no ring; None for rings, which `limits` describes."""
    machine = machine_of(target)
    return None if machine is None or machine.family == RING else machine


@runtime_checkable
class Lowers(Protocol):
    """A target that turns the chips' models into programs."""

    def lower(self, chips: Sequence[ChipModel], wires: Sequence[Wire]) -> LoweredProgram:
        """Schedules each chip's ops, plans its memory and its transfers.

        Never fails for lack of memory: what does not fit is data in
        `LoweredProgram.overflows`, which is the dynamic constraint H(G, f) of MCM, Eq. 5.
        """
        ...


@runtime_checkable
class Simulates(Protocol):
    """A target that plays lowered programs."""

    def simulator(self) -> Simulator:
        """The judge of lowered programs for this package."""
        ...


@runtime_checkable
class JudgesBatches(Protocol):
    """A target whose simulator also judges many placements of one problem at once."""

    def batch_judge(
        self, model: ir.Model, problem: PartitionProblem, groups: Mapping[str, str]
    ) -> BatchJudge:
        """The same judge for search: partitions in, periods and verdicts out, without ONNX.

        Args:
            model: the model that `problem` was built from, not changed since.
            problem: the problem.
            groups: fusion group of each op that has one, by the names of both.
        """
        ...


@runtime_checkable
class ShrinkableTarget(Protocol):
    """A target of which chips can be left out."""

    def without_chips(self, places: Sequence[int]) -> Target:
        """The target with the chips at these places of the package switched off.

        Raises:
            CompileError: if that cannot be, with the faults of the description.
        """
        ...


class TargetFamily(Protocol):
    """Code that turns a description file of one family into a `Target`.

    Registered under `mcm_compiler.target_families` by the `family` key of the file.
    """

    def __call__(self, name: str, text: str) -> Target:
        """Makes the target.

        Raises:
            CompileError: with one diagnostic per fault of the description.
        """
        ...
