"""Demands of one op on compute units: products, lane operations, elements read; its kind."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.contracts.fabrics.fabric import OP_KINDS, Fabric
from mcm_compiler.graph.constants import consumed_values, is_deterministic
from mcm_hardware.chip.kernel_work import formula_work
from mcm_hardware.op_costs import convolutions, data_movement, reductions
from mcm_hardware.op_costs.elementwise import BY_SHAPES_ALONE
from mcm_hardware.op_costs.work import CONTROL_FLOW, Gemm, Work, bodies_of
from mcm_hardware.tensors.storage_widths import element_count


def laid_out_ops(graph: ir.Graph) -> list[ir.Node]:
    """The ops whose work is among what fabrics do for a sample, in graph order.

    Left out are those whose results are known before the first sample, and those of which nothing
    comes: no way of values with elements leads from them to an output. `StageBuilder` drops them,
    in the graph and in that of any chip: what crosses to another chip is an input there, which is
    not known before, and an output here.

    Args:
        graph: in topological order.
    """
    ready: set[ir.Value] = set(graph.initializers.values())
    active: list[ir.Node] = []
    for node in graph:
        if is_ready(node, consumed_values(node), ready):
            ready.update(node.outputs)
        else:
            active.append(node)
    needed = set(graph.outputs)
    kept: list[ir.Node] = []
    for node in reversed(active):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(_read_values(node))
    return kept[::-1]


def _read_values(node: ir.Node) -> list[ir.Value]:
    """Values of which an op surely reads an element."""
    if may_read_in_place(node) and not any(map(element_count, node.outputs)):
        return []
    part = _partly_read(node)
    first = {value: k for k, value in reversed(list(enumerate(node.inputs)))}
    return [
        value
        for value in consumed_values(node)
        if element_count(value) and part.get(first.get(value, -1), 1)
    ]


def _partly_read(node: ir.Node) -> dict[int, int]:
    """Elements that are read of inputs, by index, where that is not all of it once."""
    kind = (node.domain, node.op_type)
    if kind in BY_SHAPES_ALONE or kind in CONTROL_FLOW:
        return {}
    work = formula_work(node)
    return {} if work is None else dict(work.reads)


PRODUCT = OP_KINDS.index("product")
ATTENTION = OP_KINDS.index("attention")
ELEMENTWISE = OP_KINDS.index("elementwise")
REDUCTION = OP_KINDS.index("reduction")
NORMALIZATION = OP_KINDS.index("normalization")
SOFTMAX = OP_KINDS.index("softmax")
WINDOW = OP_KINDS.index("window")
MOVEMENT = OP_KINDS.index("movement")

MOST = 2**40
"""Where counts of elements saturate; what is so large fits nowhere, and sums of it stay in 64
bits."""

MOST_WORK = 2**50
"""Where multiply-accumulates and lane operations saturate: loops fit whatever their trips are, and
bounds count all of these. Thousands of samples of so much work stay in 64 bits of cycles."""

_KINDS: dict[tuple[str, str], int] = {
    **dict.fromkeys(data_movement.FORMULAS, MOVEMENT),
    **dict.fromkeys(reductions.FORMULAS, REDUCTION),
    **dict.fromkeys(reductions.NORMALIZATION, NORMALIZATION),
    **dict.fromkeys(convolutions.WINDOWS, WINDOW),
}

_READ_IN_ANY_ORDER = frozenset(
    {
        "CenterCropPad",
        "Concat",
        "DepthToSpace",
        "Dropout",
        "Expand",
        "Identity",
        "Pad",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Tile",
        "Transpose",
        "ExpandDims",
        "Flatten",
        "Reshape",
        "Squeeze",
        "Unsqueeze",
    }
)
"""Ops whose results lie in the memory of their operands: memory units are read in any order."""

_SCALES_CHANNELS = frozenset({"BatchNormalization"})
"""Normalisations whose statistics are weights: nothing is reduced."""

_GATHERS = frozenset({"Gather", "GatherElements", "GatherND"})
_FREE = frozenset({"Constant", "Shape", "Size"})


@dataclass(frozen=True)
class OpWork:
    """Demands of an op on compute units.

    Attributes:
        kind: index into `OP_KINDS`.
        gemms: its matrix products.
        lane_ops: operations of one lane.
        reads: elements that are read of an input, by index, where that is not all of it once.
    """

    kind: int
    gemms: tuple[Gemm, ...]
    lane_ops: int
    reads: Mapping[int, int]

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return min(sum(gemm.macs for gemm in self.gemms), MOST_WORK)


def op_work(node: ir.Node, fabric: Fabric) -> OpWork:
    """Total: an op without a formula works on each element of its results once.

    Args:
        node: the op.
        fabric: on which the slower one of two branches counts.
    """
    made = min(sum(element_count(value) for value in node.outputs), MOST)
    if (node.domain, node.op_type) in CONTROL_FLOW:
        macs, lane_ops = _body_work(node, fabric)
        gemms = (_square(macs),) if macs else ()
        return OpWork(PRODUCT if macs else ELEMENTWISE, gemms, lane_ops + made, {})
    kind = _KINDS.get((node.domain, node.op_type), ELEMENTWISE)
    if node.op_type in _SCALES_CHANNELS:
        kind = ELEMENTWISE
    if "softmax" in node.op_type.lower():
        kind = SOFTMAX
    work = formula_work(node) or Work()
    gemms = tuple(gemm for gemm in work.gemms if gemm.macs > 0)
    if gemms:
        kind = PRODUCT
    lane_ops = min(max(work.lane_ops, 0), MOST_WORK)
    if not gemms:
        lane_ops = max(lane_ops, made)
    return OpWork(kind, gemms, lane_ops, dict(work.reads))


def is_free(node: ir.Node) -> bool:
    """Return whether its results are known before the first sample, as shapes are."""
    return node.op_type in _FREE and node.domain in ("", "ai.onnx")


def is_ready(node: ir.Node, values: Sequence[ir.Value], ready: Container[ir.Value]) -> bool:
    """Return whether its results are known before the first sample, so that no unit works for them.

    Args:
        node: the op.
        values: that it reads.
        ready: values that are known before the first sample.
    """
    return is_free(node) or (
        all(value in ready for value in values) and is_deterministic(node) and bool(values)
    )


def may_read_in_place(node: ir.Node) -> bool:
    """Return whether the results of such an op can lie in the memory of the operands."""
    return node.op_type in _GATHERS or node.op_type in _READ_IN_ANY_ORDER


def reads_in_place(node: ir.Node, indices_are_ready: bool) -> bool:
    """Return whether the results lie in the memory of the operands.

    Args:
        node: the op.
        indices_are_ready: whether all operands but the first are known before the first sample.
    """
    if node.op_type in _GATHERS:
        return indices_are_ready
    return node.op_type in _READ_IN_ANY_ORDER


def _body_work(node: ir.Node, fabric: Fabric) -> tuple[int, int]:
    """Multiply-accumulates and lane operations of the bodies of a control-flow op."""
    bodies = bodies_of(node)
    works = [_graph_work(graph, fabric) for graph in bodies.graphs]
    # Of branches the one that takes longest, as cost models have it: it is no matter of products.
    macs, lane_ops = max(works, key=lambda work: _cycles(*work, fabric), default=(0, 0))
    return min(macs * bodies.trips, MOST_WORK), min(lane_ops * bodies.trips, MOST_WORK)


def _graph_work(graph: ir.Graph, fabric: Fabric) -> tuple[int, int]:
    """Those of a body that runs once."""
    macs, lane_ops = 0, 0
    for inner in graph:
        if (inner.domain, inner.op_type) in CONTROL_FLOW:
            more = _body_work(inner, fabric)
        else:
            work = op_work(inner, fabric)
            more = (work.macs, work.lane_ops)
        macs, lane_ops = macs + more[0], lane_ops + more[1]
    return macs, lane_ops


def _cycles(macs: int, lane_ops: int, fabric: Fabric) -> float:
    """Of one compute unit."""
    return macs / fabric.macs_per_cycle + lane_ops / fabric.lanes


def _square(macs: int) -> Gemm:
    """One product with so much work, for work whose products are not known one by one."""
    side = max(round(macs ** (1 / 3)), 1)
    return Gemm(1, side, side, -(-macs // side**2))
