"""Ops that were divided because their weights fit no chip: put together again.

Each part runs the op of the model with a slice of its weights, all in the same order and without
a gap, and a `Concat` along the matching axis of the result makes the whole. Where the slices begin
follows from their extents; what they hold is compared with the model's weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import onnx_ir as ir

from mcm_compiler.equivalence.parts.weight_slices import Cut, constant_shape, is_slice
from mcm_compiler.equivalence.values.graph_walk import Numbers
from mcm_compiler.equivalence.values.op_keys import domain_of
from mcm_compiler.equivalence.values.source_values import SourceValues, without_constants
from mcm_compiler.equivalence.values.value_numbers import OpKey, ValueNumbers


@dataclass(frozen=True)
class _Law:
    """How an op falls into parts.

    Attributes:
        axis_of: for each operand that is sliced, the axis along which.
        output_axis: along which the results are put together.
    """

    axis_of: dict[int, int]
    output_axis: int


class DividedOps:
    """Puts together parts of ops.

    Args:
        numbers: the table.
        source: the model.

    Attributes:
        explained: numbers of parts that belong to an op of the model.
    """

    def __init__(self, numbers: ValueNumbers, source: SourceValues) -> None:
        self._numbers = numbers
        self._source = source
        self.explained: set[int] = set()

    def whole(self, node: ir.Node, known: Numbers) -> int | None:
        """The number of the model's value that a `Concat` of parts makes, or None."""
        if node.op_type != "Concat" or domain_of(node) or len(node.inputs) < 2:
            return None
        parts = [known.get(v, -1) if v is not None else -1 for v in node.inputs]
        made = [self._numbers.maker(number) if number >= 0 else None for number in parts]
        ops = [op for _, op in (m for m in made if m is not None)]
        if len(ops) < len(parts):
            return None
        alike = {without_constants(op, self._numbers) for op in ops}
        if len(alike) != 1:
            return None
        axis = node.attributes.get_int("axis", 0)
        for candidate in self._source.alike.get(alike.pop(), ()):
            found = self._numbers.maker(candidate)
            if found is not None and self._makes_up(candidate, found[1], ops, axis):
                self.explained.update(parts)
                return candidate
        return None

    def _makes_up(self, value: int, whole: OpKey, parts: Sequence[OpKey], axis: int) -> bool:
        law = self._law(value, whole)
        rank = self._rank(value)
        if law is None or rank is None or not -rank <= axis < rank:
            return False
        if axis % rank != law.output_axis:
            return False
        starts = self._starts(law, whole, parts)
        if starts is None:
            return False
        for position, number in enumerate(whole.inputs):
            if number is None or number not in self._numbers.constant:
                continue  # equal, because the parts are alike
            along = law.axis_of.get(position)
            for part, (start, stop) in zip(parts, pairwise(starts), strict=True):
                own = part.inputs[position]
                if along is None and own != number:
                    return False
                if along is not None and (
                    own is None or not is_slice(self._numbers, own, number, Cut(along, start, stop))
                ):
                    return False
        return True

    def _starts(self, law: _Law, whole: OpKey, parts: Sequence[OpKey]) -> list[int] | None:
        """Where each part begins, and the end of the last; None where they are no whole."""
        operand, axis = next(iter(law.axis_of.items()))
        number = whole.inputs[operand]
        extents = None if number is None else constant_shape(self._numbers, number)
        starts = [0]
        for part in parts:
            own = part.inputs[operand]
            shape = None if own is None else constant_shape(self._numbers, own)
            if shape is None or axis >= len(shape):
                return None
            starts.append(starts[-1] + shape[axis])
        return starts if extents is not None and starts[-1] == extents[axis] else None

    def _rank(self, value: int) -> int | None:
        shape = self._numbers.shapes.get(value)
        return None if shape is None else len(shape)

    def _law(self, value: int, op: OpKey) -> _Law | None:
        if op.domain:
            return None
        attributes = dict(op.attributes)
        match op.op_type:
            case "MatMul":
                return self._matmul(value, op)
            case "Gemm":
                return self._gemm(op, attributes)
            case "Gather":
                return self._gather(op, attributes)
            case "Conv":
                if "group" in attributes:
                    return None
                return _Law({1: 0} | ({2: 0} if self._is_constant(op, 2) else {}), 1)
            case _:
                return None

    def _matmul(self, value: int, op: OpKey) -> _Law | None:
        """`A @ [B1 B2] = [A @ B1, A @ B2]`."""
        shape, rank = self._shape(op, 1), self._rank(value)
        if shape is None or len(shape) != 2 or not rank:
            return None
        return _Law({1: 1}, rank - 1)

    def _gemm(self, op: OpKey, attributes: Mapping[str, object]) -> _Law | None:
        """As a product; the bias is one of columns, or the same for all."""
        shape = self._shape(op, 1)
        if shape is None or len(shape) != 2:
            return None
        axis = 0 if attributes.get("transB", ("i", 0)) != ("i", 0) else 1
        axes = {1: axis}
        if len(op.inputs) > 2 and op.inputs[2] is not None:
            bias = self._shape(op, 2)
            if bias is None:
                return None
            if bias and bias[-1] == shape[axis] > 1:
                axes[2] = len(bias) - 1
            elif bias and bias[-1] != 1:
                return None
        return _Law(axes, 1)

    def _gather(self, op: OpKey, attributes: Mapping[str, object]) -> _Law | None:
        """Columns of a table of which rows are looked up."""
        shape = self._shape(op, 0)
        indices = None if op.inputs[1] is None else self._numbers.shapes.get(op.inputs[1])
        if indices is None:
            indices = self._shape(op, 1)
        if shape is None or len(shape) < 2 or indices is None:
            return None
        axis = attributes.get("axis", ("i", 0))
        if axis not in (("i", 0), ("i", -len(shape))):
            return None
        return _Law({0: len(shape) - 1}, len(indices) + len(shape) - 2)

    def _is_constant(self, op: OpKey, position: int) -> bool:
        number = op.inputs[position] if position < len(op.inputs) else None
        return number is not None and number in self._numbers.constant

    def _shape(self, op: OpKey, position: int) -> tuple[int, ...] | None:
        number = op.inputs[position] if position < len(op.inputs) else None
        if number is None:
            return None
        if number not in self._numbers.constant:
            return self._numbers.shapes.get(number)
        return constant_shape(self._numbers, number)
