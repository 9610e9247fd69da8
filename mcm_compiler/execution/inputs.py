"""Seeded random inputs that a model accepts.

Integers are mostly indices, lengths or flags: where an input reaches the indices of a table, or
the lengths of a recurrent op, it stays within them, and otherwise it is 0 or 1. Floats are
standard normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.graph import dimensions, estimated_dims, map_types

_TRANSPARENT = frozenset(
    {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Slice",
     "Concat", "Expand", "Where"}
)  # fmt: skip
"""Ops that hand index values on."""

_SMALL_VOCABULARY = 2


Fill = Literal["drawn", "ones", "zeros"]

FILLS: tuple[Fill, ...] = get_args(Fill)
"""How integers and flags may be filled, in the order in which to try: many models take sizes or
positions as inputs, and run on few of them."""


def fills_of(model: ir.Model) -> tuple[Fill, ...]:
    """Those of `FILLS` that give `model` other inputs than the ones before."""
    kinds = [value.type.dtype for value in dimensions.free_inputs(model) if value.type is not None]
    varied = any(kind.is_integer() or kind is ir.DataType.BOOL for kind in kinds)
    return FILLS if varied else FILLS[:1]


def random_inputs(model: ir.Model, seed: int, fill: Fill = "drawn") -> dict[str, Any]:
    """Values for all graph inputs of `model`, the same for the same names, shapes and seed.

    A sequence gets two elements, an optional its value, and a map one entry. Dimensions that are
    open have the size that is planned, or 1; inputs of unknown type are left out. A mask that is
    drawn admits the first token: softmax of a row without any is NaN.

    Args:
        model: whose inputs are filled.
        seed: of all that is drawn.
        fill: how integers and flags are filled.
    """
    feeds: dict[str, Any] = {}
    for value in dimensions.free_inputs(model):
        if value.type is None:
            continue
        rng = seeded_generator(seed, value.name or "")
        limit = index_limit(value) if fill == "drawn" else None
        constant = 1 if fill == "ones" else 0
        integers = _Integers(limit, constant)
        found = _random_value(rng, value.type, value.shape, integers)
        if limit is not None and "mask" in (value.name or "") and np.ndim(found) == 2:
            first = found[:, :1]
            first[first == 0] = 1
        feeds[value.name or ""] = found
    return feeds


def random_batches(model: ir.Model) -> list[dict[str, Any]]:
    """Random inputs for measurements: two of them, because times of some ops depend on values."""
    return [random_inputs(model, seed) for seed in range(2)]


@dataclass(frozen=True)
class _Integers:
    """Integers below `limit`, or all, flags too, equal to `constant` where there is no limit."""

    limit: int | None
    constant: int

    def array(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        if self.limit is None:
            return np.full(shape, self.constant, dtype=np.int64)
        return rng.integers(0, self.limit, shape, dtype=np.int64)


_WORDS = ("alpha", "beta", "gamma", "delta", "")
"""Strings and string keys of generated inputs."""


def _random_value(
    rng: np.random.Generator, kind: ir.TypeProtocol, shape: ir.Shape | None, integers: _Integers
) -> Any:
    if isinstance(kind, ir.SequenceType):
        return [_random_value(rng, kind.elem_type, shape, integers) for _ in range(2)]
    if isinstance(kind, ir.OptionalType):
        return _random_value(rng, kind.elem_type, shape, integers)
    if isinstance(kind, map_types.MapType):
        values = _random_array(rng, kind.dtype, (len(_WORDS),), integers).tolist()
        keys = _WORDS if kind.key_type is ir.DataType.STRING else range(len(_WORDS))
        return dict(zip(keys, values, strict=True))
    dims = shape.dims if shape is not None else ()
    sizes = tuple(map(estimated_dims.dim_size, dims))
    return _random_array(rng, kind.dtype, sizes, integers)


def _random_array(
    rng: np.random.Generator, dtype: ir.DataType, shape: tuple[int, ...], integers: _Integers
) -> np.ndarray:
    if dtype is ir.DataType.STRING:
        words = np.array(_WORDS, dtype=object)
        return np.asarray(words[rng.integers(0, len(words), shape)], dtype=object)
    if dtype is ir.DataType.BOOL:
        drawn = integers.limit is not None
        flags = rng.integers(0, 2, shape) if drawn else np.full(shape, integers.constant)
        return flags.astype(np.bool_)
    numpy_type = dtype.numpy()
    if dtype.is_integer():
        return integers.array(rng, shape).astype(numpy_type, copy=False)
    real = np.asarray(rng.standard_normal(shape))
    if dtype.is_floating_point():
        return np.asarray(real, dtype=np.float32).astype(numpy_type)
    return np.asarray(real + 1j * rng.standard_normal(shape)).astype(numpy_type)


def index_limit(value: ir.Value) -> int:
    """One more than the largest integer that is safe to feed.

    That is the size of the smallest table that `value` indexes, one more than the shortest
    sequence that it gives the length of, or 2 where it does neither.
    """
    limits: list[int] = []
    seen = {value}
    queue = [value]
    while queue:
        for use in queue.pop().uses():
            node = use.node
            limit = _limit_of_use(node, use.idx)
            if limit is not None and limit > 0:
                limits.append(limit)
            if node.op_type in _TRANSPARENT:
                for output in node.outputs:
                    if output not in seen:
                        seen.add(output)
                        queue.append(output)
    return min(limits, default=_SMALL_VOCABULARY)


def _limit_of_use(node: ir.Node, position: int) -> int | None:
    """The limit that reading a value as input `position` of `node` puts on it, or None."""
    match node.op_type, position:
        case ("Gather" | "GatherElements" | "ScatterElements" | "Scatter", 1):
            axis = node.attributes.get_int("axis", 0)
            return _extent(node, 0, axis)
        case ("GatherND" | "ScatterND", 1):
            table = node.inputs[0]
            rank = len(table.shape) if table is not None and table.shape is not None else 0
            return min((_extent(node, 0, axis) or 1 for axis in range(rank)), default=None)
        case ("EmbedLayerNormalization", 0 | 1):
            return _extent(node, 2 + 2 * position, 0)
        case ("LSTM" | "GRU" | "RNN", 4):
            steps = _extent(node, 0, 1 if node.attributes.get_int("layout", 0) else 0)
            return steps + 1 if steps is not None else None
        case ("ReverseSequence", 1):
            steps = _extent(node, 0, node.attributes.get_int("time_axis", 0))
            return steps + 1 if steps is not None else None
        case _:
            return None


def _extent(node: ir.Node, position: int, axis: int) -> int | None:
    """The size of an input along an axis, or None where it is not known."""
    value = node.inputs[position] if position < len(node.inputs) else None
    if value is None or value.shape is None or not -len(value.shape) <= axis < len(value.shape):
        return None
    size = value.shape[axis]
    return size if isinstance(size, int) else None
