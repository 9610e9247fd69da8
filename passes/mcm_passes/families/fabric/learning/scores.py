"""Figures of a mapping model on measured graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel
from mcm_models.mapping_model.data_set import MeasuredGraph
from mcm_models.mapping_model.figures import Figures, figures_of

MOST_ERROR = 0.005
"""Labels that may be wrong by more are not tested on."""

LEARNED_ERROR = 0.1
"""Labels that may be wrong by more are not learned from. Bounds are tens of times as wide as the
errors of plays that were given up, so that those may be learned from, but not tested on."""


def exact(graph: MeasuredGraph) -> np.ndarray:
    """`[B]`, which labels are good enough to test on."""
    return graph.error <= MOST_ERROR


Prepares = Callable[[MeasuredGraph], PreparedMappingModel]


def guesses(prepare: Prepares, graphs: Sequence[MeasuredGraph]) -> list[Floats]:
    """Periods that a model expects of the mappings of each graph whose labels are exact."""
    found: list[Floats] = []
    for graph in graphs:
        rows = exact(graph)
        mappings = Mappings(graph.mappings.site[rows], graph.mappings.turn[rows])
        found.append(prepare(graph).period_cycles(mappings))
    return found


def judged(guessed: Sequence[Floats], graphs: Sequence[MeasuredGraph]) -> Figures:
    """Figures of guesses for the mappings whose labels are exact; graphs without any are left out.

    Args:
        guessed: of each graph, as `guesses` gives them.
        graphs: as measured.
    """
    rows = [
        (guess, graph.period_cycles[exact(graph)], graph.bound_cycles)
        for guess, graph in zip(guessed, graphs, strict=True)
        if exact(graph).any()
    ]
    return figures_of([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])
