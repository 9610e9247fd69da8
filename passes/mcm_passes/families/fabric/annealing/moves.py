"""Moves of a walk over mappings: a unit to another site, two units that swap, a stream that turns.

All of them keep mappings legal. Randomness is a generator of its own, so that a walk is the same
wherever it runs: xorshift64* (Vigna 2016, *An experimental exploration of Marsaglia's xorshift
generators, scrambled*).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import lean_inner_njit, lean_njit
from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.fabrics.fabric import IO
from mcm_passes.families.fabric.routing.tables import Tables

_TWELVE, _SEVEN, _FIVE = np.uint64(12), np.uint64(27), np.uint64(25)
_FACTOR, _ELEVEN = np.uint64(2685821657736338717), np.uint64(11)
_TRIES = 8


class MoveShares(NamedTuple):
    """How often which move is drawn.

    Attributes:
        turn: share of moves that turn a stream the other way.
        near: share of the other moves that go near a unit with which the moved one has a stream.
    """

    turn: float
    near: float


@lean_njit
def uniform(rng: np.ndarray) -> float:
    """The next number in [0, 1); `rng` is `[1]`, 64 unsigned bits, never 0."""
    x = rng[0]
    x ^= x >> _TWELVE
    x ^= x << _FIVE
    x ^= x >> _SEVEN
    rng[0] = x
    return ((x * _FACTOR) >> _ELEVEN) * (1.0 / 9007199254740992.0)


@lean_inner_njit
def below(rng: np.ndarray, count: int) -> int:
    """An integer from 0 to `count - 1`."""
    return min(int(uniform(rng) * count), count - 1)


@lean_njit
def draw(
    tables: Tables, site: Ints, rng: np.ndarray, shares: MoveShares, reach: float, drawn: Ints
) -> None:
    """Draws a move.

    Args:
        tables: of the problem.
        site: `[U]`, where units are.
        rng: see `uniform`.
        shares: see there.
        reach: how many switches away a unit may go, in rows and in columns.
        drawn: `[2]`, filled here with a unit and the site that it goes to, or -1 and a stream.
    """
    streams = tables.streams
    if uniform(rng) < shares.turn:
        drawn[0], drawn[1] = -1, below(rng, len(streams.source))
        return
    unit = below(rng, len(streams.kind))
    around, wide = int(site[unit]), max(int(reach), 1)
    if uniform(rng) < shares.near:
        around, wide = int(site[_partner(tables, unit, rng)]), min(wide, 2)
    drawn[0], drawn[1] = unit, _near(tables, unit, int(site[unit]), around, wide, rng)


@lean_inner_njit
def _partner(tables: Tables, unit: int, rng: np.ndarray) -> int:
    """A unit at another end of one of a unit's streams."""
    streams = tables.streams
    at = streams.unit_ptr[unit] + below(
        rng, int(streams.unit_ptr[unit + 1] - streams.unit_ptr[unit])
    )
    stream = streams.touching[at]
    leaves = int(streams.leaf_ptr[stream + 1] - streams.leaf_ptr[stream])
    if streams.source[stream] != unit:
        return int(streams.source[stream])
    return int(streams.leaf[streams.leaf_ptr[stream] + below(rng, leaves)])


@lean_inner_njit
def _near(tables: Tables, unit: int, own: int, around: int, wide: int, rng: np.ndarray) -> int:
    """A site of a unit's kind within a window around a site, or anywhere where none is found."""
    grid = tables.grid
    kind = tables.streams.kind[unit]
    row, col = grid.row[around], grid.col[around]
    for _ in range(_TRIES):
        r = row + below(rng, 2 * wide + 1) - wide
        # I/O sites are in two columns alone.
        c = below(rng, 2) * (grid.cols - 1) if kind == IO else col + below(rng, 2 * wide + 1) - wide
        if 0 <= r < grid.rows and 0 <= c < grid.cols:
            place = grid.site_at[kind, r * grid.cols + c]
            if place >= 0 and place != own:
                return int(place)
    first = int(grid.site_ptr[kind])
    return int(grid.sites[first + below(rng, int(grid.site_ptr[kind + 1]) - first)])
