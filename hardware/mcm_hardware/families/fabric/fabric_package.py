"""The family of fabrics: targets whose chips are laid out unit by unit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import onnx_ir as ir

from mcm_compiler.contracts.cost import NodeCost
from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO, MEMORY, Fabric, MappingProblem
from mcm_compiler.contracts.fabrics.target import FABRIC_SECTION, MappedChip, UnitChoice
from mcm_compiler.contracts.target import (
    PackageLimits,
    Resource,
    ShrinkableTarget,
    Target,
    TargetFamily,
)
from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_compiler.registry import TARGET_FAMILIES
from mcm_hardware.chip.chip_spec import ChipSpec, MacArray, PackageSpec, VectorUnit
from mcm_hardware.chip.kernel_work import KernelWork
from mcm_hardware.chip.named_costs import CostPair
from mcm_hardware.chip.roofline import EngineTimes, Roofline
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.package_schema import PackageForm
from mcm_hardware.descriptions.packaged_targets import packaged
from mcm_hardware.descriptions.target_schema import Key, ordered
from mcm_hardware.families.fabric import fabric_file
from mcm_hardware.families.fabric.layout.op_work import MOST_WORK, laid_out_ops
from mcm_hardware.package.chips_package import OUTER_RESOURCES, ChipsPackage, DescribedTarget
from mcm_hardware.package.package_machine import package_machine
from mcm_hardware.tensors.storage_widths import StorageWidths

if TYPE_CHECKING:
    from mcm_compiler.contracts.fabrics.measurement import MappingJudge
    from mcm_compiler.contracts.program import LoweredProgram, Simulator
    from mcm_compiler.contracts.target import ChipModel, Wire
    from mcm_compiler.machines.package_limits import EnergyCosts


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

    def connected(self) -> Machine:
        """One device between a channel from the host and one to it."""
        return package_machine("fabric", self.spec, MachineBuilder(1))


def fabric_from_text(name: str, text: str) -> FabricPackage:
    """Makes a fabric from a description.

    What comes from the host and goes there passes all memory channels, at a flit per cycle each.

    Raises:
        CompileError: MCM-T001 to MCM-T008, one diagnostic per fault.
    """
    summary, fabric = fabric_file.parse_fabric(name, text)
    chip = chip_of(fabric, StorageWidths({}))
    flit_bytes = fabric.flit_elements * fabric.element_bytes
    spec = PackageSpec(
        summary=summary,
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


NAME = "fabric-work"
"""Note that is printed with every number of these costs."""


def fabric_times(chip: ChipSpec, work: KernelWork) -> EngineTimes:
    """Seconds of all compute units together, as if they shared every op without a loss.

    A unit does products or works on lanes, never both, so that times add up; whichever is longer
    has the name. No mapping has a shorter period than the sum over the ops of a chip.

    Args:
        chip: from `fabric_chip.chip_of`.
        work: of the ops.
    """
    macs = sum(part.gemm.macs for part in work.gemms)
    products = macs / _products_per_s(chip)
    lanes = work.lane_ops / _lane_ops_per_s(chip)
    if products >= lanes:
        return {"array": products + lanes, "vector": 0.0, "memory": 0.0}
    return {"array": 0.0, "vector": products + lanes, "memory": 0.0}


@dataclass(frozen=True)
class FabricCosts(Roofline):
    """Implements `mcm_compiler.contracts.cost.PricesGraphs`, too."""

    def copy_s(self, value: ir.Value) -> float:
        """Nothing: laid out views are wires."""
        return 0.0

    def of_graph(self, graph: ir.Graph) -> GraphCosts:
        """The same costs, none for ops that are not laid out, and in all no more than counts."""
        return GraphCosts(self, graph)


class GraphCosts:
    """Implements `mcm_compiler.contracts.cost.CostModel` for the ops of one graph.

    What a stage works for a sample saturates at `MOST_WORK`, so that no chip certainly takes longer
    than that takes all units. Of graphs with more work only so much is priced: the longest ops cost
    equally much, and less than on their own.

    Args:
        costs: of ops on their own.
        graph: in topological order.
    """

    def __init__(self, costs: FabricCosts, graph: ir.Graph) -> None:
        self.name = costs.name
        self._costs = costs
        self._graph = graph
        most_s = MOST_WORK / max(_products_per_s(costs.chip), _lane_ops_per_s(costs.chip))
        alone = {node: costs.node_cost(node) for node in laid_out_ops(graph)}
        seconds = [cost.seconds for cost in alone.values()]
        self._whole = math.fsum(seconds) <= most_s
        longest_s = math.inf if self._whole else _level(seconds, most_s)
        self._of_node: Mapping[ir.Node, NodeCost] = {
            node: cost if cost.seconds <= longest_s else replace(cost, seconds=longest_s)
            for node, cost in alone.items()
        }

    def storage_bytes(self, value: ir.Value) -> int:
        """As `Roofline.storage_bytes`."""
        return self._costs.storage_bytes(value)

    def is_view(self, node: ir.Node) -> bool:
        """As `Roofline.is_view`."""
        return self._costs.is_view(node)

    def node_cost(self, node: ir.Node) -> NodeCost:
        """Cost of `node` on its own; 0 s where the graph has it and it is not laid out."""
        found = self._of_node.get(node)
        if found is not None:
            return found
        cost = self._costs.node_cost(node)
        return cost if node.graph is not self._graph else _idle(cost)

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Cost of `nodes` run as one kernel: that of those that are laid out."""
        cost = self._costs.group_cost(nodes)
        if self._whole and all(n in self._of_node or n.graph is not self._graph for n in nodes):
            return cost
        seconds = math.fsum(self.node_cost(node).seconds for node in nodes)
        return replace(cost, seconds=seconds) if seconds else _idle(cost)


def fabric_costs(chip: ChipSpec) -> CostPair:
    """For search and bounds; what is played are measured mappings, and never shorter."""
    costs = FabricCosts(chip, fabric_times, NAME)
    return CostPair(costs, costs)


def _products_per_s(chip: ChipSpec) -> float:
    return chip.array.rows * chip.array.cols * chip.array.clock_hz


def _lane_ops_per_s(chip: ChipSpec) -> float:
    return chip.vector.lanes * chip.vector.clock_hz


def _idle(cost: NodeCost) -> NodeCost:
    return replace(cost, seconds=0.0, bound_by="none")


def _level(seconds: Sequence[float], most_s: float) -> float:
    """The number of seconds that none may exceed so that their sum is `most_s`."""
    left_s = most_s
    for count, each in zip(range(len(seconds), 0, -1), sorted(seconds), strict=True):
        if each * count > left_s:
            return left_s / count
        left_s -= each
    return math.inf


FABRIC_RESOURCES = (
    Resource("compute array", ("compute.macs_per_cycle",)),
    Resource("vector lanes", ("compute.lanes",)),
    Resource("SRAM", ("memory.unit_kib",)),
    *OUTER_RESOURCES,
)
"""Resources of a package of fabrics that an exploration can vary."""


@dataclass(frozen=True)
class FabricSpec:
    """A package whose chips are fabrics.

    Attributes:
        plain: the same package with each fabric as one large array; it shows how chips are
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

    addition: ClassVar[str] = FABRIC_SECTION
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
        """Resources that an exploration can vary, as far as the description has them."""
        return FABRIC_RESOURCES

    @property
    def ordered_keys(self) -> dict[str, bool]:
        """See `OrdersKeys`."""
        return {**self.spec.plain.ordered_keys, **ordered(fabric_file.GRID_KEYS)}

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
        from mcm_hardware.families.fabric.measuring.player import ENOUGH, MOST_HOPS, FlitJudge

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
