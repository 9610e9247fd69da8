"""Measuring and learning in rounds, and figures of a model on measured graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Fabric, Mappings
from mcm_compiler.contracts.fabrics.mappers import MapperRequest
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel
from mcm_compiler.contracts.fabrics.target import MapsChips
from mcm_models.mapping_model.data_set import MODEL, MeasuredGraph
from mcm_models.mapping_model.figures import Figures, figures_of
from mcm_models.mapping_model.layout import MappingLayout, Weights, initial_weights
from mcm_passes.families.fabric.annealing.annealing import Annealing
from mcm_passes.families.fabric.learning.collecting import measured
from mcm_passes.families.fabric.learning.gnn import PreparedGnn, prepared_gnn

if TYPE_CHECKING:
    from mcm_models.mapping_model.training import SeenGraph

MOST_ERROR = 0.005
"""Labels that may be wrong by more are not tested on."""

LEARNED_ERROR = 0.1
"""Labels that may be wrong by more are not learned from. Bounds are tens of times as wide as what
plays that were given up are off by, so that those may be learned from, but not tested on."""


def exact(graph: MeasuredGraph) -> np.ndarray:
    """`[B]`, which labels are good enough to test on."""
    return graph.error <= MOST_ERROR


def seen_graphs(fabric: Fabric, graphs: Sequence[MeasuredGraph]) -> list[SeenGraph]:
    """What the network learns from; needs the extra `learn`."""
    from mcm_models.mapping_model.training import SeenGraph

    layout = MappingLayout()
    weights = initial_weights(layout, 0)
    return [
        SeenGraph(
            prepared_gnn(graph.problem, fabric, layout, weights).graphs(graph.mappings),
            np.log(np.maximum(graph.period_cycles / graph.bound_cycles, 1.0)),
            np.log(graph.latency_cycles / graph.bound_cycles),
            (graph.error <= LEARNED_ERROR).astype(np.float64),
        )
        for graph in graphs
    ]


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


WIRES = (0.0, 0.5, 1.0, 2.0)
"""Weights of the length of wires in searches, taken in turn."""


def own_optima(
    target: MapsChips,
    model: tuple[MappingLayout, Weights],
    graph: MeasuredGraph,
    searches: int,
    evaluations: int,
    purpose: tuple[int, str],
) -> MeasuredGraph:
    """Mappings of a graph that searches with the model find, measured.

    Where one of them cannot be measured, the best mapping that is known stands for all.

    Args:
        target: with the judge.
        model: layout and weights.
        graph: whose problem is laid out.
        searches: mappings that are measured.
        evaluations: of each search.
        purpose: seed, and a text that tells this use of it from others.

    Raises:
        CompileError: MCM-M056 where the judge measures what cannot be.
    """
    rng = seeded_generator(*purpose)
    found: list[Mappings] = []
    for number in range(searches):
        prepared = _prepared(target, model, graph, WIRES[number % len(WIRES)])
        request = MapperRequest(
            graph.problem,
            target.fabric,
            prepared,
            target.mapping_judge(),
            measurements=0,
            evaluations=evaluations,
            seed=int(rng.integers(2**31)),
        )
        found.append(Annealing(chains=4, before=0).map(request).mapping)
    origin = np.full(len(found), MODEL, np.int32)
    optima = measured(target, graph.family, graph.problem, Mappings.stacked(found), origin)
    return _best_known(graph) if optima is None else optima


def _best_known(graph: MeasuredGraph) -> MeasuredGraph:
    best = int(np.argmin(graph.period_cycles))
    return dataclasses.replace(
        graph,
        mappings=graph.mappings[best],
        period_cycles=graph.period_cycles[best : best + 1],
        latency_cycles=graph.latency_cycles[best : best + 1],
        error=graph.error[best : best + 1],
        origin=np.full(1, MODEL, np.int32),
    )


def optimism(
    target: MapsChips, model: tuple[MappingLayout, Weights], optima: Sequence[MeasuredGraph]
) -> float:
    """Mean error of the model at its own optima, as a share of the measured periods."""
    errors = [
        np.abs(
            _prepared(target, model, graph, 0.0).period_cycles(graph.mappings) / graph.period_cycles
            - 1
        )
        for graph in optima
    ]
    return float(np.concatenate(errors).mean())


def _prepared(
    target: MapsChips, model: tuple[MappingLayout, Weights], graph: MeasuredGraph, wire: float
) -> PreparedGnn:
    layout, weights = model
    return prepared_gnn(graph.problem, target.fabric, layout, weights, wire)
