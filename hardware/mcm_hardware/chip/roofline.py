"""The cost models `roofline` and `cycles`, over the engines of one chip.

After Williams, Waterman and Patterson 2009, *Roofline: An Insightful Visual Performance Model*:
the slowest of the resources that an op uses sets its time. Here they are the MAC array with tile
quantisation, the vector unit, and SRAM bandwidth; each kernel pays a launch. A matrix product
runs on the engine that is faster at it (`tile_cycles.runs_on_vector_unit`).

Devices of hosts have one arithmetic rate for all ops and no tile quantisation. What an
accelerator's library makes of a shape is not known here, so times are lower bounds that keep the
proportions between layers.

The least time of a kernel's work holds for whatever parts chips do it in. Parts are boxes of the
loops of an op: ranges of its rows (or, along one other axis, of its batch), columns, sums and
products. Together they compute every element of the result, each operand is read by some part, and
no part joins ops of several kernels. Under a model of engines that overlap, all parts together take
at least as long as each engine is busy with them.

`cycles` gives the durations of kernels in the simulator, and by default in search and bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import onnx_ir as ir

from mcm_compiler.contracts.cost import Engine, LeastWork, NodeCost
from mcm_hardware.chip import tile_cycles
from mcm_hardware.chip.chip_spec import ChipSpec, DeviceNumbers, MacArray, VectorUnit
from mcm_hardware.chip.kernel_work import KernelWork, Likeness, is_view, kernel_work, likeness
from mcm_hardware.chip.tile_cycles import runs_on_vector_unit, streaming_cycles
from mcm_hardware.op_costs.work import CONTROL_FLOW, Gemm, bodies_of
from mcm_hardware.tensors.storage_widths import StorageWidths


def cycle_model(chip: ChipSpec) -> Roofline:
    """The cost model of the simulator: `cycle_times` on `chip`.

    It differs from the roofline in what that leaves out, and all of it takes time, so that no
    kernel is shorter than under the roofline.
    """
    return Roofline(chip, cycle_times, "cycles")


def cycle_times(chip: ChipSpec, work: KernelWork) -> EngineTimes:
    """Times of the engines with what the roofline leaves out.

    - The MAC array fills and drains (`tile_cycles.pipelined_cycles`).
    - It reads an operand again for every tile row or column that needs it; SRAM bandwidth pays
      for that (`tile_cycles.left_readings`, `right_readings`).
    - The vector unit works on a block of results while the array makes the next one. Of a kernel
      that uses both, one block therefore takes its time on both in sequence. With `b` blocks, the
      shorter of the two times is hidden but for its `1 / b` (our derivation. It is the time of a
      pipeline of two stages and `b` equal items). The engine that is busy longer pays.

    A group still costs at most the sum of its ops: readings are at most theirs, its blocks are all
    of theirs, and `max(a, v) + min(a, v) / b` is subadditive in `(a, v)` and falls with `b`.
    """
    cycles, blocks, lane_ops = 0, 0, work.lane_ops
    size_bytes = work.read_bytes + work.write_bytes
    for part in work.gemms:
        if tile_cycles.runs_on_vector_unit(chip, part.gemm):
            lane_ops += part.gemm.macs
            continue
        cycles += tile_cycles.pipelined_cycles(chip.array, part.gemm)
        blocks += tile_cycles.result_blocks(chip.array, part.gemm)
        size_bytes += part.left_bytes * max(tile_cycles.left_readings(chip.array, part.gemm) - 1, 0)
        size_bytes += part.right_bytes * max(
            tile_cycles.right_readings(chip.array, part.gemm) - 1, 0
        )
    array = cycles / chip.array.clock_hz
    vector = lane_ops / (chip.vector.lanes * chip.vector.clock_hz)
    exposed = min(array, vector) / blocks if blocks else 0.0
    return {
        "array": array + (exposed if array >= vector else 0.0),
        "vector": vector + (exposed if array < vector else 0.0),
        "memory": size_bytes / chip.sram_bytes_per_s,
    }


def launch_seconds(chip: ChipSpec, seconds: float) -> float:
    """The part of a kernel's `seconds` that is its launch; none where nothing runs."""
    return min(chip.launch_s / chip.speed, seconds)


def least_work(chip: ChipSpec, work: KernelWork, *, in_blocks: bool) -> LeastWork:
    """On a chip of speed 1, with one launch.

    Where engines take turns on blocks of results (`cycle_times`), no part of a product has more
    blocks than the whole. So `1 / blocks` of the shorter time is added at least: for any sums of
    times `a` and `v` of parts, `max(a, v) + min(a, v) / b` is at least `a + v / b` and `v + a / b`.

    A product of a part runs on the array or on the lanes as a whole. Of several products in a
    kernel, one may run on the array while another runs on the lanes, which halves their sum at
    best.
    """
    if not work.runs:
        return LeastWork(0.0, 0.0, 0.0)
    products = [_product(chip, part.gemm) for part in work.gemms]
    together_s = sum(seconds for seconds, _ in products)
    lanes_s = work.lane_ops / (chip.vector.lanes * chip.vector.clock_hz)
    memory_s = (work.read_bytes + work.write_bytes) / chip.sram_bytes_per_s
    product_s = max([together_s / 2.0, *(seconds for seconds, _ in products)])
    seconds = max(product_s, lanes_s)
    exposed_s = 0.0
    if in_blocks and len(products) == 1 and product_s > 0.0:
        blocks = tile_cycles.result_blocks(chip.array, work.gemms[0].gemm)
        exposed_s = min(product_s, lanes_s) / blocks
    bound = len(products) == 1 and seconds == product_s and seconds + exposed_s >= memory_s
    untied_s = chip.launch_s + (exposed_s if bound else 0.0)
    seconds = max(seconds + exposed_s, memory_s)
    return LeastWork(chip.launch_s + seconds, untied_s, products[0][1] if bound else 0.0)


def _product(chip: ChipSpec, gemm: Gemm) -> tuple[float, float]:
    """Seconds of all parts on the faster engine, and the share of the weights that it counts.

    The best of several measures. A measure gives each element of what stays in the array, of the
    result or of the weights, a number per axis. No range of R rows or C columns has more than 1.
    A part on the array takes at least as many passes as its elements have together, on
    the lanes the time of its elements.
    """
    array, lanes_hz = chip.array, chip.vector.lanes * chip.vector.clock_hz
    still = array.dataflow != "output_stationary"
    tall, steps = (gemm.k, gemm.m) if still else (gemm.m, gemm.k)
    best = 0.0, 0.0
    for row_weight, rows in _measures(tall, array.rows):
        for col_weight, cols in _measures(gemm.n, array.cols):
            each = min(row_weight * col_weight / array.clock_hz, 1.0 / lanes_hz)
            share = cols / max(gemm.n, 1) * (rows / max(tall, 1) if still else 1.0)
            best = max(best, (gemm.count * steps * each * rows * cols, share))
    return best


def _measures(extent: int, size: int) -> tuple[tuple[float, int], ...]:
    """Numbers of elements along an axis, each with how many elements have it.

    Spread evenly, or on the first elements of each range of `size`, as many as the last range has.
    Of those, a range of at most `size` elements has at most as many, wherever it begins.
    """
    if extent <= 0:
        return ((0.0, 0),)
    ranges = -(-extent // size)
    last = extent - (ranges - 1) * size
    return (1.0 / min(extent, size), extent), (1.0 / last, ranges * last)


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

        Never more than the sum of the node costs: there is one launch, and entering and leaving
        bytes are among those of the nodes. Times of engines add up at most, and the maximum of sums
        is at most the sum of maxima. Control-flow ops do not fuse; a group with one of them costs
        the sum.
        """

        def cost() -> NodeCost:
            found, speed = self._reference_cost(nodes), self.chip.speed
            busy = found.engines_s
            scaled = busy and {engine: seconds / speed for engine, seconds in busy.items()}
            return replace(found, seconds=found.seconds / speed, engines_s=scaled)

        return once(self._known, nodes, cost)

    def least_work(self, nodes: Sequence[ir.Node]) -> LeastWork | None:
        """See `PricesParts`; control flow is not divided."""
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
            engines_s=busy,
            lane_ops=work.lane_ops,
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
