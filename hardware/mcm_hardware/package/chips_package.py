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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import onnx_ir as ir

from mcm_compiler.components.cost_choice import CostChoice
from mcm_compiler.components.cost_files import measured_costs, with_cost_model_text
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.program import LoweredProgram, Simulator
from mcm_compiler.contracts.target import (
    ChipModel,
    Fallback,
    PackageLimits,
    Resource,
    Unsupported,
    Wire,
)
from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.package_limits import EnergyCosts, machine_limits
from mcm_hardware.chip.chip_spec import ChipSpec, KindOfChip, PackageSpec
from mcm_hardware.chip.named_costs import CostPair, chosen_pair
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.package_schema import PackageForm
from mcm_hardware.descriptions.target_schema import CHIP_TABLE, ordered

if TYPE_CHECKING:
    from mcm_hardware.chip.op_support import OpSupport


Section = dict[str, str | float]


def package_details(
    name: str, text: str, spec: PackageSpec, form: PackageForm
) -> dict[str, Section]:
    """Values by section and key.

    Args:
        name: of the target.
        text: its description, without faults.
        spec: what the description says.
        form: what descriptions of the family look like.

    Returns:
        A section per table of the file with the keys as they are written there, one for each kind
        of chip, the bytes per element of every ONNX type, and `derived`.
    """
    reader = DescriptionReader(name, text, form)
    sections = reader.sections()
    for table in reader.chip_tables or ():
        for path, value in table.given.items():
            at, _, key = path.rpartition(".")
            section = f"{CHIP_TABLE}.{table.name}{at.removeprefix(CHIP_TABLE)}"
            sections.setdefault(section, {})[key] = value
    kinds: dict[tuple[int, int, float], list[int]] = {}
    kind_of = spec.kind_of or (0,) * spec.num_chips
    for place, chip, kind in zip(spec.physical, spec.chips, kind_of, strict=True):
        kinds.setdefault((kind, chip.sram_bytes, chip.speed), []).append(place)
    places = int(reader.values.get("package.num_chips", spec.num_chips))
    off = sorted(set(range(places)) - set(spec.physical))
    for (kind, sram_bytes, speed), alike in kinds.items():
        named: Section = {"kind": spec.kinds[kind].name} if spec.kinds else {}
        numbers: Section = {"sram_mib": sram_bytes / 2**20, "speed": speed}
        sections[f"chips {ranges(alike)}"] = {**named, **numbers}
    if off:
        sections[f"chips {ranges(off)}"] = {"off": True}
    sections["bytes_per_element"] = {
        kind.name: spec.reference.storage.element_bits(kind) / 8
        for kind in ir.DataType
        if kind is not ir.DataType.UNDEFINED
    }
    sections["derived"] = _derived(spec)
    return sections


def array_ops_per_s(chip: ChipSpec) -> float:
    """Operations of a chip's MAC array per second; a multiply-accumulate counts as two."""
    return 2 * chip.array.rows * chip.array.cols * chip.array.clock_hz * chip.speed


def vector_ops_per_s(chip: ChipSpec) -> float:
    """Lane operations of a chip's vector unit per second."""
    return chip.vector.lanes * chip.vector.clock_hz * chip.speed


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in short: `0 to 2, 5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


def _derived(spec: PackageSpec) -> Section:
    reference = spec.reference
    return {
        "usable_chips": spec.num_chips,
        "array_tera_ops_per_s": array_ops_per_s(reference) / 1e12,
        "vector_tera_ops_per_s": vector_ops_per_s(reference) / 1e12,
        "array_ops_per_sram_byte": array_ops_per_s(reference) / reference.sram_bytes_per_s,
        "package_array_tera_ops_per_s": sum(map(array_ops_per_s, spec.chips)) / 1e12,
        "package_vector_tera_ops_per_s": sum(map(vector_ops_per_s, spec.chips)) / 1e12,
        "package_sram_mib": sum(chip.sram_bytes for chip in spec.chips) / 2**20,
    }


@dataclass(frozen=True)
class DescribedTarget(ABC):
    """Base of targets with a description.

    Implements `mcm_compiler.components.cost_choice.TakesCostModel`.

    Attributes:
        name: as the user names it.
        spec: its numbers.
        source_text: the TOML that it was made from.
        cost_choice: a cost model instead of its own.
    """

    name: str
    spec: object
    source_text: str
    cost_choice: CostChoice | None = field(default=None, kw_only=True)

    @abstractmethod
    def details(self) -> Mapping[str, Mapping[str, str | float]]:
        """All numbers by section and key, for `mcmc targets show`."""

    @abstractmethod
    def own_costs(self) -> CostPair:
        """The cost models that hold where none is chosen, for a chip of speed 1."""

    def with_cost_model(self, choice: CostChoice) -> Self:
        """The same target with times from another cost model.

        Raises:
            CompileError: MCM-C008 if the description cannot name it, and as `CostChoice.model`.
        """
        text = with_cost_model_text(self.name, self.source_text, choice.text)
        chosen = replace(self, source_text=text, cost_choice=choice)
        chosen.cost_model()  # faults are reported before anything is compiled
        return chosen

    def cost_model(self) -> CostModel:
        """The model of a chip of speed 1 for search and bounds: the own one, or what was chosen.

        Raises:
            CompileError: MCM-C004 where the description names a cost model with files, and was not
                loaded from a file.
        """
        return self.costs.searched

    @cached_property
    def costs(self) -> CostPair:
        """The cost models of a chip of speed 1, for search and for what is played."""
        return self.beside_host(chosen_pair(self.own_costs(), self))

    @property
    def op_support(self) -> OpSupport | None:
        """Ops that its chips or devices can run; None where they run everything."""
        return None

    @property
    def fallback(self) -> Fallback:
        """Default fate of ops that it cannot run, where a compile does not say."""
        return "host" if self.op_support is None else self.op_support.fallback

    def unsupported(self, node: ir.Node) -> Unsupported | None:
        """Why it cannot run `node`; None if it can."""
        return None if self.op_support is None else self.op_support.unsupported(node)

    def beside_host(self, pair: CostPair) -> CostPair:
        """The cost models with those of what the host runs for chips, where it does."""
        return pair


OUTER_RESOURCES = (
    Resource("link bandwidth", ("link.bandwidth_gb_per_s",)),
    Resource("host rate", ("host.bandwidth_gb_per_s", "host.total_bandwidth_gb_per_s")),
    Resource("chips", ("package.num_chips",)),
)
"""Resources outside of chips that an exploration can vary."""

RESOURCES = (
    Resource("compute array", ("chip.mac_array.rows",), "cycles{rows=0.5}"),
    Resource("vector lanes", ("chip.vector_unit.lanes",)),
    Resource("SRAM", ("chip.sram_mib",)),
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
        """Form of its description, with chips of the kind that it has."""
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
    def limits(self) -> PackageLimits:
        """The numbers that partitioning needs besides the machine."""
        return machine_limits(self.machine)

    @property
    def holds_states(self) -> bool:
        """Chips keep states in their SRAM."""
        return True

    def details(self) -> Mapping[str, Mapping[str, str | float]]:
        """All numbers of the package by section and key, for `mcmc targets show`."""
        return package_details(self.name, self.source_text, self.spec, self.described_form)

    @property
    def op_support(self) -> OpSupport | None:
        """Ops that chips can run; None where they run everything."""
        return self.spec.support

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Resources that an exploration can vary, as far as the description has them."""
        if not self.spec.kinds:
            return RESOURCES
        return tuple(
            replace(resource, keys=tuple(self._keys_of_kinds(resource.keys)))
            for resource in RESOURCES
        )

    @property
    def ordered_keys(self) -> dict[str, bool]:
        """See `OrdersKeys`.

        Outputs of a ring whose ends alone reach the host cross chips that are added.
        """
        found = ordered(self.described_form.keys)
        if self.limits.at_ends:
            found.pop("package.num_chips", None)
        if self.spec.kinds:
            pairs = {key: tuple(self._keys_of_kinds((key,))) for key in found}
            found = {own: found[key] for key, names in pairs.items() for own in names}
        return found

    def _keys_of_kinds(self, keys: Iterable[str]) -> Iterator[str]:
        """Keys, those of a chip once for each kind."""
        for key in keys:
            if key.startswith("chip."):
                yield from (key.replace("chip", f"chip.{kind.name}", 1) for kind in self.kinds)
            else:
                yield key

    @property
    def energy(self) -> EnergyCosts | None:
        """Joules of what an inference does; None where the description does not say."""
        return self.spec.energy

    @property
    def package_mm2(self) -> float | None:
        """Area of all usable chips and their links; None where the description does not say."""
        areas = [kind.area for kind in self.kinds if kind.area is not None]
        if not areas:
            return None
        ends, spec = self.machine.channel_ends, self.spec
        links = int(((ends[:, 0] >= 0) & (ends[:, 1] >= 0)).sum())
        on = spec.kind_of or [0] * spec.num_chips
        chips = [areas[kind].of(chip) for kind, chip in zip(on, spec.chips, strict=True)]
        return math.fsum([*chips, links * areas[0].link_mm2])

    @property
    def kinds(self) -> tuple[KindOfChip, ...]:
        """Kinds of chips; one without a name where all are alike but for memory and speed."""
        spec = self.spec
        alike = KindOfChip("", spec.reference, spec.support, spec.energy, spec.area)
        return spec.kinds or (alike,)

    @property
    def kind_names(self) -> tuple[str, ...]:
        """Names of the kinds of chips, in the order of `Machine.device_kind`; empty for one."""
        return tuple(kind.name for kind in self.spec.kinds) if len(self.spec.kinds) > 1 else ()

    def cost_model_of(self, kind: int) -> CostModel:
        """The model of a chip of a kind for search and bounds, at speed 1."""
        return self.kind_costs[kind].searched

    def runs(self, kind: int, node: ir.Node) -> bool:
        """True if chips of a kind can run `node`, or leave it to the host as all kinds do."""
        own = self.kinds[kind].support
        if own is None or own.unsupported(node) is None:
            return True
        # An op that no kind runs is left to the host by each of them.
        return self.spec.support is not None and self.spec.support.unsupported(node) is not None

    def energy_on(self, chip: int) -> EnergyCosts | None:
        """Joules of what an inference does on a chip; None where the description does not say."""
        return self.kinds[self.spec.kind_of[chip]].energy if self.spec.kind_of else self.energy

    # Costs, lowering and simulation load numba and the op tables; listing targets needs neither.

    def own_costs(self) -> CostPair:
        """The cycle model of a chip, for search and bounds as for the simulator; its roofline."""
        return self._costs_of(self.spec.reference)

    def _costs_of(self, chip: ChipSpec) -> CostPair:
        from mcm_hardware.chip.roofline import Roofline, cycle_model

        cycles = cycle_model(chip)
        return CostPair(cycles, cycles, Roofline(chip))

    @cached_property
    def kind_costs(self) -> tuple[CostPair, ...]:
        """The cost models of each kind of chip, for search and for what is played.

        Measured times are those of the first kind; for the others the chosen model has none.
        """
        found = [self.costs]
        for chip in (kind.chip for kind in self.kinds[1:]):
            own = self._costs_of(chip)
            pair = chosen_pair(own, self)
            if measured_costs(pair.searched) is not None:
                pair = own
            found.append(self._beside_host(pair, chip.launch_s))
        return tuple(found)

    def beside_host(self, pair: CostPair) -> CostPair:
        """The cost models with round trips to the host, where each chip reaches it by itself."""
        return self._beside_host(pair, self.spec.reference.launch_s)

    def _beside_host(self, pair: CostPair, launch_s: float) -> CostPair:
        support = self.spec.support
        if support is None:
            return pair
        from mcm_hardware.chip.op_support import HostFallbackCosts, host_link

        link = host_link(self.machine)
        if link is None:
            return pair
        speed = max(c.speed for c in self.spec.chips)
        return pair.each(lambda costs: HostFallbackCosts(costs, support, link, launch_s, speed))

    def lower(self, chips: Sequence[ChipModel], wires: Sequence[Wire]) -> LoweredProgram:
        """Schedules each chip's ops, plans its memory and its transfers."""
        from mcm_hardware.package.lowering import lower

        spec = self.spec
        played = [self.kind_costs[kind].played for kind in spec.kind_of or [0] * spec.num_chips]
        return lower(self.name, self.machine, spec.chips, chips, wires, played)

    def simulator(self) -> Simulator:
        """The simulator of lowered programs."""
        from mcm_hardware.package.machine_simulator import MachineSimulator

        return MachineSimulator(self.machine, f"{self.machine.family}-event-graph")
