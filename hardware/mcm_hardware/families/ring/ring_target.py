"""The family of ring packages: a `Target` made from a TOML description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import Target
from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.package_limits import PackageLimits
from mcm_hardware.descriptions import package_schema
from mcm_hardware.descriptions.chip_kinds import ChipKind, chip_kind, kinds_at_work
from mcm_hardware.descriptions.package_file import PackageFile
from mcm_hardware.descriptions.packaged_targets import packaged
from mcm_hardware.descriptions.target_schema import Choice, Key, Number
from mcm_hardware.families.ring.ring_machine import RingSpec, ring_machine
from mcm_hardware.package.chips_package import ChipsPackage

_KEYS: Mapping[str, Key] = {
    "package.num_chips": Key(
        Number(1, 4096, whole=True, better="more"), "chips of the package, also those off"
    ),
    "package.host_io": Key(
        Choice(("any", "ends")),
        "where the host reaches the ring: at every chip, or at the first and last that are on; "
        "over these, inputs of inner chips enter at the first, and outputs leave at the last",
    ),
    "link.bandwidth_gb_per_s": Key(package_schema.BANDWIDTH, "rate of one link"),
    "link.hop_latency_us": Key(
        package_schema.LATENCY_US, "delay of one hop; a chip that is off in between adds its hop"
    ),
    "link.switching": package_schema.SWITCHING,
    "link.forwarding": Key(
        Choice(("engine", "router")),
        "who passes on what a chip does not want itself: its compute engine, with a copy, or "
        "its router, which takes no time and no memory of the chip",
        default="engine",
    ),
    "host.total_bandwidth_gb_per_s": package_schema.HOST_TOTAL,
    "off_package_memory.total_bandwidth_gb_per_s": package_schema.STREAM_TOTAL,
}


def ring_form(chip: Mapping[str, Key] | None = None) -> package_schema.PackageForm:
    """The form of a description of a ring package.

    Args:
        chip: keys of its chips where they are no arrays.
    """
    return package_schema.package_form("ring", "a ring package", _KEYS, chip)


RING = ring_form()
"""The form where chips are arrays."""


def read_ring(name: str, text: str, kind: ChipKind | None) -> PackageFile:
    """The description of a ring, with chips of a kind, None for arrays; faults are collected."""
    return PackageFile(name, text, ring_form(None if kind is None else kind.keys), kind)


def parse_ring(name: str, text: str, kind: ChipKind | None = None) -> RingSpec:
    """The package that a TOML text describes.

    Args:
        name: the file or target, for the place in diagnostics.
        text: the description; its keys are those of `ring_schema`.
        kind: of its chips; None for arrays.

    Raises:
        CompileError: with one diagnostic per fault: MCM-T001 to MCM-T008, as `PackageFile`.
    """
    file = read_ring(name, text, kind)
    _check_forwarding(file)
    common = file.common(file.values.get("package.num_chips"))
    hop_s = file.number("link.hop_latency_us", 1e-6)
    return RingSpec(
        **common,
        link_bytes_per_s=file.number("link.bandwidth_gb_per_s", 1e9),
        hop_latency_s=tuple((b - a) * hop_s for a, b in pairwise(common["physical"])),
        switching=file.values["link.switching"],
        host_io=file.values["package.host_io"],
        forwarding=file.values["link.forwarding"],
        host_total_bytes_per_s=file.number("host.total_bandwidth_gb_per_s", 1e9),
        stream_total_bytes_per_s=file.number("off_package_memory.total_bandwidth_gb_per_s", 1e9),
    )


def _check_forwarding(file: PackageFile) -> None:
    values = file.values
    ends = values.get("package.host_io") == "ends"
    if ends and values.get("link.forwarding") == "router":
        message = "routers pass nothing on between the ends, where the host is, and other chips"
        hint = 'set host_io = "any" in the table [package], or leave forwarding out'
        file.reader.fault("MCM-T008", message, ("link", "forwarding"), hint)


def ring_from_text(name: str, text: str) -> Target:
    """The package on a ring of a description, with chips of any kind.

    Raises:
        CompileError: MCM-T001 to MCM-T008, one diagnostic per fault; MCM-U003 for chips of a kind
            that is not installed, MCM-X007 for a kind that fails.
    """
    with kinds_at_work(name, text):
        plain, kind = RingTarget.from_text(name, text), chip_kind(name, text)
        return plain if kind is None else kind.package(plain, read_ring(name, text, kind).values)


@dataclass(frozen=True)
class RingTarget(ChipsPackage):
    """A package of chips on a one-way ring.

    Attributes:
        spec: its numbers.
    """

    spec: RingSpec
    form: ClassVar[package_schema.PackageForm] = RING

    @classmethod
    def from_text(cls, name: str, text: str) -> RingTarget:
        """Makes the target from a description, whatever its chips are.

        Raises:
            CompileError: MCM-T001 to MCM-T008, one diagnostic per fault.
        """
        return cls(name, parse_ring(name, text, chip_kind(name, text)), text)

    @property
    def summary(self) -> str:
        """One line for `mcmc targets`."""
        return self.spec.summary or f"{self.spec.num_chips} chips on a one-way ring"

    @property
    def described_form(self) -> package_schema.PackageForm:
        """Form of its description."""
        kind = chip_kind(self.name, self.source_text)
        return self.form if kind is None else ring_form(kind.keys)

    @property
    def limits(self) -> PackageLimits:
        """The numbers that partitioning needs."""
        return self.spec.limits

    def connected(self) -> Machine:
        """Devices, channels and routes."""
        return ring_machine(self.spec)

    def details(self) -> Mapping[str, Mapping[str, str | float]]:
        """All numbers of the package by section and key, for `mcmc targets show`."""
        sections = {section: dict(keys) for section, keys in super().details().items()}
        sections["derived"]["package_hop_latency_us"] = sum(self.spec.hop_latency_s) * 1e6
        return sections

    def without_chips(self, places: Sequence[int]) -> RingTarget:
        """The same package with an override more, which switches these chips off.

        Raises:
            CompileError: MCM-T001 to MCM-T008, such as for a chip that is overridden already.
        """
        physical = self.spec.physical
        on = [p for p in sorted(set(places)) if p in physical or p > max(physical)]
        if not on:
            return self
        override = f"\n\n[[override]]\nchips = {on}\noff = true\n"
        smaller = RingTarget.from_text(self.name, self.source_text.rstrip("\n") + override)
        return replace(smaller, cost_choice=self.cost_choice)

    def batch_evaluator(
        self, model: ir.Model, problem: PartitionProblem, groups: Mapping[str, str]
    ) -> BatchEvaluator:
        """The batch evaluator of partitions of one problem, without ONNX."""
        from mcm_hardware.families.ring.batch.ring_evaluator import RingBatchEvaluator

        return RingBatchEvaluator(self.spec, model, problem, groups, self.costs.played)


cpu_ring, mcm4, mcm16, mcm36, mcm36_small, mcm36_shared, mcm36_stream = packaged(
    RingTarget.from_text,
    "mcm_hardware.families.ring",
    *("cpu-ring", "mcm4", "mcm16", "mcm36", "mcm36-small", "mcm36-shared", "mcm36-stream"),
)
"""The rings that come with the compiler; `mcm36` is the default, after Xie et al. 2022."""
