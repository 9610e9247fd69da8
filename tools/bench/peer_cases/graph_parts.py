"""METIS, Scotch and KaHIP: parts of equal work with little between them, from several seeds.

Nodes weigh the time of their unit on a chip, edges the time that their tensor takes on a link and
in a relay, as `weighted_graph` of the compiler says. Scotch also maps onto chips in a row, which is
what its target graphs are for.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from partition_cases.isolation import Meter
from peer_cases.answers import Asked, Row, Spent, row
from peer_cases.judging import Parts, best_of
from peer_cases.op_graphs import WeightedGraph, weighted_graph

IMBALANCE = 0.03
"""How much heavier than the mean a part may be for KaHIP; METIS's own default is as much."""

Divide = Callable[[WeightedGraph, int, int], Any]
"""From graph, number of parts and seed to the part of each node."""


def metis(graph: WeightedGraph, count: int, seed: int) -> Any:
    """K-way parts by METIS."""
    pymetis: Any = importlib.import_module("pymetis")
    return pymetis.part_graph(
        count,
        adjacency=pymetis.CSRAdjacency(graph.ptr.tolist(), graph.neighbours.tolist()),
        vweights=graph.unit_weight.tolist(),
        eweights=graph.edge_weight.tolist(),
        options=pymetis.Options(seed=seed),
    ).vertex_part


def kahip(graph: WeightedGraph, count: int, seed: int) -> Any:
    """Parts by KaFFPa of KaHIP in its mode `STRONG`."""
    library: Any = importlib.import_module("kahip")
    return library.kaffpa(
        graph.unit_weight.tolist(),
        graph.ptr.tolist(),
        graph.edge_weight.tolist(),
        graph.neighbours.tolist(),
        count,
        IMBALANCE,
        True,  # no output
        seed,
        library.STRONG,
    )[1]


def scotch(graph: WeightedGraph, count: int, seed: int) -> Any:
    """A mapping by Scotch onto chips in a row (even seeds) or all side by side."""
    # Read whenever Scotch maps; on several threads the same seed gives other mappings.
    os.environ["SCOTCH_PTHREAD_NUMBER"] = "1"
    library: Any = importlib.import_module("scotchpy")
    library.common.random_seed(seed)
    library.common.random_reset()
    kind = np.int64 if library.num_sizeof() == np.dtype(np.int64).itemsize else np.int32
    made = library.Graph()
    made.build(
        verttab=graph.ptr.astype(kind),
        edgetab=graph.neighbours.astype(kind),
        velotab=graph.unit_weight.astype(kind),
        edlotab=graph.edge_weight.astype(kind),
    )
    chips = library.Arch()
    if seed % 2 == 0:
        chips.mesh2(count, 1)
    else:
        chips.cmplt(count)
    found = np.zeros(graph.units.size, kind)
    made.map(chips, parttab=found)
    return found


def drawn(graph: WeightedGraph, count: int, seed: int) -> Any:
    """Parts drawn at random: a control."""
    return np.random.default_rng(seed).integers(0, count, graph.units.size)


def answer(asked: Asked, divide: Divide) -> Row:
    """The best of the parts of all seeds."""
    problem = asked.case.problem
    graph = weighted_graph(problem)
    rows: list[Parts] = []
    with Meter() as meter:
        for seed in range(asked.case.seeds):
            parts = np.zeros(problem.num_units, np.int64)
            if asked.count > 1:
                parts[graph.units] = np.asarray(divide(graph, asked.count, seed), np.int64)
            rows.append(parts)
    figures = meter.figures()
    best, chosen = best_of(problem, rows)
    return row(
        asked,
        best,
        Spent(figures["cpu_s"], figures["wall_s"]),
        parts=np.unique(rows[chosen][graph.units]).size,
    )
