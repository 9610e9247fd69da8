"""The mapper `random`: the control of the recorded comparison, which is ahead of nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_compiler.contracts.fabrics.mappers import MapperAnswer, MapperRequest
from mcm_compiler.text.option_fields import at_least, checked
from mcm_passes.families.fabric.annealing import measured
from mcm_passes.families.fabric.annealing.starts import random_mappings


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
        problem, fabric, model = request.problem, request.fabric, request.model
        rng = seeded_generator(request.seed, "random mappings")
        pool = random_mappings(problem, fabric, 1, rng)
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
