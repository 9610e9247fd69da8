"""Ops that only cut values, put them side by side or give them another shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mcm_compiler.equivalence.parts.value_views import Piece, Shape, joined
from mcm_compiler.equivalence.values.value_numbers import OpKey

Ints = Callable[[int], tuple[int, ...] | None]
"""Elements of a constant operand of integers."""

VIEW_OPS = frozenset({"Concat", "Flatten", "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze"})


def viewed(
    key: OpKey, pieces: Sequence[Piece | None], ints: Ints, results: int
) -> list[Piece] | None:
    """Pieces that the results of an op of `VIEW_OPS` hold; None where that is not known.

    Args:
        key: the op.
        pieces: of its operands; None for one that is none.
        ints: reads operands that are constants.
        results: how many outputs the node has, also without a name.
    """
    first = pieces[0] if pieces else None
    if key.domain or first is None:
        return None
    if key.op_type == "Split":
        return _split(key, first, ints, results)
    if key.op_type == "Concat":
        given = [piece for piece in pieces if piece is not None]
        if len(given) < len(pieces) or any(len(p.shape) != len(first.shape) for p in given):
            return None
        axis = _axis(key.number("axis", 0), len(first.shape))
        found = None if axis is None else joined(given, axis)
    elif key.op_type == "Slice":
        found = _slice(key, first, ints)
    else:
        shape = _target(key, first.shape, ints)
        found = None if shape is None else first.reshaped(shape)
    return None if found is None else [found]


def _split(key: OpKey, piece: Piece, ints: Ints, results: int) -> list[Piece] | None:
    axis = _axis(key.number("axis", 0), len(piece.shape))
    if axis is None or not results:
        return None
    extent = piece.shape[axis]
    sizes = key.numbers("split")
    if key.reads(1) is not None:
        sizes = ints(1)
        if sizes is None:
            return None
    if sizes is None:
        each = -(-extent // results)
        sizes = tuple(max(0, min(each, extent - k * each)) for k in range(results))
    if sum(sizes) != extent or len(sizes) != results or min(sizes) < 1:
        return None
    found: list[Piece] = []
    start = 0
    for size in sizes:
        taken = piece.taken(axis, ((start, start + size),))
        if taken is None:
            return None
        found.append(taken)
        start += size
    return found


def _slice(key: OpKey, piece: Piece, ints: Ints) -> Piece | None:
    """Of step 1; of more than one axis, those of which something is left away come one by one."""
    found: list[tuple[int, ...] | None] = []
    for at, name in ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps")):
        present = key.reads(at) is not None
        given = ints(at) if present else key.numbers(name)
        if present and given is None:
            return None
        found.append(given)
    starts, ends, axes, steps = found
    if starts is None or ends is None or (steps is not None and set(steps) != {1}):
        return None
    rank = len(piece.shape)
    axes = axes if axes is not None else tuple(range(len(starts)))
    if not len(starts) == len(ends) == len(axes) or not rank:
        return None
    for start, end, axis in zip(starts, ends, axes, strict=True):
        at = _axis(axis, rank)
        if at is None:
            return None
        size = piece.shape[at]
        low = min(max(start + size if start < 0 else start, 0), size)
        high = min(max(end + size if end < 0 else end, 0), size)
        if low >= high:
            return None
        taken = piece if (low, high) == (0, size) else piece.taken(at, ((low, high),))
        if taken is None:
            return None
        piece = taken
    return piece


def _target(key: OpKey, shape: Shape, ints: Ints) -> Shape | None:
    rank = len(shape)
    if key.op_type == "Flatten":
        axis = key.number("axis", 1)
        if not -rank <= axis <= rank:
            return None
        axis += rank if axis < 0 else 0
        return (math.prod(shape[:axis]), math.prod(shape[axis:]))
    given = key.reads(1) is not None
    if key.op_type == "Reshape":
        sizes = ints(1) if given else key.numbers("shape")
        return None if sizes is None else _reshaped(key, shape, sizes)
    axes = ints(1) if given else key.numbers("axes")
    if axes is None and (given or key.op_type == "Unsqueeze"):
        return None
    if not rank and key.op_type == "Squeeze":
        return shape
    if key.op_type == "Squeeze":
        gone = {k for k, n in enumerate(shape) if n == 1}
        if axes is not None:
            gone = {at for axis in axes if (at := _axis(axis, rank)) is not None}
            if len(gone) < len(axes) or any(shape[at] != 1 for at in gone):
                return None
        return tuple(n for k, n in enumerate(shape) if k not in gone)
    assert axes is not None
    total = rank + len(axes)
    new = {at for axis in axes if (at := _axis(axis, total)) is not None}
    rest = iter(shape)
    if len(new) < len(axes):
        return None
    return tuple(1 if k in new else next(rest) for k in range(total))


def _reshaped(key: OpKey, shape: Shape, sizes: tuple[int, ...]) -> Shape | None:
    if key.number("allowzero", 0) or any(n == 0 and k >= len(shape) for k, n in enumerate(sizes)):
        return None
    found = [shape[k] if n == 0 else n for k, n in enumerate(sizes)]
    if found.count(-1) > 1 or any(n < -1 for n in found):
        return None
    if -1 in found:
        rest = -math.prod(found)
        if rest < 1 or math.prod(shape) % rest:
            return None
        found[found.index(-1)] = math.prod(shape) // rest
    return tuple(found)


def _axis(axis: int, rank: int) -> int | None:
    """The index of an axis, or None where a value of that rank has none such."""
    return axis % rank if -rank <= axis < rank else None
