"""One fabric as a package: what `family = "fabric"` describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import onnx_ir as ir

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, MEMORY, Fabric
from mcm_compiler.contracts.target import PackageLimits, Target, TargetFamily
from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_compiler.registry import TARGET_FAMILIES
from mcm_hardware.chip.chip_spec import ChipSpec, MacArray, PackageSpec, VectorUnit
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.package_schema import PackageForm
from mcm_hardware.descriptions.packaged_targets import packaged
from mcm_hardware.descriptions.target_schema import Key
from mcm_hardware.families.fabric import fabric_file
from mcm_hardware.families.fabric.fabric_package import FabricPackage, FabricSpec
from mcm_hardware.package.chips_package import ChipsPackage
from mcm_hardware.package.package_machine import package_machine
from mcm_hardware.tensors.storage_widths import StorageWidths


class FabricChip:
    """Implements `mcm_hardware.descriptions.chip_kinds.ChipKind`."""

    name: ClassVar[str] = "fabric"
    keys: Mapping[str, Key] = fabric_file.GRID_KEYS

    def check(self, reader: DescriptionReader, values: Mapping[str, Any]) -> None:
        """Notes which numbers of a grid contradict each other."""
        fabric_file.check_grid(reader, values)

    def chip(self, values: Mapping[str, Any], storage: StorageWidths) -> ChipSpec:
        """The numbers of a fabric as those of one large array."""
        return chip_of(fabric_file.grid("chip", values), storage)

    def package(self, plain: ChipsPackage, values: Mapping[str, Any]) -> FabricPackage:
        """The package `plain`, whose chips are fabrics."""
        fabric = fabric_file.grid(plain.name, values)
        return FabricPackage(plain.name, FabricSpec(plain, fabric), plain.source_text)


def chip_of(fabric: Fabric, storage: StorageWidths) -> ChipSpec:
    """Chip numbers of a fabric that partitioning and transfers need.

    All compute units together are one array and one vector unit, all memory units one memory.

    Args:
        fabric: the fabric.
        storage: widths of types on links; of others an element is as wide as on the fabric.
    """
    units, memories = len(fabric.of_kind(COMPUTE)), len(fabric.of_kind(MEMORY))
    flit_bytes = fabric.flit_elements * fabric.element_bytes
    bits = {
        kind: 8 * fabric.element_bytes
        for kind in ir.DataType
        if kind not in (ir.DataType.UNDEFINED, ir.DataType.STRING)
    }
    return ChipSpec(
        sram_bytes=memories * fabric.memory_bytes,
        # Each memory unit reads and writes a flit per cycle.
        sram_bytes_per_s=2 * memories * flit_bytes * fabric.clock_hz,
        alignment_bytes=1 << (flit_bytes - 1).bit_length(),
        launch_s=0.0,
        array=MacArray(fabric.macs_per_cycle, units, fabric.clock_hz),
        vector=VectorUnit(fabric.lanes * units, fabric.clock_hz),
        storage=StorageWidths({**bits, **storage.bits}),
    )


SLOTS = 2
"""Buffers of a tensor outside the fabric, behind its memory channels: one is filled while the other
is read (our choice)."""


@dataclass(frozen=True)
class LoneFabric(ChipsPackage):
    """A package of one chip that the host reaches through the memory channels."""

    form: ClassVar[PackageForm] = fabric_file.FABRIC_FORM

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
    described = fabric_file.parse_fabric(name, text)
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


fabric_12, fabric_16, fabric_20 = packaged(
    fabric_from_text, "mcm_hardware.families.fabric", "fabric-12", "fabric-16", "fabric-20"
)
"""The fabrics that come with the compiler: rows of 12, 16 and 20 switches. A layer of BERT-large
fits into the second, and one of GPT2-XL into the third."""


def _on_a_ring(name: str, text: str) -> Target:
    # By name, as neither family imports the other.
    return cast("TargetFamily[Target]", TARGET_FAMILIES.get("ring"))(name, text)


mcm36_fabric, mcm48_fabric = packaged(
    _on_a_ring, "mcm_hardware.families.fabric", "mcm36-fabric", "mcm48-fabric"
)
"""Rings of 36 and 48 fabrics."""
