"""The best period of small chains over all cuts, copies and placements, by enumeration.

Each of L inferences has its own cuts: every layer is whole, or in two ranges of rows, or of columns
at one place. Every part is on every chip once, chips along dependencies; a chip holds the columns
of weights that its parts use, and nothing else. Transfers are free, so no real period is shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np


@dataclass(frozen=True)
class Layer:
    """A layer of a chain.

    Attributes:
        rows: of the result; the parts of a cut are the rows before and from `row_cut` on.
        cols: of the result, likewise with `col_cut`.
        halo: rows on either side that a row of the result needs of the layer before.
        col_bytes: weights of a column.
        seconds: by first and last row, number of columns.
    """

    rows: int
    cols: int
    row_cut: int
    col_cut: int
    halo: int
    col_bytes: int
    seconds: dict[tuple[int, int, int], float]

    def cuts(self) -> list[list[tuple[int, int, int, int]]]:
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
    loads, held = _single(layers, chips)
    halves = [(x, n) for x in layers for n in (x.col_cut, x.cols - x.col_cut)]
    sizes = np.array([x.col_bytes * n for x, n in halves])
    best = np.inf
    for i in range(len(loads)):
        if inferences == 1:
            both_loads, both_held = loads[i : i + 1], held[i : i + 1]
        else:
            both_loads, both_held = loads[i] + loads[i:], held[i] | held[i:]
        fits = (both_held @ sizes <= sram_bytes).all(axis=1)
        if fits.any():
            best = min(best, float(both_loads[fits].max(axis=1).min()) / inferences)
    return best


def _single(layers: Sequence[Layer], chips: int) -> tuple[np.ndarray, np.ndarray]:
    """Loads `[K, C]` and held halves of weights `[K, C, 2 layers]` of all ways of one inference."""
    loads: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
    for ways in product(*(layer.cuts() for layer in layers)):
        parts = [(k, part) for k, way in enumerate(ways) for part in way]
        for places in product(range(chips), repeat=len(parts)):
            if not _along(parts, places, layers):
                continue
            load = np.zeros(chips)
            hold = np.zeros((chips, 2 * len(layers)), bool)
            for (k, (top, bottom, left, right)), chip in zip(parts, places, strict=True):
                load[chip] += layers[k].seconds[top, bottom, right - left]
                hold[chip, 2 * k] |= left < layers[k].col_cut
                hold[chip, 2 * k + 1] |= right > layers[k].col_cut
            loads[load.tobytes() + hold.tobytes()] = load, hold
    found = list(loads.values())
    return np.stack([load for load, _ in found]), np.stack([hold for _, hold in found])


def _along(
    parts: Sequence[tuple[int, tuple[int, int, int, int]]],
    places: Sequence[int],
    layers: Sequence[Layer],
) -> bool:
    for (k, (top, bottom, _, _)), chip in zip(parts, places, strict=True):
        halo = layers[k].halo
        for (j, (above, below, _, _)), earlier in zip(parts, places, strict=True):
            meets = above < bottom + halo and top - halo < below
            if j == k - 1 and meets and earlier > chip:
                return False
    return True
