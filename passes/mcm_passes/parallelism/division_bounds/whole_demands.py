"""Weights that every part of an op comes behind, and those that come behind every part of it.

Ops are divided along loops of their sharding rules that are no sums. So an element of a result
needs all that the sums behind it run over: of a row of a product the whole row of the product
before, and with it all weights of that. Two passes over the graph carry such facts, as bits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import onnx_ir as ir

from mcm_compiler.contracts.sharding.rules import FactorKind, ShardingRule
from mcm_compiler.graph.constants import constants_and_placeable
from mcm_passes.parallelism.rules.graph_rules import GraphRules, installed_rules

NEEDS_ALL = frozenset(
    ("Hardmax", "LayerNormalization", "LogSoftmax", "RMSNormalization", "Softmax")
)
"""Ops of which every element needs all positions along an axis that is not divided."""

WINDOWED = frozenset(("AveragePool", "Conv", "GlobalAveragePool", "MaxPool", "QLinearConv"))

SUMS = ("Conv", "Einsum", "Gather", "Gemm", "GlobalAveragePool", "MatMul", "Reduce")
"""Parts of the names of ops of which every element needs all that a sum runs over; of the rows of
a table that is read by values, any may be needed."""

SAME_ELEMENTS = ("Cast", "DequantizeLinear", "Reshape", "Transpose")
STORES = ("Constant", "ConstantOfShape")

Facts = dict[int, int]
"""Weights, as bits, by axes, as bits: what is true of elements of a value at one position of all
other axes. Axes of one element are left out."""


class WholeDemands(NamedTuple):
    """Weights of the placeable ops of a graph, as bits.

    Attributes:
        weights: stored constants that the bits are about.
        before: weights that are used, all of them, for every element of the op's results.
        after: weights that are used, all of them, for something that needs the element, whichever
            element of the op's results it is.
        own: weights of the op that each row of its result needs whole.
    """

    weights: tuple[ir.Value, ...]
    before: dict[ir.Node, int]
    after: dict[ir.Node, int]
    own: dict[ir.Node, int]


def whole_demands(model: ir.Model) -> WholeDemands:
    """The demands of all placeable ops of a model with shapes."""
    constants, ops = constants_and_placeable(model.graph)
    graph = _Demands(GraphRules(model, installed_rules()), constants)
    for node in ops:
        graph.add(node)
    for node in reversed(ops):
        graph.add_use(node)
    before, after = (
        {node: _common(facts[value] for value in node.outputs) for node in ops}
        for facts in (graph.needs, graph.serves)
    )
    own = {node: graph.own(node) for node in ops}
    return WholeDemands(tuple(graph.bit_of), before, after, own)


def _common(facts: Iterator[Facts]) -> int:
    """Facts that hold for a single element of each value."""
    found = [one.get(0, 0) for one in facts]
    both = found[0] if found else 0
    for bits in found[1:]:
        both &= bits
    return both


class _Demands:
    def __init__(self, rules: GraphRules, constants: set[ir.Value]) -> None:
        self._rules, self._constants = rules, constants
        self.bit_of: dict[ir.Value, int] = {}
        self.needs: defaultdict[ir.Value, Facts] = defaultdict(dict)
        self.serves: defaultdict[ir.Value, Facts] = defaultdict(dict)

    def add(self, node: ir.Node) -> None:
        """Add the needs of elements of the results of an op."""
        for k, operand in enumerate(node.inputs):
            if operand is None:
                continue
            facts = self.needs[operand]
            if operand in self._constants:
                facts = {_axes(operand): self._root(operand)}
            for index, result in enumerate(node.outputs):
                for axes, bits in facts.items():
                    made = self._needed(node, k, index, axes)
                    if bits and made is not None:
                        _add(self.needs[result], result, made, bits)

    def add_use(self, node: ir.Node) -> None:
        """Add the uses of elements of the operands of an op."""
        own = self.own(node)
        for k, operand in enumerate(node.inputs):
            if operand is None or operand in self._constants:
                continue
            if own and self._needed(node, k, 0, 0) is not None and _is_used(node, k):
                _add(self.serves[operand], operand, 0, own)
            found: list[list[tuple[int, int]]] = []
            for index, result in enumerate(node.outputs):
                carried = (
                    (self._used(node, k, index, axes), bits)
                    for axes, bits in self.serves[result].items()
                )
                found.append([(axes, bits) for axes, bits in carried if axes is not None])
            # An operand of Split is in all results together.
            joint = _joint(found) if node.op_type == "Split" else chain.from_iterable(found)
            for axes, bits in joint:
                _add(self.serves[operand], operand, axes, bits)

    def own(self, node: ir.Node) -> int:
        """Weights of which each row of the result needs all, as no loop of them is a row's."""
        rule = self._rules.rule(node)
        stored = [k for k, v in enumerate(node.inputs) if v is not None and v in self._constants]
        if not _regular(node, rule) or not stored or len(stored) == len(node.inputs):
            return 0
        of_others = {
            f
            for k, dims in enumerate(rule.inputs)
            if k not in stored
            for dim in dims or ()
            for f in dim
        }
        dims = rule.inputs[stored[0]]
        mine = {f for dim in dims or () for f in dim}
        if not mine or any(rule.factors[f].kind is not FactorKind.REDUCE for f in mine & of_others):
            return 0
        return self._root(node.inputs[stored[0]])

    def _root(self, value: ir.Value | None) -> int:
        """The bit of the stored weight that a constant has the elements of."""
        while value is not None and (maker := value.producer()) is not None:
            if maker.op_type not in SAME_ELEMENTS:
                break
            value = maker.inputs[0]
        maker = value.producer() if value is not None else None
        if value is None or (maker is not None and maker.op_type not in STORES):
            return 0
        return 1 << self.bit_of.setdefault(value, len(self.bit_of))

    def _needed(self, node: ir.Node, k: int, index: int, axes: int) -> int | None:
        """Axes along which elements of a result need those of operand `k` along `axes`."""
        if node.op_type == "Concat":
            return axes | 1 << _axis(node)
        if node.op_type == "Split":
            return None if axes >> _axis(node) & 1 else axes
        if node.op_type == "Gather" and node.inputs[1] in self._constants:
            return None
        return self._carried(node, k, index, axes, back=False)

    def _used(self, node: ir.Node, k: int, index: int, axes: int) -> int | None:
        """Axes along which elements of operand `k` have those of a result along `axes` need them.

        None as well where some elements of the operand are not used.
        """
        if node.op_type in ("Concat", "Split"):
            # Along the axis, elements of all operands or results are distinct.
            at = 1 << _axis(node)
            if node.op_type == "Split":
                return axes
            return None if axes & at else axes
        if node.op_type == "Gather" or not _is_used(node, k):
            return None
        return self._carried(node, k, index, axes, back=True)

    def _carried(self, node: ir.Node, k: int, index: int, axes: int, *, back: bool) -> int | None:
        rule = self._rules.rule(node)
        if not _regular(node, rule):
            return None
        operand, result = rule.inputs[k], rule.outputs[index]
        if operand is None or result is None:
            return None
        source, target = (result, operand) if back else (operand, result)
        axis_of = {f: i for i, dim in enumerate(target) for f in dim}
        found = 0
        for factor in {f for i, dim in enumerate(source) if axes >> i & 1 for f in dim}:
            kind = rule.factors[factor].kind
            if node.op_type in NEEDS_ALL and kind is FactorKind.REPLICATE:
                continue
            if factor in axis_of:
                found |= 1 << axis_of[factor]
            elif not back and kind is FactorKind.PASS:
                return None  # it is a loop of another result
        return found


def _joint(found: list[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Facts of the elements of all results together, along the axes of any of them."""
    joint = found[0] if found else []
    for facts in found[1:]:
        joint = [(a | b, x & y) for a, x in joint for b, y in facts if x & y]
    return joint


def _add(facts: Facts, value: ir.Value, axes: int, bits: int) -> None:
    axes &= _axes(value)
    facts[axes] = facts.get(axes, 0) | bits


def _axes(value: ir.Value) -> int:
    """Axes with more than one element."""
    shape = value.shape
    return sum(1 << i for i, d in enumerate(shape) if d != 1) if shape is not None else 0


def _axis(node: ir.Node) -> int:
    attribute, value = node.attributes.get("axis"), node.inputs[0]
    rank = len(value.shape) if value is not None and value.shape is not None else 1
    return (attribute.as_int() if attribute is not None else 0) % max(rank, 1)


def _regular(node: ir.Node, rule: ShardingRule) -> bool:
    """True if each element of a result reads its operands where the loops of the rule say."""
    kinds = {factor.kind for factor in rule.factors}
    allowed = {FactorKind.PASS}
    if any(word in node.op_type for word in SUMS):
        allowed |= {FactorKind.REDUCE}
    if node.op_type in NEEDS_ALL | WINDOWED:
        allowed |= {FactorKind.REPLICATE}
    if node.op_type in WINDOWED:
        allowed |= {FactorKind.HALO}
    return kinds <= allowed and bool(rule.outputs)


def _is_used(node: ir.Node, k: int) -> bool:
    """True if the windows of an op read every element of an image, if it has windows."""
    if node.op_type not in WINDOWED or k or node.op_type == "GlobalAveragePool":
        return True
    image, out, weight = (
        node.inputs[0],
        node.outputs[0],
        node.inputs[-1 if len(node.inputs) == 1 else 1],
    )
    if image is None or image.shape is None or out.shape is None:
        return False
    axes = len(image.shape) - 2

    def numbers(name: str, default: int) -> list[int]:
        attribute = node.attributes.get(name)
        return list(attribute.as_ints()) if attribute is not None else [default] * axes

    auto = node.attributes.get("auto_pad")
    sizes = numbers("kernel_shape", 0)
    if not all(sizes) and weight is not None and weight.shape is not None:
        sizes = [d for d in weight.shape[2:] if isinstance(d, int)]
    if (auto is not None and auto.as_string() != "NOTSET") or len(sizes) != axes:
        return False
    extents = [d if isinstance(d, int) else 0 for d in (*image.shape[2:], *out.shape[2:])]
    steps, pads = numbers("strides", 1), numbers("pads", 0)
    rows = zip(extents[:axes], extents[axes:], sizes, steps, pads, strict=False)
    return set(numbers("dilations", 1)) <= {1} and all(
        0 < size <= (count - 1) * step + taps - pad and step <= taps
        for size, count, taps, step, pad in rows
    )
