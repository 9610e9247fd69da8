"""METIS and KaHIP as baselines: balanced parts with a small cut, made to fit the ring."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.partition import Budget, Evaluate, Ints, Outcome, PartitionProblem
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.families.ring.strategies.ring_repair import repaired
from mcm_passes.families.ring.strategies.weighted_graph import WeightedGraph, weighted_graph
from mcm_passes.mapping.search.search import Search

SEED_LIMIT = 1 << 30

Parts = npt.NDArray[np.int64]


@dataclass(frozen=True)
@checked(tries=at_least(1))
class Metis:
    """K-way partitions of METIS (Karypis and Kumar 1998), ordered and repaired.

    What METIS minimises, the weight of edges between parts, knows neither directions nor the
    ring: parts are put in the order of their units' mean place in a topological order, and what
    the rules forbid is moved. Needs the extra `baselines`.

    Attributes:
        tries: seeds, each a partition, at least 1.
    """

    name: ClassVar[str] = "metis"
    summary: ClassVar[str] = "METIS and repair, a baseline (needs the extra 'baselines')"
    extra: ClassVar[str] = "baselines"

    tries: int = 4

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """The best of all tries.

        Raises:
            CompileError: MCM-P017 where METIS is not installed.
        """
        pymetis = _module("pymetis", self.name)

        def parts(graph: WeightedGraph, count: int, seed: int) -> Any:
            options = pymetis.Options(seed=seed)
            adjacency = pymetis.CSRAdjacency(graph.ptr.tolist(), graph.neighbours.tolist())
            return pymetis.part_graph(
                count,
                adjacency=adjacency,
                vweights=graph.unit_weight.tolist(),
                eweights=graph.edge_weight.tolist(),
                options=options,
            )[1]

        return _best(problem, evaluate, rng, budget, self.tries, parts)


@dataclass(frozen=True)
@checked(tries=at_least(1), imbalance=at_least(0))
class Kahip:
    """Like `metis`, by KaFFPa of KaHIP (Sanders and Schulz 2013, *Think Locally, Act Globally*).

    Attributes:
        tries: seeds, each a partition, at least 1.
        imbalance: how much heavier than the mean a part may be, as a share of it.
    """

    name: ClassVar[str] = "kahip"
    summary: ClassVar[str] = "KaHIP and repair, a baseline (needs the extra 'baselines')"
    extra: ClassVar[str] = "baselines"

    tries: int = 4
    imbalance: float = 0.03

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """The best of all tries.

        Raises:
            CompileError: MCM-P017 where KaHIP is not installed.
        """
        kahip = _module("kahip", self.name)

        def parts(graph: WeightedGraph, count: int, seed: int) -> Any:
            return kahip.kaffpa(
                graph.unit_weight.tolist(),
                graph.ptr.tolist(),
                graph.edge_weight.tolist(),
                graph.neighbours.tolist(),
                count,
                self.imbalance,
                True,  # no output
                seed,
                kahip.ECO,
            )[1]

        return _best(problem, evaluate, rng, budget, self.tries, parts)


def _module(name: str, strategy: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CompileError(
            Diagnostic(
                "MCM-P017",
                f"strategy '{strategy}' needs the package {name}, which cannot be imported",
                at="option partitioner",
                hint="pip install 'mcm-compiler[baselines]', or choose another strategy",
            )
        ) from error


def _best(
    problem: PartitionProblem,
    evaluate: Evaluate,
    rng: np.random.Generator,
    budget: Budget,
    tries: int,
    parts_of: Any,
) -> Outcome:
    search = Search(problem, evaluate, budget)
    graph = weighted_graph(problem)
    count = min(problem.num_chips, graph.units.size)
    reason = "the budget allows no evaluation" if graph.units.size else "there is no unit to place"
    for _ in range(tries if graph.units.size else 0):
        if not search.left:
            break
        seed = int(rng.integers(SEED_LIMIT))
        parts = np.zeros(graph.units.size, np.int64)
        if count > 1:
            parts = np.array(parts_of(graph, count, seed), np.int64)
        reason = "no repair of its parts fits the memory and the rules"
        for row in _rows(problem, graph, parts, rng):
            search.period(row)
    return search.outcome(reason)


def _rows(
    problem: PartitionProblem, graph: WeightedGraph, parts: Parts, rng: np.random.Generator
) -> list[Ints]:
    """The repaired partitions of some parts."""
    wanted = np.zeros(problem.num_units, np.int32)
    # Mean places, weighted by work; units are in a topological order.
    work = np.maximum(problem.compute_s[graph.units], 1e-15)
    place = np.arange(graph.units.size)
    total = np.bincount(parts, work)
    mean = np.bincount(parts, work * place) / np.maximum(total, 1e-30)
    present = np.flatnonzero(total > 0.0)
    rank = np.zeros(total.size, np.int32)
    rank[present[np.argsort(mean[present], kind="stable")]] = np.arange(present.size)
    wanted[graph.units] = rank[parts]
    return repaired(problem, wanted, rng)
