"""Which ops a chip can run, by their names and the element types of their tensors.

Ops that chips lack cost round trips to the host. The chip gives all that an op reads and that is no
constant to the host, waits, and takes back all that others read. Ops of one kernel stay on the host
without a trip between them. So a trip of a kernel whose tensors of `u` bytes go up and of `d` bytes
come down takes

    launch + (u + d) / rate + 2 latency + time on the host

and all of it counts as work of the chip: its engine waits. Constants are at the host, and
intermediate results stay there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import onnx_ir as ir

from mcm_compiler.components.cost_files import measured_costs
from mcm_compiler.contracts.cost import (
    CalibratesCosts,
    Calibration,
    CopiesViews,
    CostModel,
    HostTrip,
    KnowsViews,
    MeasuredKernels,
    ModelNames,
    NodeCost,
)
from mcm_compiler.contracts.target import Fallback, Unsupported
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.graph.constants import consumed_values, leaves, subgraphs
from mcm_compiler.machines.machine import HOST, HOST_ROOT, Machine
from mcm_hardware.chip.chip_spec import ChipSpec, MacArray, VectorUnit
from mcm_hardware.chip.kernel_work import KernelWork
from mcm_hardware.tensors.storage_widths import StorageWidths, is_constant, value_dtype

if TYPE_CHECKING:
    from mcm_hardware.chip.roofline import EngineTimes, Roofline


@dataclass(frozen=True)
class HostLink:
    """Link that every chip can count on between itself and the host.

    Attributes:
        bytes_per_s: rate each way.
        latency_s: delay of one way.
    """

    bytes_per_s: float
    latency_s: float


def host_link(machine: Machine) -> HostLink | None:
    """The slowest link of a device of `machine`; None where some reach the host through others.

    Of a channel that all devices share each gets an equal part, so that round trips of all of them
    together never ask for more than it carries.
    """
    rate, latency = math.inf, 0.0
    for device in range(machine.num_devices):
        for route in (machine.route(HOST, device), machine.route(device, HOST)):
            ends = {int(end) for channel in route for end in machine.channel_ends[channel]}
            if not route or not ends <= {HOST, HOST_ROOT, device}:
                return None
            for channel in route:
                parts = machine.num_devices if channel in machine.shared_channels else 1
                rate = min(rate, float(machine.channel_bytes_per_s[channel]) / parts)
            delay = sum(float(machine.channel_latency_s[channel]) for channel in route)
            latency = max(latency, delay)
    return HostLink(rate, latency)


def host_roofline(numbers: HostNumbers) -> Roofline:
    """The cost model of ops on the host, one after another; tensors are as wide as ONNX says."""
    # Packages read from descriptions need no costs yet.
    from mcm_hardware.chip.roofline import Roofline

    host = ChipSpec(
        sram_bytes=0,
        sram_bytes_per_s=numbers.memory_bytes_per_s,
        alignment_bytes=1,
        launch_s=numbers.launch_s,
        array=MacArray(rows=1, cols=1, clock_hz=numbers.ops_per_s / 2),
        vector=VectorUnit(lanes=1, clock_hz=numbers.ops_per_s),
        storage=StorageWidths({}),
    )
    return Roofline(host, timing=_host_times, name="host")


def _host_times(host: ChipSpec, work: KernelWork) -> EngineTimes:
    """Seconds of arithmetic and of memory traffic; matrix products and the rest add up."""
    macs = sum(part.gemm.macs for part in work.gemms)
    return {
        "vector": macs / host.array.clock_hz + work.lane_ops / host.vector.clock_hz,
        "memory": (work.read_bytes + work.write_bytes) / host.sram_bytes_per_s,
    }


@dataclass(frozen=True)
class HostFallbackCosts:
    """Implements `CostModel`, `KnowsViews` and `KnowsHostOps`.

    Attributes:
        chips: the costs of what chips run.
        support: ops that they do not run.
        link: between a chip and the host.
        launch_s: overhead of starting a kernel on a chip of speed 1.
        speed: of the fastest chip. A trip takes as long whichever chip waits for it, but costs are
            those of a chip of speed 1 and are divided by a chip's own. So no chip is charged less
            than the trip takes, and the fastest is charged just that.
    """

    chips: CostModel
    support: OpSupport
    link: HostLink
    launch_s: float
    speed: float

    @property
    def name(self) -> str:
        """That of the model for what chips run."""
        return self.chips.name

    def storage_bytes(self, value: ir.Value) -> int:
        """Bytes of `value` in SRAM and on a link."""
        return self.chips.storage_bytes(value)

    def is_view(self, node: ir.Node) -> bool:
        """Return whether the first output of `node` is in the memory of its first input."""
        return isinstance(self.chips, KnowsViews) and self.chips.is_view(node)

    def copy_s(self, value: ir.Value) -> float:
        """Seconds in which a chip copies `value`."""
        return self.chips.copy_s(value) if isinstance(self.chips, CopiesViews) else 0.0

    def on_host(self, node: ir.Node) -> bool:
        """Return whether the host runs `node`."""
        return self.support.unsupported(node) is not None

    def node_cost(self, node: ir.Node) -> NodeCost:
        """Cost of `node` on its own."""
        return self.group_cost((node,))

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Cost of `nodes` as one kernel: of the chip, or as one round trip."""
        if not any(self.on_host(node) for node in nodes):
            return self.chips.group_cost(nodes)
        host = host_roofline(self.support.host)
        costs = [host.node_cost(node) for node in nodes]
        up_bytes, down_bytes = self._crossing(nodes)
        transfer_s = (up_bytes + down_bytes) / self.link.bytes_per_s + 2 * self.link.latency_s
        host_s = math.fsum(cost.seconds for cost in costs)
        trip = HostTrip(
            up_bytes, down_bytes, transfer_s, host_s, self.chips.group_cost(nodes).seconds
        )
        return NodeCost(
            flops=sum(cost.flops for cost in costs),
            read_bytes=up_bytes,
            write_bytes=down_bytes,
            weight_bytes=0,
            seconds=(self.launch_s + transfer_s + host_s) * self.speed,
            bound_by="host",
            modelled=all(cost.modelled for cost in costs),
            trip=trip,
        )

    def _crossing(self, nodes: Sequence[ir.Node]) -> tuple[int, int]:
        """Bytes that go up and come down.

        Whether a tensor goes up is the same in the whole graph and in a chip's part of it: what
        the host itself sent, or another chip, is on the chip by then.
        """
        members = {*nodes, *(inner for node in nodes for inner in _inside(node))}
        made = {value: None for node in nodes for value in node.outputs}
        read = {
            value: None
            for node in nodes
            for value in consumed_values(node)
            if value not in made and not is_constant(value)
        }
        # What one op makes comes down whole, as one op on a chip writes all that it makes.
        back = [
            value
            for value in made
            if (bool(value.name) if len(nodes) == 1 else leaves(value, members))
        ]
        return sum(map(self.storage_bytes, read)), sum(map(self.storage_bytes, back))

    @property
    def measures(self) -> bool:
        """True if some of what chips run was measured."""
        return measured_costs(self.chips) is not None

    def name_faults(self, names: ModelNames) -> Sequence[Diagnostic]:
        """See `MeasuredCosts`; none of chips whose times are all computed."""
        measured = measured_costs(self.chips)
        return () if measured is None else measured.name_faults(names)

    def measured_kernels(self, kernels: Iterable[Sequence[ir.Node]]) -> MeasuredKernels:
        """See `CalibratesCosts`; ops that the host runs are no measure of chips."""
        if not isinstance(self.chips, CalibratesCosts):
            return ()
        return self.chips.measured_kernels(k for k in kernels if not any(map(self.on_host, k)))

    def calibration(self, models: Sequence[MeasuredKernels]) -> Calibration | None:
        """See `CalibratesCosts`."""
        return self.chips.calibration(models) if isinstance(self.chips, CalibratesCosts) else None


def _inside(node: ir.Node) -> Iterator[ir.Node]:
    """All ops in the subgraphs of `node`, at any depth."""
    for graph in subgraphs(node) if node.attributes else ():
        for inner in graph:
            yield inner
            yield from _inside(inner)


TABLE_BYTES = 2**20
"""Size in the file from which a table counts as large."""

ROWS_PER_READ = 16
"""Rows that a large table has at least for each that an inference reads."""

RUNS_NOTHING = frozenset({"Constant", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze",
                          "com.microsoft::ExpandDims"})  # fmt: skip
"""Ops that no chip can lack: views and constants run nothing, and an Identity is what passes a
tensor on, a copy of bytes whatever their type."""

_POSITIONS = frozenset({"tensor(int32)", "tensor(int64)"})

PEAK_OPS_PER_S = 1e11
"""Of one core with two 256-bit units for float32 at 3 GHz, rounded up."""

MEMORY_BYTES_PER_S = 2e10
"""About one channel of DDR4."""

LAUNCH_S = 5e-6
"""An interrupt, a wake-up and a call of a kernel."""


@dataclass(frozen=True)
class HostNumbers:
    """The share of the host that each chip has at any time, however many chips ask for it.

    Attributes:
        ops_per_s: arithmetic; a multiply-accumulate counts as two.
        memory_bytes_per_s: between the host's cores and its memory.
        launch_s: overhead of one op.
    """

    ops_per_s: float = PEAK_OPS_PER_S
    memory_bytes_per_s: float = MEMORY_BYTES_PER_S
    launch_s: float = LAUNCH_S


@dataclass(frozen=True)
class OpSupport:
    """The ops that chips can run, and the handling of the rest.

    Attributes:
        ops: names as `op_name` gives them.
        only_ops: whether chips run these ops alone, or all but these.
        types: element types.
        only_types: whether chips know these types alone, or all but these.
        fallback: what becomes of the rest where a compile does not say.
        host: how fast it is there.
        large_tables: place of tables of which an inference reads few rows.
    """

    ops: frozenset[str] = frozenset()
    only_ops: bool = False
    types: frozenset[ir.DataType] = frozenset()
    only_types: bool = False
    fallback: Fallback = "host"
    host: HostNumbers = HostNumbers()
    large_tables: Literal["chips", "host"] = "chips"

    def unsupported(self, node: ir.Node) -> Unsupported | None:
        """Why chips cannot run `node`; None if they can.

        An op with subgraphs needs all that stands in them. A constant operand whose ONNX type is
        that of sizes, axes and positions is no tensor of the chip: it is known beforehand.
        """
        name = op_name(node)
        if name in RUNS_NOTHING:
            return None
        if (name in self.ops) is not self.only_ops:
            return Unsupported("op", name)
        if self.large_tables == "host" and reads_few_rows(node):
            return Unsupported("table", name)
        for value in self._lacking(node):
            dtype = value_dtype(value)
            return Unsupported("type", dtype.name if dtype is not None else "")
        for graph in subgraphs(node) if node.attributes else ():
            for inner in graph:
                if (found := self.unsupported(inner)) is not None:
                    return Unsupported(found.because, found.what, inside=True)
        return None

    def _lacking(self, node: ir.Node) -> Iterator[ir.Value]:
        """Tensors of `node` whose type chips do not know."""
        if not self.types:
            return
        for index, value in enumerate((*node.inputs, *node.outputs)):
            dtype = None if value is None else value_dtype(value)
            if value is None or dtype is None or dtype is ir.DataType.UNDEFINED:
                continue
            if (dtype in self.types) is self.only_types:
                continue
            known = index < len(node.inputs) and is_constant(value)
            if not (known and _is_position(node.domain, node.op_type, node.version, index)):
                yield value


@dataclass(frozen=True)
class SharedSupport(OpSupport):
    """The ops that chips of some kind can run.

    Attributes:
        kinds: what chips of each kind run.
    """

    kinds: tuple[OpSupport, ...] = ()

    def unsupported(self, node: ir.Node) -> Unsupported | None:
        """Why no chip can run `node`, as the first kind says; None if some kind can."""
        reasons = [kind.unsupported(node) for kind in self.kinds]
        return None if None in reasons else reasons[0]


def reads_few_rows(node: ir.Node) -> bool:
    """Return whether an op looks up few rows of a large constant table in an inference."""
    axis = {"Gather": "axis", "com.microsoft::GatherBlockQuantized": "gather_axis"}
    if (name := axis.get(op_name(node))) is None or node.attributes.get_int(name, 0) != 0:
        return False
    table, indices = node.inputs[:2]
    if table is None or indices is None or table.dtype is None or not is_constant(table):
        return False
    sizes, read = _sizes(table), _sizes(indices)
    if sizes is None or read is None:
        return False
    large = math.prod(sizes) * table.dtype.itemsize >= TABLE_BYTES
    return large and ROWS_PER_READ * math.prod(read) <= sizes[0]


def _sizes(value: ir.Value) -> tuple[int, ...] | None:
    """The shape of a value, if it is known."""
    shape = value.shape
    return shape.numpy() if shape is not None and shape.is_static() else None


def op_name(node: ir.Node) -> str:
    """`Softmax`, or with another domain than ONNX's own `com.microsoft::Gelu`."""
    if node.domain in ("", "ai.onnx"):
        return node.op_type
    return f"{node.domain}::{node.op_type}"


@lru_cache(maxsize=4096)
def _is_position(domain: str, op_type: str, version: int | None, index: int) -> bool:
    """Return whether an input of an op is of integers alone: sizes, axes or positions."""
    import onnx.defs

    domain = "" if domain == "ai.onnx" else domain
    try:
        schema = (
            onnx.defs.get_schema(op_type, domain)
            if version is None
            else onnx.defs.get_schema(op_type, version, domain)
        )
    except onnx.defs.SchemaError:
        return False
    if not schema.inputs:
        return False
    formal = schema.inputs[min(index, len(schema.inputs) - 1)]
    return set(formal.types) <= _POSITIONS
