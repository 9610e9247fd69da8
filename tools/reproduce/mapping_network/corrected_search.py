"""The mapper `corrected-annealing`: walks by a formula, then by the model that corrects it.

A formula answers tens of times as fast as the network. Walks follow it for a share of what may be
spent, and the model from the best that they have seen by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_compiler.contracts.fabrics.mappers import MapperRequest
from mcm_compiler.text.option_fields import above, checked, from_to
from mcm_passes.families.fabric.annealing.annealing import Annealing, Chains, Spending, cool_down
from mcm_passes.families.fabric.annealing.walkers import BatchedWalks, Walkers
from mcm_passes.families.fabric.routing_trees import Tables

NEARER = 4.0
"""How many times shorter a way may be when walks begin to follow the model than when they began
to follow the formula."""


@dataclass(frozen=True)
@checked(before=from_to(0, 1), warm=above(0))
class CorrectedAnnealing(Annealing):
    """Annealing by a model that has `corrected`, the formula that it corrects.

    Attributes:
        before: share of evaluations and time in which walks follow the formula.
        warm: temperature at which they begin to follow the model, as a share of the cost.
    """

    name: ClassVar[str] = "corrected-annealing"
    summary: ClassVar[str] = "annealing by a formula, then by the model that corrects it"

    before: float = 0.6
    warm: float = 5e-4

    def _searched(
        self,
        request: MapperRequest,
        tables: Tables,
        starts: Mappings,
        spending: Spending,
        rng: np.random.Generator,
    ) -> tuple[Chains, list[tuple[int, float]]]:
        model: Any = request.model
        cooling, spent, left_s = self._cooling(tables), 0, spending.left_s
        # There has to be enough for two searches.
        if self.before > 0 and request.evaluations >= 2 * len(starts):
            begin = time.thread_time()
            walkers = Walkers(model.corrected, starts, self._shares, rng)
            share = None if left_s is None else self.before * left_s
            cool_down(walkers, cooling, Spending(int(self.before * spending.evaluations), share))
            starts, spent = walkers.best_mappings, walkers.evaluations
            if left_s is not None:
                left_s = max(left_s - (time.thread_time() - begin), 0.0)
            near = max(cooling.widest / NEARER, 1.0)
            cold = min(self.cold, self.warm)
            cooling = replace(cooling, hot=self.warm, cold=cold, widest=near)
        chains = BatchedWalks(model, tables, starts, self._shares, rng)
        history = cool_down(chains, cooling, Spending(spending.evaluations - spent, left_s))
        return chains, [(spent + evaluations, cost) for evaluations, cost in history]

    def _walks(
        self, model: Any, tables: Tables, rng: np.random.Generator
    ) -> Callable[[Mappings], Chains]:
        """Walks that refine follow the formula: measurements correct it, too."""
        return lambda mapping: Walkers(model.corrected, mapping, self._shares, rng)
