"""Ops that join, cut, repeat or pad along some dimensions and pass the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mcm_compiler.contracts.sharding.rules import Dim, OpFacts, RuleMaker, ShardingRule
from mcm_passes.parallelism.rules.operators.composing import (
    BLOCKED,
    PASS,
    REPLICATE,
    RuleBuilder,
    Shape,
    axis_of,
    is_given,
    known_shapes,
    listed,
    whole,
)


@known_shapes(outputs=1)
def concat(facts: OpFacts, out: Shape) -> ShardingRule:
    """`a d, a d -> a (!c d)`: every device joins its part of each operand.

    Operands that differ have the greatest extent that divides all in common: `a (!b d), a d`.
    """
    shapes = facts.input_shapes
    if any(s is None for s in shapes):
        return whole(facts)
    axis = axis_of(facts, 1, len(out))
    build = RuleBuilder()
    dims = [() if i == axis else build.dim(size) for i, size in enumerate(out)]
    if len(shapes) == 1:
        dims[axis] = build.dim(out[axis])
        return build.rule([dims], [dims])
    extents = [shape[axis] for shape in shapes if shape]
    joined, pieces = _pieces(build, out[axis], extents)
    return build.rule([_with(dims, axis, piece) for piece in pieces], [_with(dims, axis, joined)])


@known_shapes(inputs=1)
def split(facts: OpFacts, shape: Shape) -> ShardingRule:
    """`a (!c d), _ -> a d, a d`: every device has its part of each result; as `concat`."""
    if any(s is None for s in facts.output_shapes):
        return whole(facts)
    axis = axis_of(facts, 0, len(shape))
    build = RuleBuilder()
    dims = [() if i == axis else build.dim(size) for i, size in enumerate(shape)]
    rest = [None] * (len(facts.input_shapes) - 1)
    if len(facts.output_shapes) == 1:
        dims[axis] = build.dim(shape[axis])
        return build.rule([dims, *rest], [dims])
    extents = [out[axis] for out in facts.output_shapes if out]
    # What `num_outputs` makes of an extent need not be parts of what it makes of another.
    given = 1 in facts.constants or "split" in facts.attributes or len(set(extents)) == 1
    joined, pieces = _pieces(build, shape[axis], extents if given else [])
    if not pieces:
        pieces = [build.dim(extent, BLOCKED) for extent in extents]
    outputs = [_with(dims, axis, piece) for piece in pieces]
    return build.rule([_with(dims, axis, joined), *rest], outputs)


def _pieces(build: RuleBuilder, extent: int | None, pieces: Sequence[int | None]) -> _Pieces:
    """The dimension that stands for pieces side by side, and those of the pieces.

    What divides all of them is the factor that can be divided, in as many runs as it is found
    side by side. Without one, parts of the whole would not be contiguous in the pieces.
    """
    known = [size for size in pieces if size]
    common = math.gcd(*known) if len(known) == len(pieces) else 1
    if extent is None or common <= 1:
        return build.dim(extent, BLOCKED), [build.dim(size, BLOCKED) for size in pieces]
    runs = [size // common for size in known]
    joined = build.dim(sum(runs), REPLICATE)
    inner = build.dim(common)
    return joined + inner, [build.dim(count, REPLICATE) + inner for count in runs]


_Pieces = tuple[Dim, list[Dim]]


def _with(dims: list[Dim], axis: int, dim: Dim) -> list[Dim]:
    return [*dims[:axis], dim, *dims[axis + 1 :]]


@known_shapes(inputs=1, outputs=1)
def take(facts: OpFacts, shape: Shape, out: Shape) -> ShardingRule:
    """Slice: dimensions that are kept from end to end pass.

    Of others every device has its part of the piece, `a (!c d), _ -> a d`, where pieces of its
    extent make up the whole and it begins with one of them.
    """
    starts = listed(facts, 1, "starts")
    axes = listed(facts, 3, "axes")
    steps = facts.constants.get(4)
    changed: set[int] | None = None
    if axes is not None or (starts is not None and not is_given(facts, 3)):
        changed = {a % len(shape) for a in (axes or range(len(starts or ())))}
    # Without a step, what keeps its size is the same; with one, it may be reversed.
    forward = not is_given(facts, 4) or (steps is not None and min(steps, default=1) > 0)
    kept = [
        (changed is not None and axis not in changed)
        or (forward and size is not None and size == result)
        for axis, (size, result) in enumerate(zip(shape, out, strict=True))
    ]
    pieces = {axis: math.gcd(*piece) for axis, piece in sliced_pieces(facts).items()}
    return _partly(facts, shape, out, kept, pieces)


def sliced_pieces(facts: OpFacts) -> dict[int, tuple[int, int, int]]:
    """Of a Slice the axes that it cuts a piece without gaps from: its ends, and the extent."""
    shape, out = facts.input_shapes[0], facts.output_shapes[0]
    starts, ends = listed(facts, 1, "starts"), listed(facts, 2, "ends")
    axes = listed(facts, 3, "axes")
    steps = facts.constants.get(4, ())
    if shape is None or out is None or starts is None or ends is None:
        return {}
    if (axes is None and is_given(facts, 3)) or (not steps and is_given(facts, 4)):
        return {}
    found: dict[int, tuple[int, int, int]] = {}
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = (axes[at] if axes else at) % len(shape)
        size = shape[axis]
        if size is None or (steps and steps[at] != 1):
            continue
        first, last = (min(max(n + size if n < 0 else n, 0), size) for n in (start, end))
        if first < last and last - first == out[axis]:
            found[axis] = (first, last, size)
    return found


def _partly(
    facts: OpFacts,
    shape: Shape,
    out: Shape,
    kept: list[bool],
    pieces: Mapping[int, int] | None = None,
) -> ShardingRule:
    """Kept dimensions pass; the others have factors of their own on both sides.

    Of an axis in `pieces`, both sides are whole numbers of such pieces, of which parts are taken.
    """
    build = RuleBuilder()
    dims: list[Dim] = []
    result: list[Dim] = []
    for axis, (size, made, same) in enumerate(zip(shape, out, kept, strict=True)):
        piece = (pieces or {}).get(axis, 1)
        if same or piece == 1 or size is None or made is None:
            dims.append(build.dim(size, PASS if same else REPLICATE))
            result.append(dims[-1] if same else build.dim(made, REPLICATE))
            continue
        inner = build.dim(piece)
        dims.append(build.dim(size // piece, REPLICATE) + inner)
        result.append(build.dim(made // piece, REPLICATE) + inner)
    return build.rule([dims, *[None] * (len(facts.input_shapes) - 1)], [result])


@known_shapes(inputs=1, outputs=1)
def pad(facts: OpFacts, shape: Shape, out: Shape) -> ShardingRule:
    """Dimensions that are not padded pass, others are needed whole."""
    pads = listed(facts, 1, "pads")
    axes = facts.constants.get(3)
    if pads is None or (axes is None and is_given(facts, 3)):
        return whole(facts)
    padded = [a % len(shape) for a in axes] if axes is not None else list(range(len(shape)))
    count = len(padded)
    changed = {a for i, a in enumerate(padded) if pads[i] or pads[i + count]}
    return _partly(facts, shape, out, [axis not in changed for axis in range(len(shape))])


@known_shapes(inputs=1, outputs=1)
def crop_or_pad(facts: OpFacts, shape: Shape, out: Shape) -> ShardingRule:
    """CenterCropPad: dimensions that keep their size pass, others are needed whole."""
    same = [s is not None and s == o for s, o in zip(shape, out, strict=True)]
    return _partly(facts, shape, out, same)


@known_shapes(inputs=1, outputs=1)
def resize(facts: OpFacts, shape: Shape, out: Shape) -> ShardingRule:
    """Dimensions that are scaled by exactly 1 pass, others are needed whole."""
    scales = facts.constants.get(2 if facts.op_type == "Resize" and facts.version > 10 else 1)
    sizes = facts.constants.get(3)
    axes = facts.attributes.get("axes")
    cropping = facts.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    # Another policy derives one scale from all sizes.
    stretched = facts.attributes.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    given = scales or sizes
    if given is None or cropping or not stretched:
        return whole(facts)
    scaled = {int(a) % len(shape) for a in axes} if axes else set(range(len(shape)))
    if scales:
        scaled = {a for a, scale in zip(sorted(scaled), scales, strict=True) if scale != 1}
    else:
        scaled = {a for a in scaled if shape[a] is None or shape[a] != out[a]}
    return _partly(facts, shape, out, [axis not in scaled for axis in range(len(shape))])


@known_shapes(inputs=1, outputs=1)
def expand(facts: OpFacts, shape: Shape, out: Shape) -> ShardingRule:
    """`1 n -> a n`: every device makes its part of the copies."""
    if len(shape) > len(out):
        return whole(facts)
    build = RuleBuilder()
    skipped = len(out) - len(shape)
    sizes = [None] * skipped + list(shape)
    certain = [
        made is not None and (axis < skipped or size is not None)
        for axis, (size, made) in enumerate(zip(sizes, out, strict=True))
    ]
    result = [
        build.dim(size, PASS if sure else REPLICATE)
        for size, sure in zip(out, certain, strict=True)
    ]
    dims = [() if s == 1 else d for s, d in zip(shape, result[skipped:], strict=True)]
    return build.rule([dims, None], [result])


@known_shapes(inputs=1, outputs=1)
def tile(facts: OpFacts, shape: Shape, out: Shape) -> ShardingRule:
    """`a, _ -> (r a)`: copies are the major factor."""
    if None in out or None in shape or 0 in shape:
        return whole(facts)
    build = RuleBuilder()
    dims = build.dims(shape)
    sizes = zip(shape, out, strict=True)
    copies = [build.dim(made // size) for size, made in sizes if size and made is not None]
    return build.rule([dims, None], [[c + d for c, d in zip(copies, dims, strict=True)]])


@known_shapes(outputs=1)
def filled(facts: OpFacts, out: Shape) -> ShardingRule:
    """`_ -> a b`: every device fills its part."""
    build = RuleBuilder()
    return build.rule([None], [build.dims(out)])


RULES: dict[str, RuleMaker] = {
    "Concat": concat,
    "Split": split,
    "Slice": take,
    "Pad": pad,
    "CenterCropPad": crop_or_pad,
    "Resize": resize,
    "Upsample": resize,
    "Expand": expand,
    "Tile": tile,
    "ConstantOfShape": filled,
}
