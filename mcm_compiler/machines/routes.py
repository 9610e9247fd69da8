"""Routes of a machine as ranges of one array of channels, which may share what they have in common.

A ring of C chips has C * C routes of up to C channels each. All of them are pieces of one way, so
that they take the memory of their ends, and are checked in time linear in that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Routes(NamedTuple):
    """R rows of channels; row i is `channels[begin[i]:end[i]]`.

    Attributes:
        begin: `[R]`.
        end: `[R]`, at least `begin`; equal where there is no way.
        channels: of all rows; rows may overlap.
    """

    begin: Ints
    end: Ints
    channels: Ints

    @property
    def size(self) -> int:
        """R."""
        return len(self.begin)

    @property
    def lengths(self) -> Ints:
        """`[R]`, channels of each row."""
        return self.end - self.begin

    def row(self, index: int) -> Ints:
        """The channels of one row."""
        return self.channels[self.begin[index] : self.end[index]]


def routes_of(lists: Sequence[Sequence[int] | Ints]) -> Routes:
    """Routes from lists of channels, one a row, which share nothing."""
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int32)
    return Routes(ptr[:-1].copy(), ptr[1:].copy(), joined(lists))


def joined(rows: Iterable[Sequence[int] | Ints]) -> Ints:
    """The numbers of all rows, one after the other."""
    return np.concatenate([np.zeros(0, np.int32), *(np.asarray(r, np.int32) for r in rows)])


def rows_with_gaps(routes: Routes, ends: Ints) -> Bools:
    """`[R]`, whether somewhere on a route one channel ends elsewhere than the next begins.

    Args:
        routes: the routes.
        ends: `[L, 2]`, the places that each channel leaves and reaches.
    """
    starts, stops = ends[routes.channels, 0], ends[routes.channels, 1]
    gaps = np.zeros(len(routes.channels) + 1, np.int64)
    gaps[1:-1] = np.cumsum(stops[:-1] != starts[1:]) if len(routes.channels) > 1 else 0
    used = routes.end > routes.begin
    found = np.zeros(routes.size, np.bool_)
    # A gap before position i counts from i on.
    found[used] = gaps[routes.end[used] - 1] > gaps[routes.begin[used]]
    return found


def rows_with_circles(routes: Routes, ends: Ints) -> Bools:
    """`[R]`, whether a route without gaps visits a place twice.

    Args:
        routes: the routes.
        ends: `[L, 2]`, the places that each channel leaves and reaches.
    """
    count = len(routes.channels)
    found = np.zeros(routes.size, np.bool_)
    if not count:
        return found
    starts, stops = ends[routes.channels, 0], ends[routes.channels, 1]
    used = routes.end > routes.begin
    begin, end = routes.begin[used], routes.end[used]
    # The last time before that a channel reached the same place.
    order = _by_place(stops)
    same = stops[order][1:] == stops[order][:-1]
    before = np.full(count, -1, np.int64)
    before[order[1:][same]] = order[:-1][same]
    again = np.maximum.accumulate(before)[end - 1] >= begin
    # The first time from a channel on that one reaches the place that this one leaves.
    keys = stops[order].astype(np.int64) * count + order
    wanted = starts.astype(np.int64) * count + np.arange(count)
    at = np.searchsorted(keys, wanted)
    near = keys[np.minimum(at, count - 1)]
    returns = np.where((at < count) & (near // count == starts), near % count, count)
    found[used] = again | (returns[begin] < end)
    return found


def followed_pairs(routes: Routes) -> Longs:
    """`[P, 2]`, the channels that follow each other on some route, each pair once, ascending."""
    if len(routes.channels) < 2:
        return np.zeros((0, 2), np.int64)
    used = routes.end > routes.begin
    covered = np.zeros(len(routes.channels) + 1, np.int64)
    np.add.at(covered, routes.begin[used], 1)
    np.add.at(covered, routes.end[used] - 1, -1)
    at = np.flatnonzero(np.cumsum(covered)[: len(routes.channels) - 1])
    most = int(routes.channels.max()) + 1
    pairs = np.unique(routes.channels[at].astype(np.int64) * most + routes.channels[at + 1])
    return np.stack(np.divmod(pairs, most), axis=1)


def _by_place(places: Ints) -> Longs:
    """Positions in ascending order of their places, and of themselves where these are equal."""
    small = np.iinfo(np.int16)
    few = small.min <= places.min() and places.max() <= small.max
    # Numbers of 16 bits are sorted in linear time.
    return np.argsort(places.astype(np.int16) if few else places, kind="stable")
