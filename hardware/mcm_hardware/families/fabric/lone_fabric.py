"""One fabric as a package: what `family = "fabric"` describes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_hardware.chip.chip_spec import PackageSpec
from mcm_hardware.descriptions.package_schema import PackageForm
from mcm_hardware.families.fabric.description import builtin_fabrics
from mcm_hardware.families.fabric.description.fabric_file import parse_fabric
from mcm_hardware.families.fabric.description.fabric_schema import FABRIC_FORM, FABRIC_KEYS
from mcm_hardware.families.fabric.fabric_chip import chip_of
from mcm_hardware.families.fabric.fabric_package import FabricPackage, FabricSpec
from mcm_hardware.package.chips_package import ChipsPackage
from mcm_hardware.package.package_machine import package_machine
from mcm_hardware.tensors.storage_widths import StorageWidths

SLOTS = 2
"""Buffers of a tensor outside the fabric, behind its memory channels: one is filled while the other
is read (our choice)."""


@dataclass(frozen=True)
class LoneFabric(ChipsPackage):
    """A package of one chip that the host reaches through the memory channels."""

    form: ClassVar[PackageForm] = PackageForm(FABRIC_KEYS, FABRIC_FORM)

    @property
    def limits(self) -> PackageLimits:
        """The numbers that partitioning needs; there is no link, and none is waited for."""
        return replace(super().limits, link_bytes_per_s=self.spec.host_bytes_per_s)

    def connected(self) -> Machine:
        """One device between a channel from the host and one to it."""
        return package_machine("fabric", self.spec, MachineBuilder(1))


def fabric_from_text(name: str, text: str) -> FabricPackage:
    """Makes a fabric from a description.

    What comes from the host and goes there passes all memory channels, at a flit per cycle each.

    Raises:
        CompileError: MCM-T001 to MCM-T008, one diagnostic per fault.
    """
    described = parse_fabric(name, text)
    fabric = described.fabric
    chip = chip_of(fabric, StorageWidths({}))
    flit_bytes = fabric.flit_elements * fabric.element_bytes
    spec = PackageSpec(
        summary=described.summary,
        reference=chip,
        chips=(chip,),
        physical=(0,),
        host_bytes_per_s=fabric.num_channels * flit_bytes * fabric.clock_hz,
        host_latency_s=0.0,
        channel_slots=SLOTS,
    )
    return FabricPackage(name, FabricSpec(LoneFabric(name, spec, text), fabric), text)


def _packaged(name: str) -> FabricPackage:
    return fabric_from_text(name, builtin_fabrics.builtin_spec(name).source_text)


def fabric_12() -> FabricPackage:
    """12 x 12 switches with 256 KiB per memory unit."""
    return _packaged("fabric-12")


def fabric_16() -> FabricPackage:
    """16 x 16 switches with 512 KiB per memory unit."""
    return _packaged("fabric-16")


def fabric_20() -> FabricPackage:
    """20 x 20 switches with 512 KiB per memory unit."""
    return _packaged("fabric-20")
