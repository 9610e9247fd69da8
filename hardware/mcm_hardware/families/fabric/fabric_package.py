"""The family of fabrics: targets whose chips are laid out unit by unit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import onnx_ir as ir

from mcm_compiler.contracts.cost import NodeCost
from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO, MEMORY, Fabric, MappingProblem
from mcm_compiler.contracts.fabrics.target import FABRIC_SECTION, MappedChip, UnitChoice
from mcm_compiler.contracts.target import Resource, ShrinkableTarget
from mcm_compiler.machines.machine import Machine
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.chip.kernel_work import KernelWork
from mcm_hardware.chip.named_costs import CostPair
from mcm_hardware.chip.roofline import EngineTimes, Roofline
from mcm_hardware.descriptions.target_schema import ordered
from mcm_hardware.families.fabric import fabric_file
from mcm_hardware.families.fabric.layout.laid_out_ops import laid_out_ops
from mcm_hardware.families.fabric.layout.op_work import MOST_WORK
from mcm_hardware.package.chips_package import OUTER_RESOURCES, ChipsPackage
from mcm_hardware.package.described_target import DescribedTarget

if TYPE_CHECKING:
    import onnx_ir as ir

    from mcm_compiler.contracts.fabrics.measurement import MappingJudge
    from mcm_compiler.contracts.program import LoweredProgram, Simulator
    from mcm_compiler.contracts.target import ChipModel, PackageLimits, Wire
    from mcm_compiler.machines.package_limits import EnergyCosts


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
