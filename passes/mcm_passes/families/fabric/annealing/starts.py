"""Mappings to begin from, at random or along the flow of data."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_compiler.contracts.fabrics.fabric import KINDS, Fabric, MappingProblem, Mappings
from mcm_passes.families.fabric.routing_trees import Tables


def random_mappings(
    problem: MappingProblem, fabric: Fabric, count: int, rng: np.random.Generator
) -> Mappings:
    """Legal mappings, each as likely as any other."""
    site = np.empty((count, problem.num_units), np.int32)
    for kind in range(len(KINDS)):
        units, sites = np.flatnonzero(problem.kind == kind), fabric.of_kind(kind)
        order = np.argsort(rng.random((count, len(sites))), axis=1)[:, : len(units)]
        site[:, units] = sites[order]
    turn = rng.integers(0, 2, (count, problem.num_streams)).astype(np.int32)
    return Mappings(site, turn)


def built_mappings(
    problem: MappingProblem, tables: Tables, count: int, rng: np.random.Generator
) -> Mappings:
    """Legal mappings in which units lie near those that they have streams with.

    Stage by stage, in a random order within each, a unit takes the free site of its kind with the
    least flits times links to units that have a site. Ties, and a little more, are left to chance.

    Args:
        problem: what is laid out.
        tables: of it.
        count: how many.
        rng: draws orders and the first sites.
    """
    site = np.full((count, problem.num_units), -1, np.int32)
    for k in range(count):
        order = np.lexsort((rng.random(problem.num_units), problem.stage))
        _build(tables, order, rng.random(len(tables.grid.row)), site[k])
    turn = rng.integers(0, 2, (count, problem.num_streams)).astype(np.int32)
    return Mappings(site, turn)


@entry_njit
def _build(tables: Tables, order: Longs, chance: Floats, site: Ints) -> None:
    """Fills `site[U]`, all -1 at first; `chance[S]` orders sites that are equally good."""
    grid, streams = tables.grid, tables.streams
    taken = np.zeros(len(grid.row), np.bool_)
    for unit in order:
        kind = streams.kind[unit]
        best, least = -1, np.inf
        for at in range(grid.site_ptr[kind], grid.site_ptr[kind + 1]):
            place = grid.sites[at]
            if taken[place]:
                continue
            cost = 0.0
            for k in range(streams.unit_ptr[unit], streams.unit_ptr[unit + 1]):
                stream = streams.touching[k]
                source = streams.source[stream]
                if source != unit:
                    cost += streams.flits[stream] * _links(tables, place, int(site[source]))
                else:
                    for j in range(streams.leaf_ptr[stream], streams.leaf_ptr[stream + 1]):
                        other = int(site[streams.leaf[j]])
                        cost += streams.flits[stream] * _links(tables, place, other)
            cost = cost * (1.0 + 0.05 * chance[place]) + chance[place]
            if cost < least:
                best, least = place, cost
        site[unit] = best
        taken[best] = True


@inner_njit
def _links(tables: Tables, place: int, other: int) -> int:
    """Links between two sites; 0 where the other is none yet."""
    if other < 0:
        return 0
    grid = tables.grid
    return abs(grid.row[place] - grid.row[other]) + abs(grid.col[place] - grid.col[other])
