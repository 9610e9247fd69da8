"""Which elements of a value of the model another value holds, whatever its shape is.

Split, Slice, Concat, Reshape and their like move no element out of order. So what they make is
described by the elements of one value (the root), read as a matrix `[pre, extent]` of which certain
columns are there. A reshape changes nothing of that; a cut or a concatenation along an axis only
changes the columns, once the matrix has a row for each index before that axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

Intervals = tuple[tuple[int, int], ...]
"""`(first, one past the last)`, in order, without neighbours that touch."""

Cuts = dict[int, Intervals]
"""The indices that are there, for each axis along which some are not."""

Shape = tuple[int, ...]

MAX_INTERVALS = 1 << 14
"""A value that is cut into more is not followed."""


@dataclass(frozen=True)
class View:
    """The columns of a root.

    Attributes:
        root: number of the value.
        pre: rows of the matrix.
        extent: columns of the whole root.
        intervals: columns that are there.
    """

    root: int
    pre: int
    extent: int
    intervals: Intervals

    def at(self, pre: int) -> View | None:
        """The same elements of a matrix with `pre` rows, or None where they are no columns."""
        if pre == self.pre:
            return self
        common = math.gcd(pre, self.pre)
        found = self._fewer_rows(common)
        return None if found is None else found._more_rows(pre)

    def same_as(self, other: View) -> bool:
        """True if it has the same elements of the same root."""
        common = math.gcd(self.pre, other.pre)
        own = self.at(common)
        return own is not None and own == other.at(common)

    def within(self, other: View) -> View | None:
        """Where its elements are among those of another view; None where one is not there."""
        common = math.gcd(self.pre, other.pre)
        own, given = self.at(common), other.at(common)
        found = None if own is None or given is None else places(own.intervals, given.intervals)
        if given is None or not found:
            return None
        return View(self.root, common, length(given.intervals), found)

    def _fewer_rows(self, pre: int) -> View | None:
        repeats = self.pre // pre
        if repeats == 1:
            return self
        full = self.intervals == ((0, self.extent),)
        if not full and repeats * len(self.intervals) > MAX_INTERVALS:
            return None
        extent = self.extent * repeats
        if full:
            return View(self.root, pre, extent, ((0, extent),))
        offsets = [k * self.extent for k in range(repeats)]
        moved = [(a + at, b + at) for at in offsets for a, b in self.intervals]
        return View(self.root, pre, extent, merged(moved))

    def _more_rows(self, pre: int) -> View | None:
        """Where all rows that one falls into have the same columns."""
        repeats = pre // self.pre
        if repeats == 1:
            return self
        if self.extent % repeats:
            return None
        extent = self.extent // repeats
        if self.intervals == ((0, self.extent),):
            return View(self.root, pre, extent, ((0, extent),))
        first = merged([(a, min(b, extent)) for a, b in self.intervals if a < extent])
        found = View(self.root, pre, extent, first)
        if repeats * len(first) > MAX_INTERVALS or found._fewer_rows(self.pre) != self:
            return None
        return found


@dataclass(frozen=True)
class Piece:
    """A view in a shape.

    Attributes:
        view: the elements, in row-major order.
        shape: of the value that holds them.
    """

    view: View
    shape: Shape

    def reshaped(self, shape: Shape) -> Piece | None:
        """The same elements in another shape, or None where their count differs."""
        same = math.prod(shape) == math.prod(self.shape)
        return Piece(self.view, shape) if same else None

    def taken(self, axis: int, intervals: Intervals) -> Piece | None:
        """Certain indices along an axis."""
        pre, post = math.prod(self.shape[:axis]), math.prod(self.shape[axis + 1 :])
        wanted = [(a * post, b * post) for a, b in intervals]
        shape = (*self.shape[:axis], length(intervals), *self.shape[axis + 1 :])
        view = self.view.at(pre)
        if view is not None:
            columns = chosen(view.intervals, wanted)
            return Piece(View(view.root, view.pre, view.extent, columns), shape)
        rows = self.rows(pre)
        return None if rows is None else self.of_rows([chosen(row, wanted) for row in rows], shape)

    def rows(self, count: int) -> list[Intervals] | None:
        """The elements as rows of equal length, each as columns of a root of one row."""
        view = self.view.at(1)
        if view is None or count > MAX_INTERVALS:
            return None
        left, width = list(reversed(view.intervals)), length(view.intervals) // count
        found: list[Intervals] = []
        for _ in range(count):
            row: list[tuple[int, int]] = []
            missing = width
            while missing:
                a, b = left.pop()
                row.append((a, min(b, a + missing)))
                if a + missing < b:
                    left.append((a + missing, b))
                missing -= row[-1][1] - a
            found.append(tuple(row))
        return found

    def of_rows(self, rows: Sequence[Intervals], shape: Shape) -> Piece | None:
        """Rows one after the other, if no element is out of order."""
        intervals = merged([interval for row in rows for interval in row])
        if len(intervals) > MAX_INTERVALS or any(
            b > c for (_, b), (c, _) in itertools.pairwise(intervals)
        ):
            return None
        extent = self.view.pre * self.view.extent
        return Piece(View(self.view.root, 1, extent, intervals), shape)

    def cut(self, cuts: Cuts) -> Piece | None:
        """Certain indices along several axes."""
        found: Piece | None = self
        for axis in sorted(cuts, reverse=True):
            # Columns first: rows of them are still columns of a matrix of one row.
            found = None if found is None else found.taken(axis, cuts[axis])
        return found


def whole_piece(number: int, shape: Shape) -> Piece | None:
    """All of a value; None for one without elements."""
    size = math.prod(shape)
    return Piece(View(number, 1, size, ((0, size),)), shape) if size else None


def joined(pieces: Sequence[Piece], axis: int) -> Piece | None:
    """Pieces of one root in a row along an axis; None where they are not in order."""
    first, pre = pieces[0], math.prod(pieces[0].shape[:axis])
    rest = (*first.shape[:axis], *first.shape[axis + 1 :])
    for piece in pieces:
        if piece.view.root != first.view.root:
            return None
        if (*piece.shape[:axis], *piece.shape[axis + 1 :]) != rest:
            return None
    extent = sum(piece.shape[axis] for piece in pieces)
    shape = (*first.shape[:axis], extent, *first.shape[axis + 1 :])
    views = [view for piece in pieces if (view := piece.view.at(pre)) is not None]
    if len(views) == len(pieces):
        columns = [interval for view in views for interval in view.intervals]
        if any(b > c for (_, b), (c, _) in itertools.pairwise(columns)):
            return None
        return Piece(View(views[0].root, views[0].pre, views[0].extent, merged(columns)), shape)
    rows = [own for piece in pieces if (own := piece.rows(pre)) is not None]
    if len(rows) < len(pieces):
        return None
    return first.of_rows([sum(parts, ()) for parts in zip(*rows, strict=True)], shape)


def part_of(piece: Piece, whole: Piece) -> Cuts | None:
    """The cuts by which `piece` is a part of `whole`.

    Returns:
        Empty where it is all of it, None where it is no such part.
    """
    if piece.view.root != whole.view.root or len(piece.shape) != len(whole.shape):
        return None
    axis = next((k for k, n in enumerate(piece.shape) if n != whole.shape[k]), None)
    if axis is None:
        return {} if piece.view.same_as(whole.view) else None
    pre, post = math.prod(whole.shape[:axis]), math.prod(whole.shape[axis + 1 :])
    within = piece.view.within(whole.view)
    own = None if within is None else within.at(pre)
    if own is None:
        return None
    columns = own.intervals
    rows = merged(_rows(columns, post))
    inner: Cuts | None = {}
    if piece.shape[axis + 1 :] != whole.shape[axis + 1 :]:
        start = columns[0][0] // post * post
        first = [(a - start, min(b - start, post)) for a, b in columns if a < start + post]
        matrix, rest = View(piece.view.root, 1, post, merged(first)), piece.shape[axis + 1 :]
        every = View(piece.view.root, 1, post, ((0, post),))
        inner = part_of(Piece(matrix, rest), Piece(every, whole.shape[axis + 1 :]))
    if inner is None or length(rows) != piece.shape[axis]:
        return None
    cuts = {axis: rows} | {axis + 1 + k: intervals for k, intervals in inner.items()}
    taken = whole.cut(cuts)
    return cuts if taken is not None and piece.view.same_as(taken.view) else None


def _rows(columns: Intervals, post: int) -> list[tuple[int, int]]:
    """Rows of `post` columns that some columns are in."""
    found: list[tuple[int, int]] = []
    for a, b in columns:
        start, stop = a // post, -(-b // post)
        found.append((max(start, found[-1][1]) if found else start, stop))
    return found


def merged(intervals: Sequence[tuple[int, int]]) -> Intervals:
    """Neighbours that touch made one; empty ones left away."""
    found: list[tuple[int, int]] = []
    for a, b in intervals:
        if a == b:
            continue
        if found and found[-1][1] == a:
            found[-1] = (found[-1][0], b)
        else:
            found.append((a, b))
    return tuple(found)


def length(intervals: Intervals) -> int:
    """Indices in all intervals together."""
    return sum(b - a for a, b in intervals)


def chosen(columns: Intervals, places_taken: Sequence[tuple[int, int]]) -> Intervals:
    """The columns at certain places, in order, of a sequence of columns."""
    found: list[tuple[int, int]] = []
    at = k = 0
    for start, stop in places_taken:
        while k < len(columns) and at < stop:
            a, b = columns[k]
            low, high = max(start, at), min(stop, at + b - a)
            if low < high:
                found.append((a + low - at, a + high - at))
            if at + b - a > stop:
                break
            at, k = at + b - a, k + 1
    return merged(found)


def places(own: Intervals, columns: Intervals) -> Intervals | None:
    """At which places of a sequence of columns others stand; None where one is not there."""
    found: list[tuple[int, int]] = []
    at = k = 0
    for start, stop in own:
        left = start
        while left < stop and k < len(columns):
            a, b = columns[k]
            if a > left:
                return None
            if left < b:
                high = min(stop, b)
                found.append((at + left - a, at + high - a))
                left = high
            if left < stop or b <= stop:
                at, k = at + b - a, k + 1
        if left < stop:
            return None
    return merged(found)


def scaled(intervals: Intervals, unit: int) -> Intervals | None:
    """Intervals in units, or None where one does not begin and end at a unit."""
    if any(a % unit or b % unit for a, b in intervals):
        return None
    return tuple((a // unit, b // unit) for a, b in intervals)
