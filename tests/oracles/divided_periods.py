"""The best period of small graphs over all cuts, copies and placements, by enumeration.

Each of L inferences has its own cuts: every layer is whole, or in two ranges of rows, or of columns
at one place. Every part is on every chip once, chips along dependencies; a chip holds the columns
of weights that its parts use, and nothing else. Transfers are free, so no real period is shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

Box = tuple[int, int, int, int]
"""Rows from, to; columns from, to."""


@dataclass(frozen=True)
class Layer:
    """A layer of a graph.

    Attributes:
        rows: of the result; the parts of a cut are the rows before and from `row_cut` on.
        cols: of the result, likewise with `col_cut`.
        row_cut: 0 for a layer that is not cut.
        col_cut: likewise.
        col_bytes: weights of a column.
        reads: layers that it reads, -1 for the input, and what a part needs of each: its own
            "row"s, these with a "halo" of one row, the "same" elements, the rows that are
            columns of the part ("turned"), or the "columns" of the part.
        seconds: by first and last row, number of columns.
    """

    rows: int
    cols: int
    row_cut: int
    col_cut: int
    col_bytes: int
    reads: tuple[tuple[int, str], ...]
    seconds: dict[tuple[int, int, int], float]

    def cuts(self) -> list[list[Box]]:
        """Each way to cut it: ranges of rows and columns of the parts."""
        m, n, r, c = self.rows, self.cols, self.row_cut, self.col_cut
        ways = [[(0, m, 0, n)]]
        if 0 < r < m:
            ways.append([(0, r, 0, n), (r, m, 0, n)])
        if 0 < c < n:
            ways.append([(0, m, 0, c), (0, m, c, n)])
        return ways


def best_period(layers: Sequence[Layer], chips: int, sram_bytes: int, inferences: int) -> float:
    """Seconds per inference; infinite where no placement fits."""
    halves = [(x, n) for x in layers for n in (x.col_cut, x.cols - x.col_cut)]
    sizes = np.zeros(1, np.int64)
    for layer, cols in halves:
        sizes = np.concatenate([sizes, sizes + layer.col_bytes * cols])
    found = [_placed(layers, ways, chips) for ways in product(*(x.cuts() for x in layers))]
    loads = np.concatenate([load for load, _ in found])
    held = np.concatenate([hold for _, hold in found])
    fits = (sizes[held] <= sram_bytes).all(axis=1)
    loads, held = loads[fits], held[fits]
    best = float(loads.max(axis=1).min(initial=np.inf))
    if inferences == 1 or not loads.size:
        return best
    # Two inferences together: less than twice the best of one leaves each less than that.
    both = np.unique(np.hstack([loads, held.astype(np.float64)]), axis=0)
    both = both[both[:, :chips].max(axis=1) < 2.0 * best]
    loads, held = both[:, :chips], both[:, chips:].astype(np.int64)
    for i in range(len(loads)):
        fits = (sizes[held[i] | held[i:]] <= sram_bytes).all(axis=1)
        most = (loads[i] + loads[i:]).max(axis=1)
        best = min(best, float(most[fits].min(initial=np.inf)) / 2.0)
    return best


def _placed(
    layers: Sequence[Layer], ways: Sequence[Sequence[Box]], chips: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Loads `[K, C]`, and halves of weights that are held, as bits, of all placements of parts."""
    parts = [(k, box) for k, way in enumerate(ways) for box in way]
    places = np.indices((chips,) * len(parts)).reshape(len(parts), -1)
    for i, (k, box) in enumerate(parts):
        for j, (producer, made) in enumerate(parts):
            if any(layer == producer and _meet(_needed(box, how, layers[layer]), made)
                   for layer, how in layers[k].reads):  # fmt: skip
                places = places[:, places[j] <= places[i]]
    loads = np.zeros((places.shape[1], chips))
    held = np.zeros((places.shape[1], chips), np.int64)
    at = np.arange(places.shape[1])
    for (k, (top, bottom, left, right)), chip in zip(parts, places, strict=True):
        layer = layers[k]
        loads[at, chip] += layer.seconds[top, bottom, right - left]
        bits = (left < layer.col_cut) | 2 * (right > layer.col_cut)
        held[at, chip] |= bits << 2 * k
    return loads, held


def _needed(box: Box, how: str, layer: Layer) -> Box:
    top, bottom, left, right = box
    return {
        "row": (top, bottom, 0, layer.cols),
        "halo": (top - 1, bottom + 1, 0, layer.cols),
        "same": box,
        "turned": (left, right, 0, layer.cols),
        "columns": (0, layer.rows, left, right),
    }[how]


def _meet(one: Box, other: Box) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1]) and max(one[2], other[2]) < min(
        one[3], other[3]
    )
