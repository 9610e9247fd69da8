"""Mappings to begin from, at random or along the flow of data, and the control: random mappings."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_compiler.contracts.fabrics.fabric import KINDS, Fabric, MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.mappers import MapperAnswer, MapperRequest
from mcm_compiler.text.option_fields import at_least, checked
from mcm_passes.families.fabric.annealing import measured
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


@dataclass(frozen=True)
@checked(batch=at_least(1))
class RandomMapper:
    """Asks the model about random legal mappings, and measures those that it likes best.

    Attributes:
        batch: mappings that are drawn at once.
    """

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "random mappings, the best by the model measured; a control"

    batch: int = 256

    def map(self, request: MapperRequest) -> MapperAnswer:
        """See `mcm_compiler.contracts.fabrics.mappers.Mapper`; raises as annealing does."""
        begin = time.thread_time()
        measured.legal_start(request)
        problem, fabric, model = request.problem, request.fabric, request.model
        rng = seeded_generator(request.seed, "random mappings")
        pool = random_mappings(problem, fabric, 1, rng) if request.start is None else request.start
        costs = measured.asked_costs(model, pool)
        spent, history = 1, [(1, float(costs[0]))]
        while spent < request.evaluations and _in_time(begin, request):
            count = min(self.batch, request.evaluations - spent)
            drawn = random_mappings(problem, fabric, count, rng)
            pool = Mappings.stacked([pool, drawn])
            costs = np.concatenate([costs, measured.asked_costs(model, drawn)])
            order = np.argsort(costs, kind="stable")[: max(request.measurements, 1)]
            pool, costs = Mappings(pool.site[order], pool.turn[order]), costs[order]
            spent += count
            if costs[0] < history[-1][1]:
                history.append((spent, float(costs[0])))
        found = MapperAnswer(
            pool[0],
            f"random by {type(model).__name__}",
            spent,
            tuple(history),
            measurements=request.measurements,
        )
        candidates = measured.distinct(pool, costs, request.measurements)
        return measured.measured_answer(request, candidates, found)


def _in_time(begin: float, request: MapperRequest) -> bool:
    return request.budget_s is None or time.thread_time() - begin < request.budget_s
