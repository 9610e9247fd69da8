"""Views of parts, compared with the elements that NumPy has in them."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.equivalence.parts.value_views import (
    Intervals,
    Piece,
    joined,
    merged,
    part_of,
    whole_piece,
)


def elements(piece: Piece) -> np.ndarray:
    view = piece.view
    columns = [k for a, b in view.intervals for k in range(a, b)]
    return (np.arange(view.pre * view.extent).reshape(view.pre, -1)[:, columns]).reshape(
        piece.shape
    )


@st.composite
def ranges(draw: st.DrawFn, extent: int) -> Intervals:
    marks = draw(st.lists(st.booleans(), min_size=extent, max_size=extent))
    found = merged([(k, k + 1) for k, is_in in enumerate(marks) if is_in])
    return found or ((0, extent),)


@st.composite
def shapes(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    found: list[int] = []
    while size > 1 and len(found) < 4:
        found.append(draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0])))
        size //= found[-1]
    return (*found, size)


def taken(array: np.ndarray, axis: int, intervals: Intervals) -> np.ndarray:
    return np.take(array, [k for a, b in intervals for k in range(a, b)], axis)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_parts_of_parts_in_other_shapes(data: st.DataObject) -> None:
    root = data.draw(shapes(data.draw(st.sampled_from([24, 36, 64]))))
    piece, array = whole_piece(0, root), np.arange(math.prod(root)).reshape(root)
    for _ in range(3):
        assert piece is not None
        axis = data.draw(st.integers(0, len(piece.shape) - 1))
        intervals = data.draw(ranges(piece.shape[axis]))
        own = piece.taken(axis, intervals)
        assert own is not None
        part = taken(array, axis, intervals)
        assert np.array_equal(elements(own), part)
        cuts = part_of(own, piece)
        assert cuts is not None
        again = array
        for along, at in cuts.items():
            again = taken(again, along, at)
        assert np.array_equal(again, part)
        rest = [piece.taken(axis, ((a, b),)) for a, b in ((0, 1), (1, piece.shape[axis])) if a < b]
        together = joined([one for one in rest if one is not None], axis)
        assert together is not None
        assert part_of(together, piece) == {}
        shape = data.draw(shapes(part.size))
        piece, array = own.reshaped(shape), part.reshape(shape)
