"""Relaxations of the triangle rule that can be checked on one window between two ideals."""

from __future__ import annotations

from typing import Literal, NamedTuple

from mcm_compiler.arrays.kernels import lean_inner_njit
from mcm_passes.families.ring.loads.crossings import IdealCrossings, holds, read_beyond
from mcm_passes.families.ring.loads.window_costs import Window
from mcm_passes.mapping.loads.chip_demands import TensorDemands
from mcm_passes.mapping.problem.rule_graph import Words

TriangleReading = Literal["none", "adjacent", "between"]
"""How a window treats long dependencies by itself. `none`: it does not. `adjacent`: what arrives
must be read here for the last time, so that every dependency spans at most one chip, which is
more than the triangle rule asks. `between`: no unit of the window lies on a path that runs beside
a dependency which passes the window, which is less than the triangle rule asks."""


class Triangles(NamedTuple):
    """How windows treat long dependencies, see `TriangleReading`.

    Attributes:
        adjacent: whether by that reading.
        between: whether by that one.
        ancestors: `[n, words]`, bitsets.
        descendants: `[n, words]`, bitsets.
    """

    adjacent: bool
    between: bool
    ancestors: Words
    descendants: Words


@lean_inner_njit
def keeps_rule(
    tensors: TensorDemands, cuts: IdealCrossings, triangles: Triangles, window: Window
) -> bool:
    """Whether a window is allowed by the reading of the triangle rule."""
    if not (triangles.adjacent or triangles.between):
        return True
    for e in range(cuts.crossing_ptr[window.start], cuts.crossing_ptr[window.start + 1]):
        t = cuts.crossing[e]
        if tensors.producer[t] < 0 or not read_beyond(cuts.members, window.end, tensors.readers, t):
            continue
        # It passes the window.
        if triangles.adjacent or _lies_beside(tensors, cuts, triangles, window, t):
            return False
    return True


@lean_inner_njit
def _lies_beside(
    tensors: TensorDemands, cuts: IdealCrossings, triangles: Triangles, window: Window, t: int
) -> bool:
    """Whether a unit of the window lies on a path beside a tensor's way to units beyond."""
    inside, u = window.inside, tensors.producer[t]
    for r in range(tensors.readers.ptr[t], tensors.readers.ptr[t + 1]):
        v = tensors.readers.entries[r]
        if holds(cuts.members, window.end, v):
            continue
        for k in range(inside.size):
            if inside[k] & triangles.descendants[u, k] & triangles.ancestors[v, k]:
                return True
    return False
