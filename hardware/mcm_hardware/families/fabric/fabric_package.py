"""The family of fabrics: targets whose chips are laid out unit by unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO, MEMORY, Fabric
from mcm_compiler.contracts.fabrics.target import MappedChip, UnitChoice
from mcm_compiler.contracts.target import Resource, ShrinkableTarget
from mcm_compiler.machines.machine import Machine
from mcm_hardware.chip.chosen_costs import CostPair
from mcm_hardware.package.chips_package import OUTER_RESOURCES, ChipsPackage
from mcm_hardware.package.described_target import DescribedTarget

if TYPE_CHECKING:
    import onnx_ir as ir

    from mcm_compiler.contracts.fabrics.measurement import MappingJudge
    from mcm_compiler.contracts.fabrics.problem import MappingProblem
    from mcm_compiler.contracts.program import LoweredProgram
    from mcm_compiler.contracts.simulation import Simulator
    from mcm_compiler.contracts.target import ChipModel, PackageLimits, Wire
    from mcm_compiler.machines.energy import EnergyCosts


FABRIC_RESOURCES = (
    Resource("compute array", ("compute.macs_per_cycle",)),
    Resource("vector lanes", ("compute.lanes",)),
    Resource("SRAM", ("memory.unit_kib",)),
    *OUTER_RESOURCES,
)
"""What there may be more or less of in a package of fabrics."""


@dataclass(frozen=True)
class FabricSpec:
    """A package whose chips are fabrics.

    Attributes:
        plain: the same package with each fabric as one large array; it tells how chips are
            connected.
        fabric: each chip.
    """

    plain: ChipsPackage
    fabric: Fabric


@dataclass(frozen=True)
class FabricPackage(DescribedTarget):
    """Implements `mcm_compiler.contracts.fabrics.target.MapsChips`.

    Costs of ops are their work over all units, so that partitioners work as for other chips; what
    runs is each chip as it was mapped and measured.
    """

    spec: FabricSpec

    @property
    def summary(self) -> str:
        """One line for `mcmc targets`."""
        return self.spec.plain.summary

    @property
    def limits(self) -> PackageLimits:
        """The numbers that partitioning needs."""
        return self.spec.plain.limits

    @property
    def machine(self) -> Machine:
        """Devices, channels and routes."""
        return self.spec.plain.machine

    @property
    def resources(self) -> tuple[Resource, ...]:
        """What there may be more or less of, as far as the description has it."""
        return FABRIC_RESOURCES

    @property
    def energy(self) -> EnergyCosts | None:
        """Joules of what an inference does; None where the description does not say."""
        return self.spec.plain.energy

    @property
    def package_mm2(self) -> float | None:
        """Area of all usable chips; None where the description does not say."""
        return self.spec.plain.package_mm2

    @property
    def fabric(self) -> Fabric:
        """The fabric that each chip is."""
        return self.spec.fabric

    @property
    def lowering_hash(self) -> str:
        """A hash of the rules by which `mapping_problem` makes units and streams."""
        from mcm_hardware.families.fabric.layout.subgraph_layout import LOWERING_HASH

        return LOWERING_HASH

    def mapping_problem(self, model: ir.Model, choice: UnitChoice) -> MappingProblem:
        """The units and streams of a subgraph.

        Raises:
            CompileError: MCM-M001 to MCM-M005 where it does not fit.
        """
        from mcm_hardware.families.fabric.layout.subgraph_layout import mapping_problem

        return mapping_problem(model, self.fabric, choice)

    def mapping_judge(self, most_hops: int | None = None) -> MappingJudge:
        """Measures mappings by playing every flit."""
        from mcm_hardware.families.fabric.measuring.judge import ENOUGH, MOST_HOPS, FlitJudge

        return FlitJudge(most_hops=most_hops or MOST_HOPS, enough=ENOUGH)

    def lower_mapped(
        self, chips: Sequence[ChipModel], wires: Sequence[Wire], mapped: Sequence[MappedChip]
    ) -> LoweredProgram:
        """Each chip as one kernel that takes the measured period; see `mapped_lowering`."""
        from mcm_hardware.families.fabric.mapped_lowering import lower_mapped

        chip = self.spec.plain.spec.reference
        return lower_mapped(self.name, self.machine, self.fabric, chip, chips, wires, mapped)

    def simulator(self) -> Simulator:
        """The simulator of lowered programs."""
        return self.spec.plain.simulator()

    def details(self) -> Mapping[str, Mapping[str, str | float]]:
        """All numbers by section and key, for `mcmc targets show`."""
        sections = {name: dict(keys) for name, keys in self.spec.plain.details().items()}
        fabric = self.fabric
        sections["derived"] |= {
            "compute_units_per_chip": len(fabric.of_kind(COMPUTE)),
            "memory_units_per_chip": len(fabric.of_kind(MEMORY)),
            "io_sites_per_chip": len(fabric.of_kind(IO)),
            "memory_channels_per_chip": fabric.num_channels,
        }
        return sections

    def own_costs(self) -> CostPair:
        """Work over all units."""
        from mcm_hardware.families.fabric.fabric_costs import fabric_costs

        return fabric_costs(self.spec.plain.spec.reference)

    def without_chips(self, places: Sequence[int]) -> FabricPackage:
        """The same package with these chips switched off.

        Raises:
            CompileError: MCM-T001 to MCM-T008, such as for a package of one chip.
        """
        plain = self.spec.plain
        if not isinstance(plain, ShrinkableTarget):
            raise TypeError(f"{self.name} is not a package of several chips")
        fewer = plain.without_chips(places)
        if not isinstance(fewer, ChipsPackage):
            raise TypeError(f"{self.name} without chips is no package of chips")
        return replace(self, spec=FabricSpec(fewer, self.fabric), source_text=fewer.source_text)
