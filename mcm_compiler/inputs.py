"""Seeded random inputs that a model accepts.

Integers are mostly indices or flags: where an input reaches the indices of a Gather, it stays
within that table, and otherwise it is 0 or 1. Floats are standard normal.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.ir.dimensions import free_inputs

_TRANSPARENT = frozenset(
    {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Slice",
     "Concat", "Expand", "Where"}
)  # fmt: skip
"""Ops that hand index values on."""

_SMALL_VOCABULARY = 2


def random_inputs(model: ir.Model, seed: int) -> dict[str, Any]:
    """Arrays for all graph inputs of `model`, the same for the same names, shapes and seed.

    Inputs without a tensor type are left out; dimensions that are not static count as 1.
    """
    feeds: dict[str, Any] = {}
    for value in free_inputs(model):
        if not isinstance(value.type, ir.TensorType) or value.dtype is None:
            continue
        digest = hashlib.blake2b(f"{seed}/{value.name}".encode(), digest_size=16).digest()
        rng = np.random.default_rng(int.from_bytes(digest, "little"))
        dims = value.shape.dims if value.shape is not None else ()
        shape = tuple(dim if isinstance(dim, int) else 1 for dim in dims)
        feeds[value.name or ""] = _random_array(rng, value, shape)
    return feeds


def _random_array(rng: np.random.Generator, value: ir.Value, shape: tuple[int, ...]) -> Any:
    dtype = value.dtype
    assert dtype is not None
    if dtype is ir.DataType.STRING:
        words = np.array(["alpha", "beta", "gamma", "delta", ""], dtype=object)
        return words[rng.integers(0, len(words), shape)]
    if dtype is ir.DataType.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    numpy_type = dtype.numpy()
    if dtype.is_integer():
        return rng.integers(0, index_limit(value), shape).astype(numpy_type)
    if dtype.is_floating_point():
        return np.asarray(rng.standard_normal(shape), dtype=np.float32).astype(numpy_type)
    real = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return np.asarray(real).astype(numpy_type)


def index_limit(value: ir.Value) -> int:
    """One more than the largest integer that is safe to feed.

    That is the size of the smallest table that `value` indexes, or 2 where it indexes none.
    """
    limit: int | None = None
    seen = {value}
    queue = [value]
    while queue:
        at = queue.pop()
        for use in at.uses():
            node, position = use.node, use.idx
            if node.op_type in ("Gather", "GatherElements") and position == 1:
                table = node.inputs[0]
                attribute = node.attributes.get("axis")
                axis = attribute.as_int() if attribute is not None else 0
                size = table.shape[axis] if table is not None and table.shape is not None else None
                if isinstance(size, int) and size > 0:
                    limit = size if limit is None else min(limit, size)
            elif node.op_type in _TRANSPARENT:
                for output in node.outputs:
                    if output not in seen:
                        seen.add(output)
                        queue.append(output)
    return _SMALL_VOCABULARY if limit is None else limit
