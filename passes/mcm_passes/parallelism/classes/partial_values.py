"""Where devices have to talk to each other if classes are divided.

An op that sums over a divided dimension leaves every device with a part of the sum. Sums of parts
are parts of sums. The devices need not talk before an op that is not linear reads the value, or
before it becomes a result of the model: there the parts are added up by an all-reduce.

Backwards it is the mirror image: the operators f and g of Shoeybi et al. 2019 (*Megatron-LM*,
section 3). An operand that lacks the divided dimension is read by all devices as a whole, and each
of them finds a part of its gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.contracts.sharding.rules import FactorKind
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses
from mcm_passes.parallelism.classes.variables import float_bytes

_REARRANGING = frozenset(
    {"Cast", "Expand", "Flatten", "Identity", "Neg", "Reshape", "Slice", "Split", "Squeeze",
     "Transpose", "Unsqueeze"}
)  # fmt: skip
"""Ops that are linear in their first operand, whatever the others are."""

_SUMMING = frozenset({"Add", "Sub", "Sum", "ReduceMean", "ReduceSum"})
"""Ops that are linear in all operands at once: one device adds what is whole."""

_SAME_BYTES = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Ops whose gradient is only rearranged."""


@dataclass(frozen=True, eq=False)
class PartialValues:
    """Values that are in parts if a class is divided; bit k of a mask is class k of those given.

    Attributes:
        sums: masks of the classes any of which leaves a value as parts of a sum that have to be
            added up at that value, by its number.
        gathered: masks of the classes any of which makes all devices read a value as a whole that
            does not have their dimension, by its number. In training its gradient is in parts.
    """

    sums: dict[int, int]
    gathered: dict[int, int]


def partial_values(classes: DimensionClasses, of: NDArray[np.int32]) -> PartialValues:
    """Finds them.

    Args:
        classes: of the graph.
        of: the classes that may be divided.
    """
    number = {int(index): bit for bit, index in enumerate(of)}
    factors = [_divisible_factors(classes, node, number) for node in _nodes(classes)]
    return PartialValues(_Sums(classes, factors).found(), _gathered(classes, factors))


def _nodes(classes: DimensionClasses) -> range:
    return range(len(classes.ruled.nodes))


def _divisible_factors(
    classes: DimensionClasses, node: int, number: dict[int, int]
) -> list[tuple[int, int]]:
    """Factors of an op that are of one of the classes, with its bit."""
    first, end = int(classes.factor_ptr[node]), int(classes.factor_ptr[node + 1])
    found = classes.factor_class[first:end].tolist()
    return [(at, number[index]) for at, index in enumerate(found) if index in number]


def _slots(classes: DimensionClasses, node: int) -> tuple[list[int], list[int]]:
    """Numbers of an op's operands and results, -1 for those left out."""
    ruled = classes.ruled
    first, end = int(ruled.slot_ptr[node]), int(ruled.slot_ptr[node + 1])
    inputs = len(ruled.rule_of(node).rule.inputs)
    slots = ruled.slot_value[first:end].tolist()
    return slots[:inputs], slots[inputs:]


class _Sums:
    def __init__(self, classes: DimensionClasses, factors: list[list[tuple[int, int]]]) -> None:
        self._ruled = classes.ruled
        self._nodes = _nodes(classes)
        self._slots = [_slots(classes, node) for node in self._nodes]
        self._sizes = [float_bytes(value) for value in self._ruled.values]
        self._made = [self._mask_made(node, factors[node]) for node in self._nodes]
        # What could be in parts if nothing were added up before the end; a product of two such
        # values is not linear, whichever of them is added up first.
        self._possible: dict[int, int] = {}
        self._possible = self._spread(set())

    def found(self) -> dict[int, int]:
        """See `PartialValues.sums`."""
        ruled = self._ruled
        needed: set[int] = {
            ruled.value_index[v]
            for v in ruled.values
            if v.is_graph_output() and v in ruled.value_index
        }
        with_rule = set(ruled.nodes)
        for value in self._possible:
            if not with_rule.issuperset(ruled.values[value].consumers()):
                needed.add(value)
        for node in self._nodes:
            inputs, outputs = self._slots[node]
            for at, value in enumerate(inputs):
                if value in self._possible and not self._is_linear(node, at):
                    needed.add(value)
            if ruled.rule_of(node).rule.factors and self._made[node] and not self._adds_up(node):
                needed.update(value for value in outputs if value >= 0)
        return {v: mask for v, mask in self._spread(needed).items() if v in needed}

    def _mask_made(self, node: int, factors: list[tuple[int, int]]) -> int:
        rule = self._ruled.rule_of(node).rule
        reduced = (bit for at, bit in factors if rule.factors[at].kind is FactorKind.REDUCE)
        return sum(1 << bit for bit in set(reduced))

    def _spread(self, stops: set[int]) -> dict[int, int]:
        """Masks of values in parts; those in `stops` are whole for whoever reads them."""
        masks: dict[int, int] = {}
        for node in self._nodes:
            inputs, outputs = self._slots[node]
            mask = self._made[node]
            for at, value in enumerate(inputs):
                before = masks.get(value, 0)
                if before and value not in stops and self._is_linear(node, at):
                    mask |= before
            if mask:
                masks.update((value, mask) for value in outputs if value >= 0)
        return masks

    def _is_linear(self, node: int, operand: int) -> bool:
        """Return whether parts of an operand give parts of the result, which is not larger."""
        op, (inputs, outputs) = self._ruled.nodes[node], self._slots[node]
        sizes = self._sizes
        if (
            op.domain not in ("", "ai.onnx")
            or sum(sizes[v] for v in outputs if v >= 0) > sizes[inputs[operand]]
        ):
            return False
        if op.op_type == "Cast":
            dtype = op.outputs[0].dtype
            return dtype is not None and dtype.is_floating_point()
        if op.op_type in _SUMMING:
            return True
        if op.op_type in _REARRANGING:
            return operand == 0
        if op.op_type == "Mul":
            return not any(v in self._possible for at, v in enumerate(inputs) if at != operand)
        return op.op_type == "Div" and operand == 0 and inputs[1] not in self._possible

    def _adds_up(self, node: int) -> bool:
        """Return whether all reductions of an op are sums, which may stay in parts."""
        return all(
            factor.reduction in ("sum", "mean")
            for factor in self._ruled.rule_of(node).rule.factors
            if factor.kind is FactorKind.REDUCE
        )


def _gathered(classes: DimensionClasses, factors: list[list[tuple[int, int]]]) -> dict[int, int]:
    ruled = classes.ruled
    masks: dict[int, int] = {}
    for node in reversed(_nodes(classes)):
        inputs, outputs = _slots(classes, node)
        op = ruled.nodes[node]
        # The consumers of the result have been seen by now.
        if op.op_type in _SAME_BYTES and op.domain in ("", "ai.onnx") and inputs[0] >= 0:
            carried = masks.pop(outputs[0], 0)
            if carried:
                masks[inputs[0]] = masks.get(inputs[0], 0) | carried
        if not factors[node]:
            continue
        having: dict[int, set[int]] = {}
        for slot, _, factor, *_ in ruled.rule_of(node).members.tolist():
            having.setdefault(factor, set()).add(slot)
        for factor, bit in factors[node]:
            # What lacks a summed factor is added to the sum, as a bias is: its gradient is whole.
            if ruled.rule_of(node).rule.factors[factor].kind is FactorKind.REDUCE:
                continue
            for slot, value in enumerate(inputs):
                if value >= 0 and slot not in having.get(factor, ()):
                    masks[value] = masks.get(value, 0) | 1 << bit
    return masks
