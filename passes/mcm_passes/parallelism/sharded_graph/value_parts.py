"""Values taken apart and put together by ops of standard ONNX.

Where a part is made of several runs, as of queries, keys and values side by side, these are given
a dimension of their own in between.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.sharding.rules import Reduction
from mcm_passes.parallelism.sharded_graph.new_ops import Dims, NewOps

COMBINERS: dict[Reduction, str] = {
    "sum": "Add",
    "mean": "Add",
    "max": "Max",
    "min": "Min",
    "prod": "Mul",
}

SPLIT_SIZES_ARE_AN_OPERAND = 13
"""Opset from which on; an attribute before."""

_NOT_ADDED = frozenset(
    {ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.INT16, ir.DataType.UINT8, ir.DataType.UINT16}
)
"""Types that `Add` did not take in all opsets, nor do all kernels of it."""


def split_value(
    make: NewOps, value: ir.Value, axis: int, runs: int, sizes: Sequence[int]
) -> tuple[ir.Value, ...]:
    """The parts of a value.

    Args:
        make: makes ops.
        value: of known extent along `axis`.
        axis: along which it is taken apart, not negative.
        runs: of each part.
        sizes: elements of each run of each part.
    """
    assert value.shape is not None
    whole = _spread(make, value, axis, runs) if runs > 1 else value
    assert whole.shape is not None
    at = axis + (runs > 1)
    results: list[ir.Value] = []
    for number, size in enumerate(sizes):
        dims = list(whole.shape)
        dims[at] = size
        name = make.names.take(f"{value.name}@part_{number}")
        results.append(ir.Value(name=name, type=value.type, shape=ir.Shape(dims)))
    operands, attributes = [whole], [ir.AttrInt64("axis", at)]
    if make.opset < SPLIT_SIZES_ARE_AN_OPERAND:
        attributes.append(ir.AttrInt64s("split", sizes))
    else:
        operands.append(make.constant(np.array(sizes, np.int64), "sizes"))
    name = make.names.take(f"{value.name}/split")
    make.insert(ir.Node("", "Split", operands, attributes, outputs=results, name=name))
    if runs > 1:
        return tuple(_without_runs(make, part, axis) for part in results)
    return tuple(results)


def joined_value(
    make: NewOps, parts: Sequence[ir.Value], whole: ir.Value, axis: int, runs: int
) -> ir.Value:
    """Value that parts make up.

    Args:
        make: makes ops.
        parts: in order.
        whole: has type and shape of the result.
        axis: along which they are parts, not negative.
        runs: of each part.
    """
    assert whole.shape is not None
    if runs == 1:
        along = [ir.AttrInt64("axis", axis)]
        return make.op("Concat", parts, along, whole.dtype, whole.shape.dims)
    spread = [_spread(make, part, axis, runs) for part in parts]
    dims = list(whole.shape)
    dims[axis : axis + 1] = [runs, known_extent(whole, axis) // runs]
    along = [ir.AttrInt64("axis", axis + 1)]
    return _without_runs(make, make.op("Concat", spread, along, whole.dtype, dims), axis)


def combined_results(
    make: NewOps, parts: Sequence[ir.Value], reduction: Reduction, shares: Sequence[float]
) -> ir.Value:
    """Partial results put together, one after the other.

    Args:
        make: makes ops.
        parts: in order.
        reduction: how.
        shares: of each part in a mean.
    """
    dtype = parts[0].dtype
    assert dtype is not None
    if reduction == "mean":
        weights = [make.constant(np.array(share, dtype.numpy()), "share") for share in shares]
        parts = [make.like("Mul", pair) for pair in zip(parts, weights, strict=True)]
    if dtype in _NOT_ADDED:
        # Rows of a quantised table, of which all parts but one are zeros.
        parts = [_cast(make, part, ir.DataType.INT32) for part in parts]
    total, *others = parts
    for other in others:
        total = make.like(COMBINERS[reduction], [total, other])
    return _cast(make, total, dtype) if dtype in _NOT_ADDED else total


def known_extent(value: ir.Value, axis: int) -> int:
    """Extent of a dimension that is divided, and so known."""
    assert value.shape is not None
    extent = value.shape[axis]
    assert isinstance(extent, int)
    return extent


def _cast(make: NewOps, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    dims = value.shape.dims if value.shape is not None else ()
    return make.op("Cast", [value], [ir.AttrInt64("to", int(dtype))], dtype, dims)


def _spread(make: NewOps, value: ir.Value, axis: int, runs: int) -> ir.Value:
    """A value with a dimension for its runs, at `axis`."""
    assert value.shape is not None
    dims = list(value.shape)
    dims[axis : axis + 1] = [runs, known_extent(value, axis) // runs]
    return _reshaped(make, value, dims)


def _without_runs(make: NewOps, value: ir.Value, axis: int) -> ir.Value:
    """A value whose runs are a dimension of their own, at `axis`, without it."""
    assert value.shape is not None
    dims = list(value.shape)
    dims[axis : axis + 2] = [known_extent(value, axis) * known_extent(value, axis + 1)]
    return _reshaped(make, value, dims)


def _reshaped(make: NewOps, value: ir.Value, dims: Dims) -> ir.Value:
    sizes = [size if isinstance(size, int) else -1 for size in dims]
    target = make.constant(np.array(sizes, np.int64), "shape")
    return make.op("Reshape", [value, target], [], value.dtype, dims)
