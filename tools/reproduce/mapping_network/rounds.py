"""Features that the network learns from, and measurements of its own optima."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mapping_network.gnn import PreparedGnn, prepared_gnn
from mapping_network.layout import MappingLayout, Weights, initial_weights
from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.contracts.fabrics.fabric import Fabric, Mappings
from mcm_compiler.contracts.fabrics.mappers import MapperRequest
from mcm_compiler.contracts.fabrics.target import MapsChips
from mcm_models.mapping_model.data_set import MODEL, MeasuredGraph
from mcm_passes.families.fabric.annealing.annealing import Annealing
from mcm_passes.families.fabric.learning.collecting import measured
from mcm_passes.families.fabric.learning.mapping_trainer import LEARNED_ERROR

if TYPE_CHECKING:
    from mapping_network.training import SeenGraph


def seen_graphs(fabric: Fabric, graphs: Sequence[MeasuredGraph]) -> list[SeenGraph]:
    """What the network learns from; needs the extra `learn`."""
    from mapping_network.training import SeenGraph

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
        found.append(Annealing(chains=4).map(request).mapping)
    origin = np.full(len(found), MODEL, np.int32)
    optima = measured(target, graph.family, graph.problem, Mappings.stacked(found), origin)
    return _best_known(graph) if optima is None else optima


def with_more(graph: MeasuredGraph, other: MeasuredGraph) -> MeasuredGraph:
    """The mappings of a graph and others of the same problem."""
    labels = {
        name: np.concatenate([getattr(graph, name), getattr(other, name)])
        for name in ("period_cycles", "latency_cycles", "error", "origin")
    }
    mappings = Mappings.stacked([graph.mappings, other.mappings])
    return dataclasses.replace(graph, mappings=mappings, **labels)


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
