"""Ops that join, cut, repeat or pad along some dimensions and pass the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mcm_compiler.contracts.sharding.rules import Dim, ShardingRule
from mcm_passes.parallelism.rules.operators.composing import (
    BLOCKED,
    PASS,
    REPLICATE,
    OpRule,
    RuleFamily,
    Shape,
)

RULES = RuleFamily()


@RULES.of("Concat", outputs=1)
def concat(op: OpRule, out: Shape) -> ShardingRule:
    """`a d, a d -> a (!c d)`: every device joins its part of each operand.

    Operands that differ have the greatest extent that divides all in common: `a (!b d), a d`.
    """
    shapes = op.inputs
    if any(s is None for s in shapes):
        return op.whole()
    axis = op.axis(1, len(out))
    dims = [() if i == axis else op.dim(size) for i, size in enumerate(out)]
    if len(shapes) == 1:
        dims[axis] = op.dim(out[axis])
        return op.rule([dims], [dims])
    extents = [shape[axis] for shape in shapes if shape]
    joined, pieces = _pieces(op, out[axis], extents)
    return op.rule([_with(dims, axis, piece) for piece in pieces], [_with(dims, axis, joined)])


@RULES.of("Split", inputs=1)
def split(op: OpRule, shape: Shape) -> ShardingRule:
    """`a (!c d), _ -> a d, a d`: every device has its part of each result; as `concat`."""
    if any(s is None for s in op.outputs):
        return op.whole()
    axis = op.axis(0, len(shape))
    dims = [() if i == axis else op.dim(size) for i, size in enumerate(shape)]
    if len(op.outputs) == 1:
        dims[axis] = op.dim(shape[axis])
        return op.rule([dims], [dims])
    extents = [out[axis] for out in op.outputs if out]
    # What `num_outputs` makes of an extent need not be parts of what it makes of another.
    given = 1 in op.constants or "split" in op.attributes or len(set(extents)) == 1
    joined, pieces = _pieces(op, shape[axis], extents if given else [])
    if not pieces:
        pieces = [op.dim(extent, BLOCKED) for extent in extents]
    outputs = [_with(dims, axis, piece) for piece in pieces]
    return op.rule([_with(dims, axis, joined)], outputs)


def _pieces(op: OpRule, extent: int | None, pieces: Sequence[int | None]) -> _Pieces:
    """The dimension that stands for pieces side by side, and those of the pieces.

    What divides all of them is the factor that can be divided, in as many runs as it is found
    side by side. Without one, parts of the whole would not be contiguous in the pieces.
    """
    known = [size for size in pieces if size]
    common = math.gcd(*known) if len(known) == len(pieces) else 1
    if extent is None or common <= 1:
        return op.dim(extent, BLOCKED), [op.dim(size, BLOCKED) for size in pieces]
    runs = [size // common for size in known]
    joined = op.needed(sum(runs))
    inner = op.dim(common)
    return joined + inner, [op.needed(count) + inner for count in runs]


_Pieces = tuple[Dim, list[Dim]]


def _with(dims: list[Dim], axis: int, dim: Dim) -> list[Dim]:
    return [*dims[:axis], dim, *dims[axis + 1 :]]


@RULES.of("Slice", inputs=1, outputs=1)
def take(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """Slice: dimensions that are kept from end to end pass.

    Of others every device has its part of the piece, `a (!c d), _ -> a d`, where pieces of its
    extent make up the whole and it begins with one of them.
    """
    starts = op.listed(1, "starts")
    axes = op.listed(3, "axes")
    steps = op.constants.get(4)
    changed: set[int] | None = None
    if axes is not None or (starts is not None and not op.is_given(3)):
        changed = {a % len(shape) for a in (axes or range(len(starts or ())))}
    # Without a step, what keeps its size is the same; with one, it may be reversed.
    forward = not op.is_given(4) or (steps is not None and min(steps, default=1) > 0)
    kept = [
        (changed is not None and axis not in changed)
        or (forward and size is not None and size == result)
        for axis, (size, result) in enumerate(zip(shape, out, strict=True))
    ]
    pieces = {axis: math.gcd(*piece) for axis, piece in sliced_pieces(op).items()}
    return _partly(op, shape, out, kept, pieces)


def sliced_pieces(op: OpRule) -> dict[int, tuple[int, int, int]]:
    """Of a Slice the axes that it cuts a piece without gaps from: its ends, and the extent."""
    shape, out = op.inputs[0], op.outputs[0]
    starts, ends = op.listed(1, "starts"), op.listed(2, "ends")
    axes = op.listed(3, "axes")
    steps = op.constants.get(4, ())
    if shape is None or out is None or starts is None or ends is None:
        return {}
    if (axes is None and op.is_given(3)) or (not steps and op.is_given(4)):
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
    op: OpRule, shape: Shape, out: Shape, kept: list[bool], pieces: Mapping[int, int] | None = None
) -> ShardingRule:
    """Kept dimensions pass; the others have factors of their own on both sides.

    Of an axis in `pieces`, both sides are whole numbers of such pieces, of which parts are taken.
    """
    dims: list[Dim] = []
    result: list[Dim] = []
    for axis, (size, made, same) in enumerate(zip(shape, out, kept, strict=True)):
        piece = (pieces or {}).get(axis, 1)
        if same or piece == 1 or size is None or made is None:
            dims.append(op.dim(size, PASS if same else REPLICATE))
            result.append(dims[-1] if same else op.needed(made))
            continue
        inner = op.dim(piece)
        dims.append(op.needed(size // piece) + inner)
        result.append(op.needed(made // piece) + inner)
    return op.rule([dims], [result])


@RULES.of("Pad", inputs=1, outputs=1)
def pad(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """Dimensions that are not padded pass, others are needed whole."""
    pads = op.listed(1, "pads")
    axes = op.constants.get(3)
    if pads is None or (axes is None and op.is_given(3)):
        return op.whole()
    padded = [a % len(shape) for a in axes] if axes is not None else list(range(len(shape)))
    count = len(padded)
    changed = {a for i, a in enumerate(padded) if pads[i] or pads[i + count]}
    return _partly(op, shape, out, [axis not in changed for axis in range(len(shape))])


@RULES.of("CenterCropPad", inputs=1, outputs=1)
def crop_or_pad(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """CenterCropPad: dimensions that keep their size pass, others are needed whole."""
    same = [s is not None and s == o for s, o in zip(shape, out, strict=True)]
    return _partly(op, shape, out, same)


@RULES.of("Resize", "Upsample", inputs=1, outputs=1)
def resize(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """Dimensions that are scaled by exactly 1 pass, others are needed whole."""
    scales = op.constants.get(2 if op.facts.op_type == "Resize" and op.facts.version > 10 else 1)
    sizes = op.constants.get(3)
    axes = op.attributes.get("axes")
    cropping = op.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    # Another policy derives one scale from all sizes.
    stretched = op.attributes.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    given = scales or sizes
    if given is None or cropping or not stretched:
        return op.whole()
    scaled = {int(a) % len(shape) for a in axes} if axes else set(range(len(shape)))
    if scales:
        scaled = {a for a, scale in zip(sorted(scaled), scales, strict=True) if scale != 1}
    else:
        scaled = {a for a in scaled if shape[a] is None or shape[a] != out[a]}
    return _partly(op, shape, out, [axis not in scaled for axis in range(len(shape))])


@RULES.of("Expand", inputs=1, outputs=1)
def expand(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """`1 n -> a n`: every device makes its part of the copies."""
    if len(shape) > len(out):
        return op.whole()
    skipped = len(out) - len(shape)
    sizes = [None] * skipped + list(shape)
    certain = [
        made is not None and (axis < skipped or size is not None)
        for axis, (size, made) in enumerate(zip(sizes, out, strict=True))
    ]
    result = [
        op.dim(size, PASS if sure else REPLICATE) for size, sure in zip(out, certain, strict=True)
    ]
    dims = [() if s == 1 else d for s, d in zip(shape, result[skipped:], strict=True)]
    return op.rule([dims], [result])


@RULES.of("Tile", inputs=1, outputs=1)
def tile(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """`a, _ -> (r a)`: copies are the major factor."""
    if None in out or None in shape or 0 in shape:
        return op.whole()
    dims = op.dims(shape)
    sizes = zip(shape, out, strict=True)
    copies = [op.dim(made // size) for size, made in sizes if size and made is not None]
    return op.rule([dims], [[c + d for c, d in zip(copies, dims, strict=True)]])


@RULES.of("ConstantOfShape", outputs=1)
def filled(op: OpRule, out: Shape) -> ShardingRule:
    """`_ -> a b`: every device fills its part."""
    return op.rule([None], [op.dims(out)])
