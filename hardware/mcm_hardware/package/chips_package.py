"""Packages of chips as targets: what all families of them have in common.

A family says what its descriptions look like (`package_form`), reads them (`PackageFile`) and
connects the chips (`package_machine`). Costs, lowering and simulation follow:

    MESH = package_form("mesh", "a mesh package", {"mesh.rows": Key(...), ...})

    @dataclass(frozen=True, kw_only=True)
    class MeshSpec(PackageSpec):
        rows: int
        ...

    @dataclass(frozen=True)
    class MeshPackage(ChipsPackage):
        spec: MeshSpec
        form = MESH

        @classmethod
        def from_text(cls, name: str, text: str) -> MeshPackage:
            file = PackageFile(name, text, MESH)
            ...
            return cls(name, MeshSpec(**file.common(chips), rows=...), text)

        def connected(self) -> Machine:
            ...

`MeshPackage.from_text` is registered as kind `target-family`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from mcm_compiler.contracts import target
from mcm_compiler.contracts.program import LoweredProgram, Simulator
from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.package_limits import EnergyCosts, machine_limits
from mcm_hardware.chip.chip_spec import PackageSpec
from mcm_hardware.chip.named_costs import CostPair
from mcm_hardware.descriptions.package_schema import PackageForm
from mcm_hardware.package.described_target import DescribedTarget

if TYPE_CHECKING:
    from mcm_hardware.chip.op_support import OpSupport


OUTER_RESOURCES = (
    target.Resource("link bandwidth", ("link.bandwidth_gb_per_s",)),
    target.Resource("host rate", ("host.bandwidth_gb_per_s", "host.total_bandwidth_gb_per_s")),
    target.Resource("chips", ("package.num_chips",)),
)
"""What there may be more or less of outside of chips."""

RESOURCES = (
    target.Resource("compute array", ("chip.mac_array.rows",)),
    target.Resource("vector lanes", ("chip.vector_unit.lanes",)),
    target.Resource("SRAM", ("chip.sram_mib",)),
    *OUTER_RESOURCES,
)
"""The same of a package whose chips are arrays."""


@dataclass(frozen=True)
class ChipsPackage(DescribedTarget):
    """Base of the targets that are packages of chips; lowers and simulates for any machine.

    Attributes:
        form: what descriptions of the family look like.
    """

    spec: PackageSpec
    form: ClassVar[PackageForm]

    @property
    def described_form(self) -> PackageForm:
        """What its description looks like, with chips of the kind that it has."""
        return self.form

    @abstractmethod
    def connected(self) -> Machine:
        """The machine: a device for each chip of `spec`, and what connects them."""

    @property
    def machine(self) -> Machine:
        """Devices, channels and routes."""
        return self._machine

    @cached_property
    def _machine(self) -> Machine:
        return self.connected()

    @property
    def summary(self) -> str:
        """One line for `mcmc targets`."""
        return self.spec.summary or f"{self.spec.num_chips} chips, {self.machine.family}"

    @property
    def limits(self) -> target.PackageLimits:
        """The numbers that partitioning needs besides the machine."""
        return machine_limits(self.machine)

    @property
    def holds_states(self) -> bool:
        """Chips keep states in their SRAM."""
        return True

    def details(self) -> Mapping[str, Mapping[str, str | float]]:
        """All numbers of the package by section and key, for `mcmc targets show`."""
        from mcm_hardware.descriptions.target_details import package_details

        return package_details(self.name, self.source_text, self.spec, self.described_form)

    @property
    def op_support(self) -> OpSupport | None:
        """What chips can run; None where they run everything."""
        return self.spec.support

    @property
    def resources(self) -> tuple[target.Resource, ...]:
        """What there may be more or less of, as far as the description has it."""
        return RESOURCES

    @property
    def energy(self) -> EnergyCosts | None:
        """Joules of what an inference does; None where the description does not say."""
        return self.spec.energy

    @property
    def package_mm2(self) -> float | None:
        """Area of all usable chips and their links; None where the description does not say."""
        area = self.spec.area
        if area is None:
            return None
        ends = self.machine.channel_ends
        links = int(((ends[:, 0] >= 0) & (ends[:, 1] >= 0)).sum())
        return math.fsum([*map(area.of, self.spec.chips), links * area.link_mm2])

    # Costs, lowering and simulation load numba and the op tables; listing targets needs neither.

    def own_costs(self) -> CostPair:
        """The roofline of a chip for search and bounds, and its cycle model for what is played."""
        from mcm_hardware.chip.cycle_model import cycle_model
        from mcm_hardware.chip.roofline import Roofline

        chip = self.spec.reference
        return CostPair(Roofline(chip), cycle_model(chip))

    def beside_host(self, pair: CostPair) -> CostPair:
        """The cost models with round trips to the host, where each chip reaches it by itself."""
        support = self.spec.support
        if support is None:
            return pair
        from mcm_hardware.chip.host_fallback import host_link, with_host

        link = host_link(self.machine)
        if link is None:
            return pair
        launch_s, speed = self.spec.reference.launch_s, max(c.speed for c in self.spec.chips)
        return pair.each(lambda costs: with_host(costs, support, link, launch_s, speed))

    def lower(
        self, chips: Sequence[target.ChipModel], wires: Sequence[target.Wire]
    ) -> LoweredProgram:
        """Schedules each chip's ops, plans its memory and its transfers."""
        from mcm_hardware.package.lowering import lower

        return lower(self.name, self.machine, self.spec.chips, chips, wires, self.costs.played)

    def simulator(self) -> Simulator:
        """The simulator of lowered programs."""
        from mcm_hardware.package.machine_simulator import MachineSimulator

        return MachineSimulator(self.machine, f"{self.machine.family}-event-graph")
