"""Weights that every part of an op comes behind, and those that come behind every part of it.

Ops are divided along loops of their sharding rules that are no sums. So an element of a result
needs all that the sums behind it run over: of a row of a product the whole row of the product
before, and with it all weights of that. Two passes over the graph carry such facts, as bits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import reduce
from operator import and_

import onnx_ir as ir

from mcm_compiler.contracts.sharding.rules import FactorKind, ShardingRule
from mcm_compiler.graph.constants import constants_and_placeable
from mcm_passes.parallelism.rules.graph_rules import GraphRules, installed_rules
from mcm_passes.parallelism.rules.operators.composing import Window, windows

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


class WholeDemands:
    """Weights of the placeable ops of a model with shapes, as bits.

    Attributes:
        weights: stored constants, each with its bit.
        uses: how many operands of ops each of them is, by its bit.
        before: weights that are used, all of them, for every element of the op's results.
        after: weights that are used, all of them, for something that needs the element, whichever
            element of the op's results it is.
        own: weights of the op that each row of its result needs whole.
    """

    def __init__(self, model: ir.Model) -> None:
        self._constants, ops = constants_and_placeable(model.graph)
        self._rules = GraphRules(model, installed_rules())
        self.weights: dict[ir.Value, int] = {}
        self.uses: Counter[int] = Counter()
        self._needs: defaultdict[ir.Value, Facts] = defaultdict(dict)
        self._serves: defaultdict[ir.Value, Facts] = defaultdict(dict)
        for node in ops:
            self._add_needs(node)
        self.own = {node: self._own(node) for node in ops}
        for node in reversed(ops):
            self._add_uses(node)
        self.before = {node: _common(self._needs, node.outputs) for node in ops}
        self.after = {node: _common(self._serves, node.outputs) for node in ops}

    def _add_needs(self, node: ir.Node) -> None:
        for k, operand in enumerate(node.inputs):
            if operand is None:
                continue
            facts = self._needs[operand]
            if operand in self._constants:
                facts = {_axes(operand): (root := self._root(operand))}
                self.uses[root] += 1
            for index, result in enumerate(node.outputs):
                for axes, bits in facts.items():
                    _add(self._needs, result, self._carried(node, k, index, axes), bits)

    def _add_uses(self, node: ir.Node) -> None:
        for k, operand in enumerate(node.inputs):
            if operand is None or operand in self._constants:
                continue
            if node.op_type == "Split":  # an element of the operand is in any of the results
                _add(self._serves, operand, 0, _common(self._serves, node.outputs))
                continue
            if self._carried(node, k, 0, 0, back=True) is not None:
                _add(self._serves, operand, 0, self.own[node])
            for index, result in enumerate(node.outputs):
                for axes, bits in self._serves[result].items():
                    used = self._carried(node, k, index, axes, back=True)
                    _add(self._serves, operand, used, bits)

    def _own(self, node: ir.Node) -> int:
        """No loop of such weights is one of a row of the result."""
        rule = self._rules.rule(node)
        stored = [k for k, v in enumerate(node.inputs) if v is not None and v in self._constants]
        if not _regular(node, rule) or not stored or len(stored) == len(node.inputs):
            return 0
        operands = [{f for dim in dims or () for f in dim} for dims in rule.inputs]
        others = set[int]().union(*(loops for k, loops in enumerate(operands) if k not in stored))
        mine = operands[stored[0]]
        if not mine or any(rule.factors[f].kind is not FactorKind.REDUCE for f in mine & others):
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
        return self.weights.setdefault(value, 1 << len(self.weights))

    def _carried(
        self, node: ir.Node, k: int, index: int, axes: int, *, back: bool = False
    ) -> int | None:
        """Axes along which elements of a result need those of operand `k` along `axes`.

        Back, those along which elements of the operand have those of a result along `axes` need
        them. None as well where some elements of the operand are not used.
        """
        if node.op_type in ("Concat", "Split"):
            at = 1 << _axis(node)
            if node.op_type == "Concat" and not back:
                return axes | at
            return None if axes & at else axes
        if node.op_type == "Gather" and (back or node.inputs[1] in self._constants):
            return None
        rule = self._rules.rule(node)
        if not _regular(node, rule) or (back and not self._reads_all(node, k)):
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

    def _reads_all(self, node: ir.Node, k: int) -> bool:
        """True if the windows of an op read every element of an image, if it has windows."""
        if node.op_type not in WINDOWED or k or node.op_type == "GlobalAveragePool":
            return True
        facts = self._rules.facts(node)
        image, weight, out = facts.input_shapes[0], facts.input_shapes[1:2], facts.output_shapes[0]
        taps = facts.attributes.get("kernel_shape") or ((weight[0] if weight else None) or ())[2:]
        if not image or not out or len(taps) != len(image) - 2:
            return False
        return set(facts.attributes.get("dilations", ())) <= {1} and all(
            isinstance(one, Window)
            and one.stride <= one.extent
            and one.reads(0, one.places)[1] >= one.size
            for one in windows(facts, image[2:], taps, out[2:])
        )


def _common(facts: defaultdict[ir.Value, Facts], values: Iterable[ir.Value]) -> int:
    """Bits that hold for a single element of each value."""
    return reduce(and_, [facts[value].get(0, 0) for value in values] or [0])


def _add(facts: defaultdict[ir.Value, Facts], value: ir.Value, axes: int | None, bits: int) -> None:
    if axes is not None and bits:
        axes &= _axes(value)
        facts[value][axes] = facts[value].get(axes, 0) | bits


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
    allowed = {FactorKind.PASS}
    if any(word in node.op_type for word in SUMS):
        allowed |= {FactorKind.REDUCE}
    if node.op_type in NEEDS_ALL | WINDOWED:
        allowed |= {FactorKind.REPLICATE}
    if node.op_type in WINDOWED:
        allowed |= {FactorKind.HALO}
    return {factor.kind for factor in rule.factors} <= allowed and bool(rule.outputs)
