"""Shapes of constants, computed ones too."""

from __future__ import annotations

from mcm_compiler.equivalence.values import value_numbers

_ELEMENTWISE = frozenset({"Cast", "DequantizeLinear", "QuantizeLinear"})
"""Ops that give the elements of their first operand other values."""


def constant_shape(numbers: value_numbers.ValueNumbers, number: int) -> tuple[int, ...] | None:
    """The shape of a constant, where it can be told."""
    key = numbers.key(number)
    if isinstance(key, value_numbers.WeightKey):
        return numbers.contents.shape(key.content)
    if isinstance(key, value_numbers.PlaceholderKey):
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


def _listed(numbers: value_numbers.ValueNumbers, content: int) -> tuple[int, ...]:
    return tuple(numbers.contents.array(content).reshape(-1).tolist())


def _op(numbers: value_numbers.ValueNumbers, number: int) -> value_numbers.OpKey | None:
    key = numbers.key(number)
    if not isinstance(key, value_numbers.OutputKey) or key.position:
        return None
    op = numbers.key(key.op)
    return op if isinstance(op, value_numbers.OpKey) else None


def _permutation(op: value_numbers.OpKey, rank: int) -> tuple[int, ...]:
    given = dict(op.attributes).get("perm")
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], tuple):
        return tuple(int(axis) for axis in given[1])
    return tuple(range(rank))[::-1]
