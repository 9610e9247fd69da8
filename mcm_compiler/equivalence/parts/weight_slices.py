"""Whether a constant of a chip is a slice of a constant of the model.

Weights may be computed: of a transposed weight the slice is the transposed slice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.equivalence.values.value_numbers import (
    OpKey,
    OutputKey,
    PlaceholderKey,
    ValueNumbers,
    WeightKey,
)

_ELEMENTWISE = frozenset({"Cast", "DequantizeLinear", "QuantizeLinear"})
"""Ops that give the elements of their first operand other values."""


@dataclass(frozen=True)
class Cut:
    """A part along an axis.

    Attributes:
        axis: which one.
        start: first element.
        stop: one past the last.
    """

    axis: int
    start: int
    stop: int

    def of_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the part."""
        return (*shape[: self.axis], self.stop - self.start, *shape[self.axis + 1 :])


def is_slice(numbers: ValueNumbers, part: int, whole: int, cut: Cut) -> bool:
    """Whether the constant `part` is the part `cut` of the constant `whole`."""
    shape = constant_shape(numbers, whole)
    if shape is None or constant_shape(numbers, part) != cut.of_shape(shape):
        return False
    if part == whole:
        return cut.start == 0 and cut.stop == shape[cut.axis]
    part_key, whole_key = numbers.key(part), numbers.key(whole)
    if isinstance(part_key, WeightKey) and isinstance(whole_key, WeightKey):
        return _holds_slice(numbers, part_key.content, whole_key.content, cut)
    if isinstance(part_key, PlaceholderKey) and isinstance(whole_key, PlaceholderKey):
        place = f"{whole_key.name}/{cut.axis}_{cut.start}_{cut.stop}"
        return part_key.fill == whole_key.fill and part_key.name.startswith(place)
    return _computed_slice(numbers, part, whole, cut)


def constant_shape(numbers: ValueNumbers, number: int) -> tuple[int, ...] | None:
    """The shape of a constant, where it can be told."""
    key = numbers.key(number)
    if isinstance(key, WeightKey):
        return numbers.contents.shape(key.content)
    if isinstance(key, PlaceholderKey):
        return _listed(numbers, key.extents)
    op = _op(numbers, number)
    if op is None or not op.inputs or op.inputs[0] is None or op.domain:
        return None
    if op.op_type == "ConstantOfShape":
        content = numbers.known_content(op.inputs[0])
        return None if content is None else _listed(numbers, content)
    shape = constant_shape(numbers, op.inputs[0])
    if shape is None:
        return None
    if op.op_type == "Transpose":
        return tuple(shape[axis] for axis in _permutation(op, len(shape)))
    return shape if op.op_type in _ELEMENTWISE else None


def _computed_slice(numbers: ValueNumbers, part: int, whole: int, cut: Cut) -> bool:
    own, given = _op(numbers, part), _op(numbers, whole)
    if own is None or given is None:
        return False
    if own[:5] != given[:5] or own.inputs[1:] != given.inputs[1:] or own.domain:
        return False
    inner, outer = own.inputs[0], given.inputs[0]
    if inner is None or outer is None:
        return False
    if own.op_type == "ConstantOfShape":
        return True  # shapes and fills are equal
    if own.op_type == "Transpose":
        shape = constant_shape(numbers, outer)
        if shape is None:
            return False
        axis = _permutation(given, len(shape))[cut.axis]
        return is_slice(numbers, inner, outer, Cut(axis, cut.start, cut.stop))
    return own.op_type in _ELEMENTWISE and is_slice(numbers, inner, outer, cut)


def _holds_slice(numbers: ValueNumbers, part: int, whole: int, cut: Cut) -> bool:
    contents = numbers.contents
    left, right = contents.tensor(part), contents.tensor(whole)
    if left.dtype != right.dtype:
        return False
    index = (slice(None),) * cut.axis + (slice(cut.start, cut.stop),)
    taken = right.numpy()[index]
    # Bytes, because a NaN is not equal to itself, and 0 is to -0; a few rows at a time.
    held = left.numpy()
    rows = max(1, (1 << 24) // max(1, held.nbytes // max(1, len(held)))) if held.ndim else 1
    if held.ndim == 0 or held.shape != taken.shape:
        return False
    return all(
        np.ascontiguousarray(held[at : at + rows]).tobytes()
        == np.ascontiguousarray(taken[at : at + rows]).tobytes()
        for at in range(0, len(held), rows)
    )


def _listed(numbers: ValueNumbers, content: int) -> tuple[int, ...]:
    return tuple(numbers.contents.array(content).reshape(-1).tolist())


def _op(numbers: ValueNumbers, number: int) -> OpKey | None:
    key = numbers.key(number)
    if not isinstance(key, OutputKey) or key.position:
        return None
    op = numbers.key(key.op)
    return op if isinstance(op, OpKey) else None


def _permutation(op: OpKey, rank: int) -> tuple[int, ...]:
    given = dict(op.attributes).get("perm")
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], tuple):
        return tuple(int(axis) for axis in given[1])
    return tuple(range(rank))[::-1]
