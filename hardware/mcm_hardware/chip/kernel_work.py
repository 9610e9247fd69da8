"""Demands of a kernel, one op or a fused group, on a chip: engine work and bytes.

Large graphs repeat a few kinds of kernels. Those that must cost the same, because all that their
cost is made of is equal, are costed once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import onnx_ir as ir

from mcm_compiler.graph.annotations import properties_of
from mcm_compiler.graph.constants import attribute_data, leaves
from mcm_compiler.graph.states import IN_PLACE_PROPERTY, written_in_place
from mcm_compiler.graph.static_shapes import static_dims
from mcm_hardware.op_costs.data_movement import view
from mcm_hardware.op_costs.elementwise import BY_SHAPES_ALONE
from mcm_hardware.op_costs.formula_table import FORMULA_TABLE, op_formulas
from mcm_hardware.op_costs.node_shapes import NodeShapes, constant_scalar
from mcm_hardware.op_costs.work import MOVES_ONLY, Gemm, Work
from mcm_hardware.tensors.storage_widths import (
    StorageWidths,
    element_count,
    is_constant,
    packed_operands,
    value_dtype,
)

Likeness = tuple[object, ...]
"""Kernels with equal ones cost the same on one chip."""

_COMPARED = frozenset(
    {ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.FLOAT, ir.AttributeType.STRING}
)
"""Types of attributes that are compared by value."""


def likeness(nodes: Sequence[ir.Node]) -> Likeness | None:
    """All that the cost of a kernel follows from, as `kernel_work` reads it.

    Args:
        nodes: the ops in topological order.

    Returns:
        The ops and how they are wired, element types and static shapes of what they read and
        write, which of that is constant and, of several ops, what leaves the kernel. Of ops whose
        formula sees more than shapes, attributes and small constants as well. None where the cost
        may follow from anything else: data and graphs in attributes, open dimensions.
    """
    parts: list[object] = []
    places: dict[ir.Value, int] = {}
    for node in nodes:
        kind, inputs = (node.domain, node.op_type), node.inputs
        parts += (kind, len(inputs), properties_of(node).get(IN_PLACE_PROPERTY))
        if by_more := kind not in BY_SHAPES_ALONE:
            if kind not in FORMULA_TABLE or (fields := _attributes(node)) is None:
                return None
            parts.append(fields)
        for value in inputs:
            if value is None or value in places:
                parts.append(None if value is None else places[value])
                continue
            places[value] = len(places)
            if (known := _static(value)) is None:
                return None
            parts.append(known)
            parts.append(value.const_value is not None or is_constant(value))
            if value.producer() is not None:
                parts += map(_static, packed_operands(value))
            if by_more and value.const_value is not None:
                parts.append(constant_scalar(value))
        for value in node.outputs:
            places[value] = len(places)
            if (known := _static(value)) is None:
                return None
            parts.append(known)
    if len(nodes) > 1:
        members = set(nodes)
        parts += [leaves(value, members) for node in nodes for value in node.outputs]
    return tuple(parts)


def _attributes(node: ir.Node) -> tuple[object, ...] | None:
    """Attributes by name, or None where some are not compared."""
    attributes = node.attributes.data
    if not attributes:
        return ()
    found: list[object] = []
    for name, attribute in attributes.items():
        if attribute.is_ref() or attribute.type not in _COMPARED:
            return None
        value = attribute.value
        if attribute.type is ir.AttributeType.INTS:
            value = tuple(value)
        found.append((name, attribute.type, value))
    return tuple(found)


def _static(value: ir.Value) -> tuple[ir.DataType, tuple[int, ...]] | None:
    kind = value.type
    if type(kind) is not ir.TensorType or (dims := static_dims(value.shape)) is None:
        return None
    return kind.dtype, dims


APPENDING = frozenset({"Concat", "TensorScatter"})
"""Ops that read nothing of what their results grow from, where that is in place."""

RANGES = frozenset({"Concat", "Slice"})
"""Ops whose results stay in SRAM, as ranges of what a kernel reads."""

_REPEATING = frozenset({"Expand", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Ops behind which a kernel need not scale by a number: it can do so before them."""


@dataclass(frozen=True)
class KernelGemm:
    """Matrix products of a kernel, with what one reading of each operand takes.

    Attributes:
        gemm: the products.
        left_bytes: bytes of all their left operands; 0 where they are in registers.
        right_bytes: bytes of all their right operands; 0 where they are in registers.
    """

    gemm: Gemm
    left_bytes: int
    right_bytes: int


@dataclass(frozen=True)
class KernelWork:
    """Demands of one kernel on a chip.

    Attributes:
        gemms: work of the MAC array.
        lane_ops: work of the vector unit.
        read_bytes: bytes read from SRAM, each operand once.
        write_bytes: bytes written to SRAM.
        weight_bytes: bytes of its constant operands.
        runs: False where nothing runs (views, constants), so that there is no launch either.
        modelled: False where some op has no formula and only its bytes are counted.
    """

    gemms: tuple[KernelGemm, ...]
    lane_ops: int
    read_bytes: int
    write_bytes: int
    weight_bytes: int
    runs: bool
    modelled: bool

    @property
    def flops(self) -> float:
        """Operations; a multiply-accumulate counts as two."""
        return float(2 * sum(part.gemm.macs for part in self.gemms) + self.lane_ops)


def formula_work(node: ir.Node) -> Work | None:
    """Work of `node` by its formula, or None where it has none."""
    formula = op_formulas().get((node.domain, node.op_type))
    return None if formula is None else formula(NodeShapes(node))


def is_view(node: ir.Node) -> bool:
    """Return whether the first output of `node` is its first input under another shape."""
    kind = (node.domain, node.op_type)
    formula = op_formulas().get(kind)
    if formula is None or not node.inputs or node.inputs[0] is None:
        return False
    if formula is FORMULA_TABLE.get(kind):
        return formula is view  # asked of every op of large graphs, several times
    return formula(NodeShapes(node)).execution == "view"


def kernel_work(nodes: Sequence[ir.Node], storage: StorageWidths) -> KernelWork:
    """Work of `nodes` run as one kernel.

    SRAM is read for values that enter the group, each once, and written for values that leave it:
    that are read outside or are graph outputs. What passes between its ops stays in registers. A
    view inside stands for the memory behind it. Where a value is repeated and then multiplied by a
    number, as a cache is whose heads are shared, it is multiplied first.

    Args:
        nodes: the ops in topological order; without control flow, whose cost is in its bodies.
        storage: widths of values in SRAM.
    """
    if len(nodes) == 1:
        return _lone_work(nodes[0], storage)
    members = set(nodes)
    behind: dict[ir.Value, ir.Value] = {}
    produced: set[ir.Value] = set()
    written: dict[ir.Value, int] = {}
    in_registers: set[ir.Value] = set()
    reads: dict[ir.Value, int] = {}
    leaving: dict[ir.Value, None] = {}
    once: dict[ir.Value, int] = {}
    gemms: list[KernelGemm] = []
    rights: list[ir.Value | None] = []
    lane_ops = data_bytes = data_read_bytes = 0
    runs, modelled = False, True
    for node in nodes:
        work = formula_work(node)
        sources = [behind.get(v, v) for v in node.inputs if v is not None]
        if is_view(node) and (source := node.inputs[0]) is not None:
            behind[node.outputs[0]] = behind.get(source, source)
        else:
            produced.update(node.outputs)
            written |= _written_bytes(node, storage)
            if node.op_type not in RANGES or not in_registers.isdisjoint(sources):
                in_registers.update(node.outputs)
        if node.op_type in _REPEATING and (source := node.inputs[0]) is not None:
            once[node.outputs[0]] = once.get(source, element_count(source))
        modelled = modelled and work is not None
        work = work or MOVES_ONLY
        if work.execution == "kernel":
            runs = True
            gemms += _gemms(node, work, storage, in_registers, behind)
            right = node.inputs[1] if len(node.inputs) > 1 else None
            chained = right is None or sources[0] in produced or not is_constant(right)
            several = len(work.gemms) > 1  # of weights of their own
            rights += [None if chained or several else right] * len(work.gemms)
            lane_ops += _lane_ops(node, _scaled_once(node, work, once), storage)
            for value, size in _operand_bytes(node, work, storage).items():
                root = behind.get(value, value)
                if root not in produced:
                    reads[root] = max(size, reads.get(root, 0))
            stored, read = _data_bytes(node, work, storage)
            data_bytes += stored
            data_read_bytes += read
        for value in node.outputs:
            if leaves(value, members):
                leaving.setdefault(behind.get(value, value))
    return KernelWork(
        gemms=_together(gemms, rights),
        lane_ops=lane_ops,
        read_bytes=sum(reads.values()) + data_read_bytes,
        write_bytes=sum(written.get(v, 0) for v in leaving) if runs else 0,
        weight_bytes=data_bytes + sum(storage.value_bytes(v) for v in reads if is_constant(v)),
        runs=runs,
        modelled=modelled,
    )


def _scaled_once(node: ir.Node, work: Work, once: Mapping[ir.Value, int]) -> Work:
    """The work of an op; of a product of a repeated value with a number, that before repeating."""
    if node.op_type != "Mul":
        return work
    values = sorted((v for v in node.inputs if v is not None), key=element_count)
    number, value = values[0], values[-1]
    if value not in once or element_count(number) != 1:
        return work
    return replace(work, lane_ops=min(work.lane_ops, once[value]))


def _together(
    gemms: Sequence[KernelGemm], rights: Sequence[ir.Value | None]
) -> tuple[KernelGemm, ...]:
    """The products; those by one constant operand have their rows in the array together."""
    found: dict[object, KernelGemm] = {}
    for at, (part, right) in enumerate(zip(gemms, rights, strict=True)):
        key = at if right is None else (right, replace(part.gemm, m=0))
        before = found.setdefault(key, part)
        if before is not part:
            gemm = replace(part.gemm, m=before.gemm.m + part.gemm.m)
            left_bytes = before.left_bytes + part.left_bytes
            found[key] = KernelGemm(gemm, left_bytes, part.right_bytes)
    return tuple(found.values())


def _lone_work(node: ir.Node, storage: StorageWidths) -> KernelWork:
    found = formula_work(node)
    work = found or MOVES_ONLY
    if work.execution != "kernel":
        return KernelWork((), 0, 0, 0, 0, runs=False, modelled=True)
    reads = _operand_bytes(node, work, storage)
    data_bytes, data_read_bytes = _data_bytes(node, work, storage)
    return KernelWork(
        gemms=_gemms(node, work, storage, frozenset(), {}),
        lane_ops=_lane_ops(node, work, storage),
        read_bytes=sum(reads.values()) + data_read_bytes,
        write_bytes=sum(_written_bytes(node, storage).values()),
        weight_bytes=data_bytes + sum(storage.value_bytes(v) for v in reads if is_constant(v)),
        runs=True,
        modelled=found is not None,
    )


def _gemms(
    node: ir.Node,
    work: Work,
    storage: StorageWidths,
    in_registers: Set[ir.Value],
    behind: Mapping[ir.Value, ir.Value],
) -> tuple[KernelGemm, ...]:
    """The products of `node` with the bytes of their operands.

    Both operands are as wide as the first input of the node, but weights that are unpacked on
    their way take what they are stored as. Windows of a convolution count as the image that they
    are cut from.

    Args:
        node: an op of the kernel.
        work: what its formula says.
        storage: widths of values in SRAM.
        in_registers: values that are computed inside the kernel.
        behind: the memory behind views.
    """
    if not work.gemms:
        return ()
    operands = [None if v is None else behind.get(v, v) for v in node.inputs[:2]]
    dtype = value_dtype(operands[0]) if operands and operands[0] is not None else None
    stored = element_count(operands[0]) if operands else 0
    left_inside, right_inside = (
        index < len(operands) and operands[index] in in_registers for index in (0, 1)
    )
    packed = _packed_bytes(node, work, operands, storage)
    weights = sum(gemm.count * gemm.k * gemm.n for gemm in work.gemms)
    return tuple(
        KernelGemm(
            gemm,
            0
            if gemm.inner or left_inside
            else storage.bytes_of(min(gemm.count * gemm.m * gemm.k, stored), dtype),
            0
            if right_inside
            else storage.bytes_of(gemm.count * gemm.k * gemm.n, dtype)
            if packed is None
            else packed * gemm.count * gemm.k * gemm.n // max(weights, 1),
        )
        for gemm in work.gemms
    )


def _packed_bytes(
    node: ir.Node, work: Work, operands: Sequence[ir.Value | None], storage: StorageWidths
) -> int | None:
    """Bytes of weights that a node's products unpack on their way, or None."""
    if storage.unpacking == "ahead":
        return None
    if work.unpack_ops:
        reads = _operand_bytes(node, work, storage)
        return sum(size for v, size in reads.items() if v is not node.inputs[0] and is_constant(v))
    right = operands[1] if len(operands) > 1 else None
    return storage.value_bytes(right) if right is not None and packed_operands(right) else None


def _lane_ops(node: ir.Node, work: Work, storage: StorageWidths) -> int:
    if storage.unpacking != "lanes":
        return work.lane_ops
    partial = dict(work.reads)
    return (
        work.lane_ops
        + work.unpack_ops
        + sum(
            storage.unpacking_ops(value, partial.get(index, element_count(value)))
            for index, value in enumerate(node.inputs)
            if value is not None
        )
    )


def _operand_bytes(node: ir.Node, work: Work, storage: StorageWidths) -> dict[ir.Value, int]:
    partial = dict(work.reads)
    if node.op_type in APPENDING:
        partial |= {position: 0 for position, _ in written_in_place(node).values()}
    reads: dict[ir.Value, int] = {}
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        if index in partial:
            size = storage.part_bytes(value, partial[index])
        else:
            size = storage.value_bytes(value)
        reads[value] = max(size, reads.get(value, 0))
    return reads


def _written_bytes(node: ir.Node, storage: StorageWidths) -> dict[ir.Value, int]:
    """Bytes that an op writes of each output: what is new of one that grows in place."""
    found = {value: storage.value_bytes(value) for value in node.outputs}
    for index, (_, new) in written_in_place(node).items():
        value = node.outputs[index]
        found[value] = min(found[value], storage.part_bytes(value, new))
    return found


def _data_bytes(node: ir.Node, work: Work, storage: StorageWidths) -> tuple[int, int]:
    """Bytes of the data in the attributes of `node`, and how many of them an inference reads."""
    stored = sum(storage.value_bytes(value) for value in attribute_data(node))
    return stored, math.ceil(stored * work.data_share)
