"""Activations of one chip: the order of kernels that they ask for, their lives and addresses.

Bodies of `If`, `Loop`, `Scan` and `SequenceMap` have SRAM for what they compute on their way.
Weights of bodies are weights of the chip (`chip_dataflow`). Activations of a body are held while
its op runs, in one buffer of the op; within it they have addresses as a chip's activations have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice, pairwise

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.types import Bools, Longs
from mcm_compiler.graph.constants import consumed_values, subgraphs
from mcm_compiler.graph.rounds import class_of
from mcm_compiler.graph.states import kept_bytes
from mcm_hardware.chip.chip_dataflow import ChipDataflow, HeldState, KernelNodes
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.chip.kernel_work import is_view
from mcm_hardware.memory.low_memory_order import live_ranges, low_memory_order, peak_of_order
from mcm_hardware.memory.offset_assignment import plan_offsets

SCRATCH = "/body"
"""Behind the name of an op: the buffer in which its bodies compute."""


def with_body_memory(
    flow: ChipDataflow, spec: ChipSpec, on_host: Callable[[KernelNodes], bool] | None = None
) -> ChipDataflow:
    """The tensors of a chip with one more for each op that has bodies: what those need next to it.

    Args:
        flow: tensors of the chip.
        spec: the chip.
        on_host: as `chip_dataflow`; what the host runs needs nothing here.
    """
    writer = dict(flow.writer)
    for position, kernel in enumerate(flow.kernels):
        if on_host is not None and on_host(kernel):
            continue
        for node in kernel.nodes:
            if node.attributes and (scratch := body_scratch(node, spec)) is not None:
                writer[scratch] = position
    return flow if len(writer) == len(flow.writer) else replace(flow, writer=writer)


def body_scratch(node: ir.Node, spec: ChipSpec) -> ir.Value | None:
    """A stand-in for the memory that the bodies of `node` compute in; None where they need none.

    It is a tensor of bytes that no op reads, so that a plan holds it while the op runs.
    """
    size = body_bytes(node, spec)
    if size == 0:
        return None
    bits = spec.storage.element_bits(ir.DataType.UINT8)
    return ir.Value(
        name=f"{node.name}{SCRATCH}",
        type=ir.TensorType(ir.DataType.UINT8),
        shape=ir.Shape([-(-size * 8 // bits)]),
    )


def body_bytes(node: ir.Node, spec: ChipSpec) -> int:
    """SRAM of the body of `node` that needs most; of several one runs, the branches of an `If`.

    What a branch of an `If` returns is written where the op's own outputs lie. What a loop's body
    takes and returns (its state, slices) is in the body, until its last reader and to the end.
    """
    returned = node.op_type == "If"
    return max((_graph_bytes(graph, returned, spec) for graph in subgraphs(node)), default=0)


def _graph_bytes(graph: ir.Graph, returned: bool, spec: ChipSpec) -> int:
    """End of the highest buffer of one body; ops run in their order, views share memory."""
    root: dict[ir.Value, ir.Value] = {}
    first: dict[ir.Value, int] = dict.fromkeys(graph.inputs, 0)
    last: dict[ir.Value, int] = {}
    inner: list[tuple[int, int]] = []
    nodes = list(graph)
    for position, node in enumerate(nodes):
        for value in consumed_values(node):
            last[root.get(value, value)] = position
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            continue  # a weight
        if is_view(node) and node.inputs[0] is not None:
            source = node.inputs[0]
            root[node.outputs[0]] = root.get(source, source)
            continue
        for value in node.outputs:
            if value.name or value.uses():
                first[value] = position
        if node.attributes and (size := body_bytes(node, spec)):
            inner.append((position, size))
    end = max(len(nodes) - 1, 0)
    results = {root.get(value, value) for value in graph.outputs}
    held = [value for value in first if not (returned and value in results)]
    sizes = [buffer_bytes(spec, spec.storage.value_bytes(value)) for value in held]
    begins = [first[value] for value in held]
    ends = [end if value in results else max(last.get(value, 0), first[value]) for value in held]
    for position, size in inner:
        sizes.append(size)
        begins.append(position)
        ends.append(position)
    if not any(sizes):
        return 0
    _, high_water = plan_offsets(
        np.array(sizes, np.int64), np.array(begins, np.int64), np.array(ends, np.int64), 0
    )
    return int(high_water)


LARGEST_BYTES = 1 << 42
"""Where sizes saturate, so that sums of them stay exact; no chip holds that much."""

MOST_CUTS = 16
"""Places that `order_by_demand` tries to cut an order at."""


def buffer_bytes(spec: ChipSpec, size_bytes: int) -> int:
    """Bytes that a buffer takes in SRAM, alignment included."""
    unit = spec.alignment_bytes
    return -(-min(size_bytes, LARGEST_BYTES) // unit) * unit


@dataclass(frozen=True, eq=False)
class Activations:
    """Values that need SRAM for a while, as `low_memory_order` takes them.

    Others need none: values that leave the chip have send buffers that stay, and a present is in
    the buffer of its state. Values that only their own kernel reads stay in registers, and views
    take nothing.

    Attributes:
        values: in the order of the chip's model.
        size: `[V]`, bytes.
        writer: `[V]`.
        reader_ptr: `[V + 1]`.
        readers: `[R]`.
        kept: `[V]`.
    """

    values: tuple[ir.Value, ...]
    size: Longs
    writer: Longs
    reader_ptr: Longs
    readers: Longs
    kept: Bools


@dataclass(frozen=True, eq=False)
class ActivationPlan:
    """Addresses of activations, from 0.

    Attributes:
        values: as in `Activations`.
        size: `[V]`, bytes.
        first: `[V]`, kernel from whose start each is held.
        last: `[V]`, kernel to whose end.
        offset: `[V]`, bytes.
        high_water_bytes: end of the highest.
    """

    values: tuple[ir.Value, ...]
    size: Longs
    first: Longs
    last: Longs
    offset: Longs
    high_water_bytes: int


def state_buffer_bytes(spec: ChipSpec, state: HeldState) -> int:
    """Memory of each buffer of a state: of its present, or of what a window of it keeps."""
    whole = spec.storage.value_bytes(state.present)
    return buffer_bytes(spec, kept_bytes(state.past, state.present, whole))


def find_activations(flow: ChipDataflow, spec: ChipSpec) -> Activations:
    """The activations of a chip."""
    held = {state.root for state in flow.states}
    found: list[tuple[ir.Value, int]] = []
    readers: list[tuple[int, ...]] = []
    for value, writer in flow.writer.items():
        reading = flow.readers.get(value, ())
        others = tuple(kernel for kernel in reading if kernel != writer)
        stays_inside = bool(reading) and not others and value not in flow.kept
        if value not in flow.leaving and value not in held and not stays_inside:
            found.append((value, writer))
            readers.append(others)
    storage = spec.storage
    return Activations(
        values=tuple(value for value, _ in found),
        size=np.array([buffer_bytes(spec, storage.value_bytes(v)) for v, _ in found], np.int64),
        writer=np.array([writer for _, writer in found], np.int64),
        reader_ptr=np.array([0, *accumulate(map(len, readers))], np.int64),
        readers=np.array([*chain.from_iterable(readers)], np.int64),
        kept=np.array([value in flow.kept for value, _ in found], np.bool_),
    )


def order_for_memory(flow: ChipDataflow, spec: ChipSpec) -> ChipDataflow:
    """The chip with its kernels in the order that `low_memory_order` chooses."""
    held = find_activations(flow, spec)
    order = low_memory_order(
        np.array([0, *accumulate(map(len, flow.after))], np.int64),
        np.array([*chain.from_iterable(flow.after)], np.int64),
        held.size,
        held.writer,
        held.reader_ptr,
        held.readers,
        held.kept,
    )
    if np.array_equal(order, np.arange(len(order))):
        return flow
    return flow.reordered(order.tolist())


def live_bytes(size: Longs, first: Longs, last: Longs, kernels: int) -> Longs:
    """`[K]`, bytes that are held while each kernel runs."""
    change = np.bincount(first, size, kernels + 1) - np.bincount(last + 1, size, kernels + 1)
    return np.cumsum(change, dtype=np.int64)[:kernels]


def order_by_demand(flow: ChipDataflow, spec: ChipSpec) -> ChipDataflow:
    """The chip with each kernel right before the first that needs it, so that tiles pass on.

    Kernels that make at most half of what they read run as soon as they can: what they read is
    free then. The order is cut where few bytes are held, as long as that lowers the peak: all
    kernels before a cut are done before those behind, for instance those of one small image. All
    classes of a round are cut alike.
    """
    held, count = find_activations(flow, spec), len(flow.kernels)
    values = held.size, held.writer, held.reader_ptr, held.readers, held.kept
    made = np.bincount(held.writer, held.size, count)
    read = np.bincount(held.readers, np.repeat(held.size, np.diff(held.reader_ptr)), count)
    demand = _Demand(flow.after, (2.0 * made <= read).tolist())

    def tried(cuts: Iterable[int]) -> tuple[int, list[int]]:
        order = demand.order([*sorted(cuts), count])
        return int(peak_of_order(np.array(order, np.int64), *values)), order

    first, last = live_ranges(np.arange(count), *values[1:])
    held_at = live_bytes(held.size, first + 1, last, count)
    lowest = [k for k in range(2, count - 1) if held_at[k - 1] > held_at[k] <= held_at[k + 1]]
    lowest = sorted(lowest, key=lambda k: held_at[k])
    # Of all classes of a round, the first one has the fewest bytes.
    bases = [(class_of(kernel.name) or (kernel.name,))[0] for kernel in flow.kernels]
    alike: dict[str, set[int]] = {bases[k]: set() for k in lowest}
    for k, base in enumerate(bases):
        if base in alike:
            alike[base].add(k)
    candidates = [(min(found), found) for found in islice(alike.values(), MOST_CUTS)]
    cuts: set[int] = set()
    peak, order = tried(cuts)
    while True:
        rest = [(k, alike) for k, alike in candidates if not alike <= cuts]
        found = [(*tried(cuts | alike), k, alike) for k, alike in rest]
        lower, better, _, more = min(found, default=(peak, order, 0, cuts))
        if lower >= peak:
            return flow.reordered(order)
        peak, order, cuts = lower, better, cuts | more


class _Demand:
    """Orders of kernels by what needs them.

    Args:
        after: kernels that need what each kernel makes.
        soon: kernels that run as soon as they can.
    """

    def __init__(self, after: Sequence[Sequence[int]], soon: Sequence[bool]) -> None:
        self._after, self._soon = after, soon
        self._needs: list[list[int]] = [[] for _ in after]
        for kernel, later in enumerate(after):
            for reader in later:
                self._needs[reader].append(kernel)

    def order(self, cuts: Sequence[int]) -> list[int]:
        """The kernels, parts that end at `cuts` one after the other, the last cut their number."""
        found: dict[int, None] = {}
        waits = [len(needed) for needed in self._needs]
        for start, stop in pairwise((0, *cuts)):
            inside = {k for reader in range(start, stop) for k in self._needs[reader]}
            path = [k for k in reversed(range(start, stop)) if k not in inside]
            while path:
                kernel = path[-1]
                before = next((k for k in self._needs[kernel] if k not in found), None)
                if before is not None:
                    path.append(before)
                    continue
                path.pop()
                ready = [kernel] if kernel not in found else []
                while ready:
                    kernel = ready.pop()
                    found[kernel] = None
                    for reader in self._after[kernel]:
                        waits[reader] -= 1
                    new = [k for k in self._after[kernel] if not waits[k] and self._soon[k]]
                    ready += reversed(new)
        return list(found)


def plan_activations(flow: ChipDataflow, spec: ChipSpec) -> ActivationPlan:
    """Lives and addresses of a chip's activations; the kernels run as they are numbered."""
    held = find_activations(flow, spec)
    order = np.arange(len(flow.kernels))
    first, last = live_ranges(order, held.writer, held.reader_ptr, held.readers, held.kept)
    offset, high_water = plan_offsets(held.size, first, last, 0)
    return ActivationPlan(held.values, held.size, first, last, offset, int(high_water))
