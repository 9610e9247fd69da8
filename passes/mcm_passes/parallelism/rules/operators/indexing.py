"""Ops that read or write at indices."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import Dim, ShardingRule
from mcm_passes.parallelism.rules.operators.composing import (
    PASS,
    REDUCE,
    REPLICATE,
    OpRule,
    RuleFamily,
    Shape,
)

RULES = RuleFamily()


@RULES.of("Gather", inputs=2)
def gather(op: OpRule, data: Shape, indices: Shape) -> ShardingRule:
    """`v+ d, i -> i d`: with part of the rows, a device gives zeros for the indices of others.

    `!v d, [] -> d` for a scalar that is known, which takes something apart, as queries from keys.
    """
    axis = op.axis(0, len(data))
    kind = REPLICATE if indices == () and 1 in op.constants else REDUCE
    dims = [op.dim(s, kind if i == axis else PASS) for i, s in enumerate(data)]
    at = op.dims(indices)
    return op.rule([dims, at], [dims[:axis] + at + dims[axis + 1 :]])


@RULES.of("GatherElements", inputs=2)
def gather_elements(op: OpRule, data: Shape, indices: Shape) -> ShardingRule:
    """`a !v, a i -> a i`; other dimensions pass where the indices cover them all."""
    axis = op.axis(0, len(data))
    dims, at = _covered(op, data, indices, axis)
    at[axis] = op.dim(indices[axis])
    return op.rule([dims, at], [at])


def _covered(op: OpRule, data: Shape, indices: Shape, axis: int) -> tuple[list[Dim], list[Dim]]:
    """Dimensions of data and indices: those that the indices cover pass, `axis` is none of them."""
    dims: list[Dim] = []
    at: list[Dim] = []
    for i, (size, indexed) in enumerate(zip(data, indices, strict=True)):
        if i != axis and size == indexed and size is not None:
            dims.append(op.dim(size))
            at.append(dims[-1])
        else:
            dims.append(op.needed(size))
            at.append(op.needed(indexed))
    return dims, at


@RULES.of("GatherND", inputs=2)
def gather_nd(op: OpRule, data: Shape, indices: Shape) -> ShardingRule:
    """`b !v d, b i !k -> b i d`: the last dimension of the indices says how many are indexed."""
    if indices[-1] is None:
        return op.whole()
    batch = int(op.attributes.get("batch_dims", 0))
    indexed = batch + indices[-1]
    dims = op.dims(data, range(batch, indexed))
    at = [*dims[:batch], *op.dims(indices[batch:-1]), op.needed(indices[-1])]
    return op.rule([dims, at], [at[:-1] + dims[indexed:]])


@RULES.of("ScatterElements", "Scatter", inputs=2)
def scatter_elements(op: OpRule, data: Shape, indices: Shape) -> ShardingRule:
    """`a !v, a !i, a !i -> a !v`; other dimensions pass where the indices cover them all."""
    dims, at = _covered(op, data, indices, op.axis(0, len(data)))
    return op.rule([dims, at, at], [dims])


@RULES.of("ScatterND", inputs=2)
def scatter_nd(op: OpRule, data: Shape, indices: Shape) -> ShardingRule:
    """`!v d, !i !k, !i d -> !v d`: what the indices do not address passes."""
    if indices[-1] is None:
        return op.whole()
    indexed = indices[-1]
    dims = op.dims(data, range(indexed))
    at = op.all_needed(indices)
    return op.rule([dims, at, at[:-1] + dims[indexed:]], [dims])


@RULES.of("TensorScatter", inputs=2)
def tensor_scatter(op: OpRule, cache: Shape, update: Shape) -> ShardingRule:
    """`b h !t d, b h !s d, b -> b h !t d`: a cache that is written along `axis`."""
    axis = op.axis(-2, len(cache))
    dims = op.dims(cache, {axis})
    new = list(dims)
    new[axis] = op.needed(update[axis])
    starts = [[dims[0]]] if len(op.inputs) > 2 else []
    return op.rule([dims, new, *starts], [dims])


@RULES.of("OneHot", inputs=1, outputs=1)
def one_hot(op: OpRule, indices: Shape, out: Shape) -> ShardingRule:
    """`i, _, _ -> i !c`: the classes stand along a new dimension at `axis`."""
    axis = op.axis(-1, len(out))
    dims = op.dims(indices)
    classes = op.needed(out[axis])
    return op.rule([dims], [[*dims[:axis], classes, *dims[axis:]]])


@RULES.of("TopK", inputs=1, outputs=1)
def top_k(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """`a !n, _ -> a !k, a !k`."""
    return _chosen(op, shape, out, op.axis(-1, len(shape)))


@RULES.of("Compress", inputs=1, outputs=1)
def compress(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """`a !n, _ -> a !m` along `axis`; without one, all is flattened and needed whole."""
    if "axis" not in op.attributes:
        return op.whole()
    return _chosen(op, shape, out, op.axis(0, len(shape)))


def _chosen(op: OpRule, shape: Shape, out: Shape, axis: int) -> ShardingRule:
    """Some of the elements along `axis`, which is needed whole, in every result."""
    dims = op.dims(shape, {axis})
    kept = [*dims[:axis], op.needed(out[axis]), *dims[axis + 1 :]]
    return op.rule([dims], [kept] * len(op.outputs))


@RULES.of("ReverseSequence", inputs=1)
def reverse_sequence(op: OpRule, shape: Shape) -> ShardingRule:
    """`!t b d, b -> !t b d`: the length of each sequence says how much of it is reversed."""
    time = op.axis(0, len(shape), "time_axis")
    batch = op.axis(1, len(shape), "batch_axis")
    dims = op.dims(shape, {time})
    return op.rule([dims, [dims[batch]]], [dims])


@RULES.of("Trilu", inputs=1)
def triangle(op: OpRule, shape: Shape) -> ShardingRule:
    """`* !n !m, _ -> * !n !m`."""
    return op.same_shape(shape, range(len(shape) - 2, len(shape)))
