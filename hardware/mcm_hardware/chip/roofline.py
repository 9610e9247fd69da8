"""The cost model `roofline`, over the engines of one chip.

After Williams, Waterman and Patterson 2009, *Roofline: An Insightful Visual Performance Model*:
the slowest of the resources that an op uses sets its time. Here they are the MAC array with tile
quantisation, the vector unit, and SRAM bandwidth; each kernel pays a launch. A matrix product
runs on the engine that is faster at it (`engine_choice.py`).

Williams, Waterman and Patterson 2009, *Roofline: An Insightful Visual Performance Model*, with one
arithmetic rate for all ops. There is no tile quantisation: what an accelerator's library makes of
a shape is not known here, so times are lower bounds that keep the proportions between layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import onnx_ir as ir

from mcm_compiler.contracts.cost import Engine, LeastWork, NodeCost
from mcm_hardware.chip.chip_spec import ChipSpec, DeviceNumbers, MacArray, VectorUnit
from mcm_hardware.chip.kernel_work import KernelWork, is_view, kernel_work
from mcm_hardware.chip.least_work import least_work
from mcm_hardware.chip.op_likeness import Likeness, likeness
from mcm_hardware.chip.tile_cycles import runs_on_vector_unit, streaming_cycles
from mcm_hardware.op_costs.work import CONTROL_FLOW, bodies_of
from mcm_hardware.tensors.storage_widths import StorageWidths

MAX_KNOWN = 10_000
"""Kinds of ops whose costs one model keeps."""

EngineTimes = dict[Engine, float]
"""Seconds that a kernel keeps each engine busy."""

_T = TypeVar("_T")

Timing = Callable[[ChipSpec, KernelWork], EngineTimes]
"""Times of the engines on a chip of speed 1; they overlap, so that the longest one counts."""


def engine_times(chip: ChipSpec, work: KernelWork) -> EngineTimes:
    """Times of the roofline: each operand is read once, and no engine ever waits."""
    cycles, lane_ops = 0, work.lane_ops
    for part in work.gemms:
        if runs_on_vector_unit(chip, part.gemm):
            lane_ops += part.gemm.macs
        else:
            cycles += streaming_cycles(chip.array, part.gemm)
    return {
        "array": cycles / chip.array.clock_hz,
        "vector": lane_ops / (chip.vector.lanes * chip.vector.clock_hz),
        "memory": (work.read_bytes + work.write_bytes) / chip.sram_bytes_per_s,
    }


def copy_seconds(chip: ChipSpec, size_bytes: int) -> float:
    """Time of a kernel that copies `size_bytes` from one buffer to another."""
    return (chip.launch_s + 2 * size_bytes / chip.sram_bytes_per_s) / chip.speed


@dataclass(frozen=True)
class Roofline:
    """Implements `mcm_compiler.contracts.cost.CostModel` for one chip.

    Attributes:
        chip: its numbers.
        timing: how long a kernel keeps the engines busy.
        name: printed with every number that comes from this model.
    """

    chip: ChipSpec
    timing: Timing = engine_times
    name: str = "roofline"
    _known: dict[Likeness, NodeCost] = field(
        default_factory=dict[Likeness, NodeCost], init=False, repr=False, compare=False
    )
    _least: dict[Likeness, LeastWork] = field(
        default_factory=dict[Likeness, LeastWork], init=False, repr=False, compare=False
    )

    def storage_bytes(self, value: ir.Value) -> int:
        """Bytes of `value` in SRAM and on a link; 0 where its type or rank is unknown."""
        return self.chip.storage.value_bytes(value)

    def is_view(self, node: ir.Node) -> bool:
        """Return whether the first output of `node` is its first input under another shape."""
        return is_view(node)

    def copy_s(self, value: ir.Value) -> float:
        """Seconds of a kernel that copies `value` from one buffer to another."""
        return copy_seconds(self.chip, self.storage_bytes(value))

    def node_cost(self, node: ir.Node) -> NodeCost:
        """Cost of `node` on its own.

        The costlier branch of an `If` counts; bodies of loops count once per trip.
        """
        return self.group_cost((node,))

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Cost of `nodes` run as one kernel.

        Never more than the sum of the node costs: there is one launch, entering and leaving bytes
        are among those of the nodes, and times of engines add up at most, so that the maximum of
        sums is at most the sum of maxima.
        Control-flow ops do not fuse; a group with one of them costs the sum.
        """

        def cost() -> NodeCost:
            found = self._reference_cost(nodes)
            return replace(found, seconds=found.seconds / self.chip.speed)

        return once(self._known, nodes, cost)

    def least_work(self, nodes: Sequence[ir.Node]) -> LeastWork | None:
        """See `PricesParts`; control flow is not divided."""
        from mcm_hardware.chip.cycle_model import cycle_times

        if any((node.domain, node.op_type) in CONTROL_FLOW for node in nodes):
            return LeastWork(self.group_cost(nodes).seconds, 0.0, 0.0)
        if self.timing not in (engine_times, cycle_times):
            return None

        def least() -> LeastWork:
            work, speed = kernel_work(nodes, self.chip.storage), self.chip.speed
            found = least_work(self.chip, work, in_blocks=self.timing is cycle_times)
            return LeastWork(found.seconds / speed, found.untied_s / speed, found.weight_share)

        return once(self._least, nodes, least)

    def _reference_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Cost on a chip of speed 1; the speed is divided by once, so that it scales exactly."""
        if any((node.domain, node.op_type) in CONTROL_FLOW for node in nodes):
            return _total([self._control_flow_or_node_cost(node) for node in nodes])
        return self._cost(kernel_work(nodes, self.chip.storage))

    def _cost(self, work: KernelWork) -> NodeCost:
        if not work.runs:
            return NodeCost(0.0, 0, 0, 0, 0.0, "none")
        busy = self.timing(self.chip, work)
        engine = max(busy, key=lambda name: busy[name])
        return NodeCost(
            flops=work.flops,
            read_bytes=work.read_bytes,
            write_bytes=work.write_bytes,
            weight_bytes=work.weight_bytes,
            seconds=self.chip.launch_s + busy[engine],
            bound_by=engine if busy[engine] > 0 else "none",
            modelled=work.modelled,
        )

    def _control_flow_or_node_cost(self, node: ir.Node) -> NodeCost:
        if (node.domain, node.op_type) not in CONTROL_FLOW:
            return self._reference_cost((node,))
        bodies = bodies_of(node)
        costs = [
            _total([self._reference_cost((inner,)) for inner in graph]) for graph in bodies.graphs
        ]
        body = max(costs, key=lambda cost: cost.seconds, default=_total([]))
        return NodeCost(
            flops=body.flops * bodies.trips,
            read_bytes=body.read_bytes * bodies.trips,
            write_bytes=body.write_bytes * bodies.trips,
            weight_bytes=body.weight_bytes,
            seconds=self.chip.launch_s + body.seconds * bodies.trips,
            bound_by=body.bound_by,
            modelled=body.modelled,
        )


def once(known: dict[Likeness, _T], nodes: Sequence[ir.Node], find: Callable[[], _T]) -> _T:
    """The answer of `find` for a kernel, kept for all that are alike."""
    like = likeness(nodes)
    found = None if like is None else known.get(like)
    if found is None:
        found = find()
        if like is not None and len(known) < MAX_KNOWN:
            known[like] = found
    return found


def _total(costs: Sequence[NodeCost]) -> NodeCost:
    """Costs of ops run one after another; the engine is the one that most of the time goes to."""
    seconds: dict[Engine, float] = {"array": 0.0, "vector": 0.0, "memory": 0.0, "none": 0.0}
    for cost in costs:
        seconds[cost.bound_by] += cost.seconds
    return NodeCost(
        flops=sum(cost.flops for cost in costs),
        read_bytes=sum(cost.read_bytes for cost in costs),
        write_bytes=sum(cost.write_bytes for cost in costs),
        weight_bytes=sum(cost.weight_bytes for cost in costs),
        seconds=sum(cost.seconds for cost in costs),
        bound_by=max(seconds, key=lambda name: seconds[name]) if costs else "none",
        modelled=all(cost.modelled for cost in costs),
    )


_ALIGNMENT_BYTES = 256


def device_roofline(device: DeviceNumbers) -> Roofline:
    """The cost model of a device; tensors take as many bytes as ONNX says."""
    # The peak rate as one multiply-accumulate unit with a fast clock.
    macs_per_s = device.flops_per_s / 2
    chip = ChipSpec(
        sram_bytes=device.memory_bytes,
        sram_bytes_per_s=device.memory_bytes_per_s,
        alignment_bytes=_ALIGNMENT_BYTES,
        launch_s=device.launch_s,
        array=MacArray(rows=1, cols=1, clock_hz=macs_per_s),
        vector=VectorUnit(lanes=1, clock_hz=macs_per_s),
        storage=StorageWidths({}),
    )
    return Roofline(chip, timing=_device_times, name="device-roofline")


def _device_times(chip: ChipSpec, work: KernelWork) -> EngineTimes:
    """Seconds of arithmetic and of memory traffic; each operand is read once."""
    macs = sum(part.gemm.macs for part in work.gemms)
    return {
        "array": macs / chip.array.clock_hz,
        "vector": work.lane_ops / chip.vector.clock_hz,
        "memory": (work.read_bytes + work.write_bytes) / chip.sram_bytes_per_s,
    }
