"""Fabrics as chips of packages: `chip.kind = "fabric"` in a description of a ring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import onnx_ir as ir

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, MEMORY, Fabric
from mcm_hardware.chip.chip_spec import ChipSpec, MacArray, VectorUnit
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.target_schema import Key
from mcm_hardware.families.fabric.description.fabric_file import check_grid, grid
from mcm_hardware.families.fabric.description.fabric_schema import GRID_KEYS
from mcm_hardware.families.fabric.fabric_package import FabricPackage, FabricSpec
from mcm_hardware.package.chips_package import ChipsPackage
from mcm_hardware.tensors.storage_widths import StorageWidths


class FabricChip:
    """Implements `mcm_hardware.descriptions.chip_kinds.ChipKind`."""

    name: ClassVar[str] = "fabric"
    keys: Mapping[str, Key] = GRID_KEYS

    def check(self, reader: DescriptionReader, values: Mapping[str, Any]) -> None:
        """Notes which numbers of a grid contradict each other."""
        check_grid(reader, values)

    def chip(self, values: Mapping[str, Any], storage: StorageWidths) -> ChipSpec:
        """The numbers of a fabric as those of one large array."""
        return chip_of(grid("chip", values), storage)

    def package(self, plain: ChipsPackage, values: Mapping[str, Any]) -> FabricPackage:
        """The package `plain`, whose chips are fabrics."""
        fabric = grid(plain.name, values)
        return FabricPackage(plain.name, FabricSpec(plain, fabric), plain.source_text)


def chip_of(fabric: Fabric, storage: StorageWidths) -> ChipSpec:
    """What partitioning and transfers need to know of a fabric.

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
