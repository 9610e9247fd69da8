"""Ops that give the same elements another shape or order."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mcm_compiler.contracts.sharding.rules import Dim, ShardingRule
from mcm_passes.parallelism.rules.operators.composing import BLOCKED, OpRule, RuleFamily, Shape

RULES = RuleFamily()


@RULES.of("Transpose", inputs=1)
def transpose(op: OpRule, shape: Shape) -> ShardingRule:
    """`a b -> b a`."""
    order = op.attributes.get("perm") or tuple(reversed(range(len(shape))))
    dims = op.dims(shape)
    return op.rule([dims], [[dims[axis] for axis in order]])


@RULES.of("Reshape", inputs=1, outputs=1)
def reshape(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """`(a b) c -> a (b c)`: factors are what the two shapes have in common, major to minor."""
    sizes = _settled(shape, out, op.constants.get(1, ()))
    if sizes is None:
        return op.whole()
    dims, result = _common_factors(op, *sizes)
    return op.rule([dims], [result])


_Size = int | None


def _settled(
    shape: Shape, out: Shape, target: tuple[int, ...]
) -> tuple[list[_Size], list[_Size]] | None:
    """Sizes of both sides; unknown ones are left only where both sides have the same.

    That follows from the elements that are left where one stands on each side, and from a target
    of 0, which copies a size. None where it is not certain, or there are no elements.
    """
    left, right = list(shape), list(out)
    unknown = left.count(None), right.count(None)
    known = [math.prod(s for s in side if s is not None) for side in (left, right)]
    if 0 in known:
        return None
    copied = [axis for axis, size in enumerate(target) if size == 0]
    if unknown == (1, 1) and known[0] == known[1]:
        return left, right
    if unknown == (0, 1) and known[0] % known[1] == 0:
        return left, [known[0] // known[1] if s is None else s for s in right]
    if unknown == (1, 0) and known[1] % known[0] == 0:
        return [known[1] // known[0] if s is None else s for s in left], right
    places = [axis for axis, size in enumerate(right) if size is None]
    same = places == [axis for axis, size in enumerate(left) if size is None]
    last = places[-1] if places else 0
    certain = same and set(places) <= set(copied) and left[:last] == right[:last]
    return (left, right) if certain or not any(unknown) else None


def _common_factors(
    op: OpRule, left: list[_Size], right: list[_Size]
) -> tuple[list[Dim], list[Dim]]:
    """Splits both sides into factors, from the major end on; a rest without a common one blocks."""
    dims: list[Dim] = [() for _ in left]
    result: list[Dim] = [() for _ in right]
    i = j = 0
    rest_l, rest_r = (left[:1] or [1])[0], (right[:1] or [1])[0]
    while i < len(left) or j < len(right):
        if i < len(left) and rest_l == 1:
            i += 1
            rest_l = left[i] if i < len(left) else 1
            continue
        if j < len(right) and rest_r == 1:
            j += 1
            rest_r = right[j] if j < len(right) else 1
            continue
        if i == len(left) or j == len(right) or not _may_share(rest_l, rest_r):
            break
        if rest_l is None or rest_r is None:
            factor, rest_l, rest_r = op.dim(None), 1, 1
        else:
            size = math.gcd(rest_l, rest_r)
            factor, rest_l, rest_r = op.dim(size), rest_l // size, rest_r // size
        dims[i] += factor
        result[j] += factor
    if i < len(left) and j < len(right):
        _from_behind(op, (left, dims, i, rest_l), (right, result, j, rest_r))
    return dims, result


def _may_share(left: _Size, right: _Size) -> bool:
    if left is None or right is None:
        return left is None and right is None
    return math.gcd(left, right) > 1


_Side = tuple[list[_Size], list[Dim], int, _Size]
"""Sizes, factors so far, the dimension that was reached, and what is left of it."""


def _from_behind(op: OpRule, left: _Side, right: _Side) -> None:
    """Finds where both sides agree again: minor dimensions after a rest of equal extent.

    Between the two points elements are interleaved, so the factors there are blocked.
    """
    ends = _next_agreement(left, right)
    for sizes, dims, start, rest in (left, right):
        end = ends[0] if sizes is left[0] else ends[1]
        for axis in range(start, end):
            size = rest if axis == start else sizes[axis]
            dims[axis] += op.dim(size, BLOCKED)
    if ends[0] < len(left[0]) and ends[1] < len(right[0]):
        tail_l, tail_r = _common_factors(op, left[0][ends[0] :], right[0][ends[1] :])
        left[1][ends[0] :] = tail_l
        right[1][ends[1] :] = tail_r


def _next_agreement(left: _Side, right: _Side) -> tuple[int, int]:
    """The first dimensions, of both sides, in front of which equally many elements are left."""
    reached = {product: axis for axis, product in _products(left)}
    for axis, product in _products(right):
        if product in reached:
            return reached[product], axis
    return len(left[0]), len(right[0])


def _products(side: _Side) -> Iterator[tuple[int, int]]:
    """Elements from where the side is, up to each dimension whose size is known."""
    sizes, _, start, rest = side
    product = 1
    for axis in range(start, len(sizes)):
        size = rest if axis == start else sizes[axis]
        if size is None:
            return
        product *= size
        yield axis + 1, product


@RULES.of("Squeeze", inputs=1)
def squeeze(op: OpRule, shape: Shape) -> ShardingRule:
    """`a 1 b -> a b`."""
    axes = op.listed(1, "axes")
    if axes is None and (op.is_given(1) or None in shape):
        return op.whole()
    dropped = (
        {axis for axis, size in enumerate(shape) if size == 1}
        if axes is None
        else {axis % len(shape) for axis in axes}
    )
    dims = [() if axis in dropped else op.dim(size) for axis, size in enumerate(shape)]
    result = [dim for axis, dim in enumerate(dims) if axis not in dropped]
    return op.rule([dims], [result])


@RULES.of("Unsqueeze", inputs=1)
def unsqueeze(op: OpRule, shape: Shape) -> ShardingRule:
    """`a b -> a 1 b`."""
    axes = op.listed(1, "axes")
    if axes is None:
        return op.whole()
    rank = len(shape) + len(axes)
    added = {axis % rank for axis in axes}
    dims = op.dims(shape)
    rest = iter(dims)
    result = [() if axis in added else next(rest) for axis in range(rank)]
    return op.rule([dims], [result])


@RULES.of("Flatten", inputs=1)
def flatten(op: OpRule, shape: Shape) -> ShardingRule:
    """`a b c -> (a b) c`; a product is divided along its major factor."""
    axis = op.axis(1, len(shape))
    dims = op.dims(shape)
    merged = [tuple(f for d in part for f in d) for part in (dims[:axis], dims[axis:])]
    return op.rule([dims], [merged])


@RULES.of("DepthToSpace", to_depth=False)
@RULES.of("SpaceToDepth", to_depth=True)
def pixels(op: OpRule, to_depth: bool) -> ShardingRule:
    """DepthToSpace `n (!i !j c) y x -> n c (y !i) (x !j)`, and its inverse, in both modes."""
    deep = op.outputs[0] if to_depth else op.inputs[0]
    if deep is None or deep[1] is None:
        return op.whole()
    block = int(op.attributes["blocksize"])
    n, y, x = (op.dim(deep[axis], name=name) for axis, name in ((0, "n"), (2, "y"), (3, "x")))
    c = op.dim(deep[1] // block**2, name="c")
    i, j = op.needed(block, "i"), op.needed(block, "j")
    rows_first = op.attributes.get("mode", "DCR") in ("CRD", b"CRD")
    depth = [n, c + i + j if rows_first else i + j + c, y, x]
    space = [n, c, y + i, x + j]
    return op.rule([space], [depth]) if to_depth else op.rule([depth], [space])
