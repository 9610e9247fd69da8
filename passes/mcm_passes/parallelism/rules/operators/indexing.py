"""Ops that read or write at indices."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import Dim, OpFacts, RuleMaker, ShardingRule
from mcm_passes.parallelism.rules.operators.composing import (
    PASS,
    REDUCE,
    REPLICATE,
    RuleBuilder,
    Shape,
    axis_of,
    known_shapes,
    same_shape,
    whole,
)


@known_shapes(inputs=2)
def gather(facts: OpFacts, data: Shape, indices: Shape) -> ShardingRule:
    """`v+ d, i -> i d`: with part of the rows, a device gives zeros for the indices of others.

    `!v d, [] -> d` for a scalar that is known, which takes something apart, as queries from keys.
    """
    axis = axis_of(facts, 0, len(data))
    build = RuleBuilder()
    kind = REPLICATE if indices == () and 1 in facts.constants else REDUCE
    dims = [build.dim(s, kind if i == axis else PASS) for i, s in enumerate(data)]
    at = build.dims(indices)
    return build.rule([dims, at], [dims[:axis] + at + dims[axis + 1 :]])


@known_shapes(inputs=2)
def gather_elements(facts: OpFacts, data: Shape, indices: Shape) -> ShardingRule:
    """`a !v, a i -> a i`; other dimensions pass where the indices cover them all."""
    axis = axis_of(facts, 0, len(data))
    build = RuleBuilder()
    dims: list[Dim] = []
    at: list[Dim] = []
    for i, (size, read) in enumerate(zip(data, indices, strict=True)):
        if i != axis and size == read and size is not None:
            shared = build.dim(size)
            dims.append(shared)
            at.append(shared)
        else:
            dims.append(build.dim(size, REPLICATE))
            at.append(build.dim(read))
            if i != axis:
                at[-1] = build.dim(read, REPLICATE)
    return build.rule([dims, at], [at])


@known_shapes(inputs=2)
def gather_nd(facts: OpFacts, data: Shape, indices: Shape) -> ShardingRule:
    """`b !v d, b i !k -> b i d`: the last dimension of the indices says how many are indexed."""
    if indices[-1] is None:
        return whole(facts)
    batch = int(facts.attributes.get("batch_dims", 0))
    indexed = batch + indices[-1]
    build = RuleBuilder()
    dims = [build.dim(s, REPLICATE if batch <= i < indexed else PASS) for i, s in enumerate(data)]
    at = [*dims[:batch], *build.dims(indices[batch:-1]), build.dim(indices[-1], REPLICATE)]
    return build.rule([dims, at], [at[:-1] + dims[indexed:]])


@known_shapes(inputs=2)
def scatter_elements(facts: OpFacts, data: Shape, indices: Shape) -> ShardingRule:
    """`a !v, a !i, a !i -> a !v`; other dimensions pass where the indices cover them all."""
    axis = axis_of(facts, 0, len(data))
    build = RuleBuilder()
    dims: list[Dim] = []
    at: list[Dim] = []
    for i, (size, written) in enumerate(zip(data, indices, strict=True)):
        if i != axis and size == written and size is not None:
            dims.append(build.dim(size))
            at.append(dims[-1])
        else:
            dims.append(build.dim(size, REPLICATE))
            at.append(build.dim(written, REPLICATE))
    return build.rule([dims, at, at], [dims])


@known_shapes(inputs=2)
def scatter_nd(facts: OpFacts, data: Shape, indices: Shape) -> ShardingRule:
    """`!v d, !i !k, !i d -> !v d`: what the indices do not address passes."""
    if indices[-1] is None:
        return whole(facts)
    indexed = indices[-1]
    build = RuleBuilder()
    dims = [build.dim(s, REPLICATE if i < indexed else PASS) for i, s in enumerate(data)]
    at = build.dims(indices, REPLICATE)
    return build.rule([dims, at, at[:-1] + dims[indexed:]], [dims])


@known_shapes(inputs=2)
def tensor_scatter(facts: OpFacts, cache: Shape, update: Shape) -> ShardingRule:
    """`b h !t d, b h !s d, b -> b h !t d`: a cache that is written along `axis`."""
    axis = axis_of(facts, -2, len(cache))
    build = RuleBuilder()
    dims = [build.dim(s, REPLICATE if i == axis else PASS) for i, s in enumerate(cache)]
    new = list(dims)
    new[axis] = build.dim(update[axis], REPLICATE)
    starts = [[dims[0]]] if len(facts.input_shapes) > 2 else []
    return build.rule([dims, new, *starts], [dims])


@known_shapes(inputs=1, outputs=1)
def one_hot(facts: OpFacts, indices: Shape, out: Shape) -> ShardingRule:
    """`i, _, _ -> i !c`: the classes stand along a new dimension at `axis`."""
    axis = axis_of(facts, -1, len(out))
    build = RuleBuilder()
    dims = build.dims(indices)
    classes = build.dim(out[axis], REPLICATE)
    return build.rule([dims, None, None], [[*dims[:axis], classes, *dims[axis:]]])


@known_shapes(inputs=1, outputs=1)
def top_k(facts: OpFacts, shape: Shape, out: Shape) -> ShardingRule:
    """`a !n, _ -> a !k, a !k`."""
    return _chosen(facts, shape, out, axis_of(facts, -1, len(shape)))


@known_shapes(inputs=1, outputs=1)
def compress(facts: OpFacts, shape: Shape, out: Shape) -> ShardingRule:
    """`a !n, _ -> a !m` along `axis`; without one, all is flattened and needed whole."""
    if "axis" not in facts.attributes:
        return whole(facts)
    return _chosen(facts, shape, out, axis_of(facts, 0, len(shape)))


def _chosen(facts: OpFacts, shape: Shape, out: Shape, axis: int) -> ShardingRule:
    """Some of the elements along `axis`, which is needed whole, in every result."""
    build = RuleBuilder()
    dims = [build.dim(s, REPLICATE if i == axis else PASS) for i, s in enumerate(shape)]
    kept = [*dims[:axis], build.dim(out[axis], REPLICATE), *dims[axis + 1 :]]
    rest = [None] * (len(facts.input_shapes) - 1)
    return build.rule([dims, *rest], [kept] * len(facts.output_shapes))


@known_shapes(inputs=1)
def reverse_sequence(facts: OpFacts, shape: Shape) -> ShardingRule:
    """`!t b d, b -> !t b d`: the length of each sequence says how much of it is reversed."""
    time = axis_of(facts, 0, len(shape), "time_axis")
    batch = axis_of(facts, 1, len(shape), "batch_axis")
    build = RuleBuilder()
    dims = [build.dim(s, REPLICATE if i == time else PASS) for i, s in enumerate(shape)]
    return build.rule([dims, [dims[batch]]], [dims])


@known_shapes(inputs=1)
def triangle(facts: OpFacts, shape: Shape) -> ShardingRule:
    """`* !n !m, _ -> * !n !m`."""
    return same_shape(facts, shape, range(len(shape) - 2, len(shape)))


RULES: dict[str, RuleMaker] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "Scatter": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
    "OneHot": one_hot,
    "TopK": top_k,
    "Compress": compress,
    "ReverseSequence": reverse_sequence,
    "Trilu": triangle,
}
