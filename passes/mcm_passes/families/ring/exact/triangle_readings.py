"""Relaxations of the triangle rule that can be checked on one window between two ideals."""

from __future__ import annotations

from typing import Literal, NamedTuple

from mcm_compiler.arrays.lean_kernels import lean_njit
from mcm_passes.families.ring.exact.ideal_cuts import IdealCrossings, holds, read_beyond
from mcm_passes.families.ring.exact.ideal_windows import Window
from mcm_passes.families.ring.order_encoding.chip_demands import TensorDemands
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


@lean_njit
def keeps_rule(
    tensors: TensorDemands, cuts: IdealCrossings, triangles: Triangles, window: Window
) -> bool:
    """Whether a window is allowed by the reading of the triangle rule."""
    if triangles.adjacent and not _arrivals_end(tensors, cuts, window):
        return False
    return not triangles.between or _beside_no_dependency(tensors, cuts, triangles, window)


@lean_njit
def _arrivals_end(tensors: TensorDemands, cuts: IdealCrossings, window: Window) -> bool:
    """The reading `adjacent`."""
    for e in range(cuts.crossing_ptr[window.start], cuts.crossing_ptr[window.start + 1]):
        t = cuts.crossing[e]
        if tensors.producer[t] >= 0 and read_beyond(cuts.members, window.end, cuts.read_by, t):
            return False
    return True


@lean_njit
def _beside_no_dependency(
    tensors: TensorDemands, cuts: IdealCrossings, triangles: Triangles, window: Window
) -> bool:
    """The reading `between`."""
    inside = window.inside
    for e in range(cuts.crossing_ptr[window.start], cuts.crossing_ptr[window.start + 1]):
        t = cuts.crossing[e]
        u = tensors.producer[t]
        if u < 0:
            continue
        for r in range(tensors.readers.ptr[t], tensors.readers.ptr[t + 1]):
            v = tensors.readers.entries[r]
            if holds(cuts.members, window.end, v):
                continue
            for k in range(inside.size):
                if inside[k] & triangles.descendants[u, k] & triangles.ancestors[v, k]:
                    return False
    return True
