"""Regions of ops that are divided along the same rows, so that tiles pass from op to op.

A region begins with one op and one of its loops that divides without partial results. It grows over
values that are too large to be put together on the way. From such a value it grows to the op that
makes it, and to those that read it, as far as their sharding rules have the same rows there. At its
rim values are taken apart and put together, once each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from mcm_compiler.contracts.sharding.rules import Dims, FactorKind, OpFacts, ShardingRule
from mcm_compiler.graph.constants import is_deterministic
from mcm_passes.parallelism.oversized.output_pieces import MIN_COLUMNS, VIEWS, static_shape
from mcm_passes.parallelism.oversized.weight_slices import Slice, can_slice
from mcm_passes.parallelism.rules.graph_rules import GraphRules, operator_name

TILED_OPS = frozenset(
    {"Abs", "Add", "And", "Cast", "Ceil", "Clip", "Cos", "Div", "Elu", "Equal", "Erf", "Exp",
     "Flatten", "Floor", "Gather", "Gelu", "Gemm", "Greater", "GreaterOrEqual", "HardSigmoid",
     "HardSwish", "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax",
     "MatMul", "Max", "Min", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal",
     "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Relu", "Reshape", "Round", "Selu",
     "Sigmoid", "Sign", "Sin", "Softmax", "Softplus", "Softsign", "Split", "Sqrt", "Squeeze",
     "Sub", "Tanh", "Transpose", "Unsqueeze", "Where"}
)  # fmt: skip
"""Ops that compute rows alone to the same bits, and of which the proof by structure knows parts."""

CUT_OPS = TILED_OPS | {
    "AveragePool", "BatchNormalization", "Concat", "Conv", "ConvInteger", "ConvTranspose",
    "DequantizeLinear", "GlobalAveragePool", "InstanceNormalization", "LpPool", "MatMulInteger",
    "MaxPool", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "Resize",
    "com.microsoft::MatMulNBits",
}  # fmt: skip
"""Ops that kernels are cut at, which may sum in another order than the whole."""

CACHE_OPS = TILED_OPS | {
    "Attention", "Concat", "DequantizeLinear", "Expand", "Identity", "QuantizeLinear",
    "TensorScatter", "com.microsoft::GroupQueryAttention", "com.microsoft::MultiHeadAttention",
}  # fmt: skip
"""Ops that the heads of a cache are taken apart at."""

MANY_ROWS = 64
"""Rows of the smallest tile of a product with few columns; see `least_rows`."""

Bytes = Callable[[ir.Value], int]


@dataclass(frozen=True)
class TiledValue:
    """How a value is divided.

    Attributes:
        axis: along which.
        unit: elements along the axis for each row of the region.
    """

    axis: int
    unit: int


@dataclass(frozen=True)
class TiledOp:
    """How an op is divided.

    Attributes:
        facts: of the op.
        rule: its sharding rule.
        factor: which loop is divided.
        unit: units of the loop for each row of the region.
    """

    facts: OpFacts
    rule: ShardingRule
    factor: int
    unit: int


@dataclass
class RowRegion:
    """Ops that are divided along the same rows.

    Attributes:
        rows: how many there are.
        ops: in the order in which they were found.
        values: all that are divided, constants among them.
        whole: those of which some op reads all.
    """

    rows: int
    ops: dict[ir.Node, TiledOp] = field(default_factory=dict[ir.Node, TiledOp])
    values: dict[ir.Value, TiledValue] = field(default_factory=dict[ir.Value, TiledValue])
    whole: set[ir.Value] = field(default_factory=set[ir.Value])

    def slice_of(self, value: ir.Value, start: int, stop: int) -> Slice | None:
        """The part of a value that some rows have; None where it is not divided."""
        how = self.values.get(value)
        return None if how is None else Slice(how.axis, start * how.unit, stop * how.unit)


class RowRegions:
    """Finds regions of a graph.

    Args:
        rules: of its ops.
        constants: values that depend on no input.
        taken: ops that are divided already; they join no other region.
        size: bytes of a value on a chip.
        small: bytes up to which a value may be taken apart or put together.
        kinds: of ops that join regions.
    """

    def __init__(
        self,
        rules: GraphRules,
        constants: set[ir.Value],
        taken: set[ir.Node],
        size: Bytes,
        small: float,
        kinds: frozenset[str] = TILED_OPS,
    ) -> None:
        self._rules = rules
        self._constants = constants
        self._taken = taken
        self._size = size
        self._small = small
        self._kinds = kinds

    def of_kernel(self, nodes: Sequence[ir.Node], main: ir.Node) -> Iterator[RowRegion]:
        """The regions of one op, and of all others of its kernel, by the loops of its result."""
        rule = self._rule(main)
        if rule is None or len(main.outputs) > 1:
            return
        for dim in rule.outputs[0] or ():
            factor = _major(rule, dim)
            size = None if factor is None else rule.factors[factor].size
            if factor is None or size is None or size < 2:
                continue
            region = RowRegion(size)
            if self._take(region, main, factor, main):
                self._grow(region, [*main.inputs, *main.outputs], nodes)
                if len(region.ops) == len(nodes):
                    yield region

    def of(self, node: ir.Node) -> Iterator[RowRegion]:
        """The regions that begin with an op, along its first axes first."""
        rule = self._rule(node)
        if rule is None:
            return
        dims = next((dims for dims in rule.outputs if dims is not None), ())
        for factor in dict.fromkeys(factor for dim in dims for factor in dim):
            size = rule.factors[factor].size
            if size is None or size < 2:
                continue
            for rows in (size, *_merged_rows(node, size)):
                region = RowRegion(rows)
                if self._take(region, node, factor):
                    self._grow(region, [*node.inputs, *node.outputs])
                    yield region

    def of_cache(self, past: ir.Value, near: set[ir.Node]) -> RowRegion | None:
        """The ops that each do without the other heads of a cache; None where some do not.

        Args:
            past: input of some op; its second axis are heads.
            near: ops that make of a cache what is as large as one. They have to be divided, where
                the region reads what they make or makes what they read.
        """
        reader = past.consumers()[0]
        rule = self._rule(reader)
        dims = () if rule is None else rule.inputs[reader.inputs.index(past)] or ()
        factor = _major(rule, dims[1]) if rule is not None and len(dims) > 2 else None
        if rule is None or factor is None or (rule.factors[factor].size or 0) < 2:
            return None
        region = RowRegion(rule.factors[factor].size or 0)
        if not self._take(region, reader, factor):
            return None
        pending = [*reader.inputs, *reader.outputs]
        while pending:
            value = pending.pop()
            if value is None or value not in region.values or value in self._constants:
                continue
            for node in _around(value):
                behind = node in near or node is not value.producer()
                if behind and node not in region.ops and self._joins(region, node, value):
                    pending += [*node.inputs, *node.outputs]
        return region

    def _rule(self, node: ir.Node) -> ShardingRule | None:
        if node in self._taken or operator_name(node.op_type, node.domain) not in self._kinds:
            return None
        if not is_deterministic(node):
            return None
        return self._rules.rule(node)

    def _grow(
        self,
        region: RowRegion,
        pending: list[ir.Value | None],
        inside: Sequence[ir.Node] | None = None,
    ) -> None:
        while pending:
            value = pending.pop()
            if value is None or value not in region.values or value in self._constants:
                continue
            if inside is None and self._size(value) <= self._small:
                continue
            for node in _around(value) if inside is None else inside:
                if node not in region.ops and self._joins(region, node, value):
                    pending += [*node.inputs, *node.outputs]

    def _joins(self, region: RowRegion, node: ir.Node, value: ir.Value) -> bool:
        """Return whether an op next to a divided value is divided like it, from now on."""
        rule = self._rule(node)
        if rule is None:
            return False
        how = region.values[value]
        for at, dims in _slots(node, rule):
            if at is not value or dims is None or how.axis >= len(dims):
                continue
            factor = _major(rule, dims[how.axis])
            return factor is not None and self._take(region, node, factor)
        return False

    def _take(
        self, region: RowRegion, node: ir.Node, factor: int, main: ir.Node | None = None
    ) -> bool:
        """Divides an op along one of its loops, if all that it reads and makes allows it.

        Windows may slide along the loop of `main` alone.
        """
        rule = self._rules.rule(node)
        loop = rule.factors[factor]
        slides = loop.kind is FactorKind.HALO and node is main
        if not (slides or loop.kind is FactorKind.PASS):
            return False
        if not loop.size or loop.size % region.rows:
            return False
        unit = loop.size // region.rows
        found: dict[ir.Value, TiledValue] = {}
        whole: set[ir.Value] = set()
        for value, dims in _slots(node, rule):
            if value is None:
                continue
            if slides and value is node.inputs[0]:
                if value in self._constants and not can_slice(value):
                    return False
                continue
            how = _how(rule, dims, factor, unit)
            if how is None or (how.axis < 0 and value in node.outputs):
                return False
            if how.axis < 0:
                whole.add(value)
                continue
            if region.values.get(value, how) != how or found.get(value, how) != how:
                return False
            if value in self._constants and not can_slice(value, how.axis):
                return False
            found[value] = how
        if not all(value in found for value in node.outputs):
            return False
        divided = region.values.keys() | found.keys()
        if not (whole.isdisjoint(divided) and region.whole.isdisjoint(found)):
            return False
        region.values |= found
        region.whole |= whole
        region.ops[node] = TiledOp(self._rules.facts(node), rule, factor, unit)
        return True


def least_rows(node: ir.Node, op: TiledOp) -> int:
    """Rows of the region in the smallest tile that keeps all bits of an op.

    onnxruntime's products of one row sum in another order than those of more. Where columns are
    few, so do many rows, which are divided over threads, and few, of which columns are. Both were
    found by experiment. Along columns it is as for weights (`weight_cuts`).
    """
    if node.op_type not in ("MatMul", "Gemm"):
        return 1
    made = op.facts.output_shapes[0] or ()
    dims = op.rule.outputs[0]
    if dims is None or len(made) < 2:
        return 1
    if op.factor in dims[-1]:
        return -(-MIN_COLUMNS // op.unit)
    if op.factor not in dims[-2]:
        return 1
    rows, columns = made[-2] or 0, made[-1] or 0
    least = 2 if columns >= MIN_COLUMNS or rows <= MANY_ROWS else MANY_ROWS
    return -(-least // op.unit)


def _around(value: ir.Value) -> list[ir.Node]:
    """The op that makes a value, and those that read it."""
    producer = value.producer()
    readers = [use.node for use in value.uses()]
    return readers if producer is None else [producer, *readers]


def _merged_rows(node: ir.Node, size: int) -> list[int]:
    """Coarser rows of a loop of `size` units, which a reshape before or after the op merges.

    Positions of a batch of sequences make the rows of a product, which belong together sequence by
    sequence as soon as the ops around it have an axis for either.
    """
    found: dict[int, None] = {}
    for value in (*node.inputs, *node.outputs):
        for view in () if value is None else _around(value):
            if view.op_type not in VIEWS or view is node:
                continue
            for end in (view.inputs[0], view.outputs[0]):
                shape = static_shape(end) or ()
                major = next((extent for extent in shape if extent != 1), 0)
                if 1 < major < size and size % major == 0:
                    found[major] = None
    return sorted(found, reverse=True)


def _slots(node: ir.Node, rule: ShardingRule) -> list[tuple[ir.Value | None, Dims | None]]:
    """Operands and results of an op, with the loops of each dimension."""
    inputs = (*rule.inputs, *(None for _ in range(len(node.inputs) - len(rule.inputs))))
    outputs = (*rule.outputs, *(None for _ in range(len(node.outputs) - len(rule.outputs))))
    return [*zip(node.inputs, inputs, strict=False), *zip(node.outputs, outputs, strict=False)]


def _major(rule: ShardingRule, dim: tuple[int, ...]) -> int | None:
    return next((factor for factor in dim if rule.factors[factor].size != 1), None)


def _how(rule: ShardingRule, dims: Dims | None, factor: int, unit: int) -> TiledValue | None:
    """How an operand is divided with a loop; axis -1 where it is read whole, None where not."""
    axes = [axis for axis, dim in enumerate(dims or ()) if factor in dim]
    if not axes or dims is None:
        return TiledValue(-1, 0)
    if len(axes) > 1 or _major(rule, dims[axes[0]]) != factor:
        return None
    others = [rule.factors[other].size for other in dims[axes[0]] if other != factor]
    if any(size is None for size in others):
        return None
    return TiledValue(axes[0], unit * math.prod(size or 1 for size in others))
