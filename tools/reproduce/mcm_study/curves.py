"""Best-so-far curves: from what was recorded of each cell to geometric means over graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcm_compiler.contracts.partition import Floats
from mcm_study.cells import Cell, Record
from mcm_study.classical import Exact, Portfolio
from mcm_study.methods import Method

POINTS = 40
MARKS = (20, 50, 100, 200, 423, 800, 1000, 4000)
"""Numbers of samples that tables and claims speak of."""

NOTHING_YET = 0.1
"""Stands in geometric means for the improvement of a search that has found nothing valid yet: a
tenth of the heuristic's throughput, below what nearly every valid random partition comes to."""


BASELINES = ("random", "sa", "sa-short")
"""Methods that learned search is held against."""

SOON = 1000
"""Samples among which a baseline has to find something valid for a graph to be compared on."""


def sample_counts(samples: int) -> list[int]:
    """About `POINTS` numbers of samples, evenly spaced as logarithms, and the `MARKS`."""
    spaced = np.unique(np.geomspace(1, samples, POINTS).round().astype(int)).tolist()
    return sorted({*spaced, *(mark for mark in MARKS if mark <= samples)})


@dataclass(frozen=True, eq=False)
class Run:
    """The course of one search.

    Attributes:
        best: `[S]`, improvement over the greedy heuristic of the best of the first 1, 2, ...
            partitions; 0 where none was valid.
        step_cpu_s: processor seconds at each improvement.
        step_best: improvement from then on.
        cpu_s: processor seconds of all.
        cpu_at_marks: at each of `sample_counts(S)`.
        valid_share: partitions that run.
        evaluated: partitions that it evaluated; fewer than it might where it ends by itself.
    """

    best: Floats
    step_cpu_s: Floats
    step_best: Floats
    cpu_s: float
    cpu_at_marks: tuple[float, ...]
    valid_share: float
    evaluated: int

    @classmethod
    def of(cls, record: Record, samples: int) -> Run:
        """From the record of a cell that was to take so many samples."""
        steps: Sequence[Sequence[float]] = record["steps"]
        best = np.zeros(samples)
        for number, period_s, _ in steps:
            best[int(number) - 1 :] = record["baseline_s"] / period_s
        return cls(
            best=best,
            step_cpu_s=np.array([step[2] for step in steps], np.float64),
            step_best=np.array([record["baseline_s"] / step[1] for step in steps], np.float64),
            cpu_s=record["cpu_s"],
            cpu_at_marks=tuple(record["cpu_at_marks"]),
            valid_share=record["valid"] / max(record["samples"], 1),
            evaluated=record["samples"],
        )

    def at_cpu(self, seconds: float) -> float:
        """Improvement of the best after so much processor time; 0 where there is none."""
        passed = int(np.searchsorted(self.step_cpu_s, seconds, side="right"))
        return float(self.step_best[passed - 1]) if passed else 0.0


@dataclass(frozen=True)
class Classical:
    """What the classical portfolio found, and what is proven.

    Attributes:
        improvement: over the greedy heuristic.
        best: the better of that and what a longer exact search found.
        bound: no partition improves more, under the fast model; the better of both bounds.
        cpu_s: processor seconds of the portfolio.
        nodes: units that are placed.
        clonable: units that are copied to each chip that reads them.
    """

    improvement: float
    best: float
    bound: float
    cpu_s: float
    nodes: int
    clonable: int

    @classmethod
    def of(cls, portfolio: Record, exact: Record | None) -> Classical:
        """From the records of both, where there was a longer search."""
        records = [record for record in (portfolio, exact) if record is not None]
        baseline_s = portfolio["baseline_s"]
        return cls(
            improvement=baseline_s / portfolio["period_s"],
            best=baseline_s / min(record["period_s"] for record in records),
            bound=baseline_s / max(record["bound_s"] for record in records),
            cpu_s=portfolio["cpu_s"],
            nodes=portfolio["nodes"],
            clonable=portfolio["clonable"],
        )


@dataclass(frozen=True, eq=False)
class Panel:
    """All that was measured in one setting.

    Attributes:
        graphs: names of the problems that are looked at.
        runs: by method, graph and seed.
        classical: by graph.
    """

    graphs: tuple[str, ...]
    runs: dict[tuple[str, str, int], Run]
    classical: dict[str, Classical]

    @classmethod
    def of(cls, found: Sequence[tuple[Cell, Record]]) -> Panel:
        """From cells and their records."""
        runs: dict[tuple[str, str, int], Run] = {}
        searched: dict[str, dict[str, Record]] = {}
        for cell, record in found:
            if isinstance(cell.method, Method):
                run = Run.of(record, cell.method.samples)
                runs[cell.method.name, cell.graph, cell.seed] = run
            else:
                searched.setdefault(cell.graph, {})[cell.method.name] = record
        classical = {
            graph: Classical.of(records[Portfolio.name], records.get(Exact.name))
            for graph, records in searched.items()
            if Portfolio.name in records
        }
        graphs = tuple(dict.fromkeys(cell.graph for cell, _ in found))
        return cls(graphs, runs, classical)

    def on(self, graphs: Sequence[str]) -> Panel:
        """The same, looking at some graphs only."""
        return Panel(tuple(graphs), self.runs, self.classical)

    @property
    def methods(self) -> list[str]:
        """Methods that some seed is complete of, in their order."""
        return [name for name in dict.fromkeys(key[0] for key in self.runs) if self.seeds(name)]

    def seeds(self, method: str) -> list[int]:
        """Seeds with which a method was run on all graphs."""
        seeds = sorted({seed for name, _, seed in self.runs if name == method})
        return [s for s in seeds if all((method, g, s) in self.runs for g in self.graphs)]

    def samples(self, method: str, otherwise: int) -> int:
        """Samples that a method takes; `otherwise` where it was not measured."""
        sizes = [run.best.size for (name, _, _), run in self.runs.items() if name == method]
        return sizes[0] if sizes else otherwise

    def unsolved(self) -> dict[str, list[str]]:
        """Graphs on which some run ended without a valid partition, with the methods of those."""
        found: dict[str, list[str]] = {}
        for (method, graph, _), run in self.runs.items():
            if graph in self.graphs and run.best[-1] == 0.0:
                methods = found.setdefault(graph, [])
                if method not in methods:
                    methods.append(method)
        return found

    def comparable(self) -> Panel:
        """The same on the graphs on which all baselines soon find something valid.

        On the others there is nothing to compare with. Where that leaves none, all.
        """
        left_out = {
            graph
            for (method, graph, _), run in self.runs.items()
            if method in BASELINES and run.best[:SOON][-1] == 0.0
        }
        kept = [graph for graph in self.graphs if graph not in left_out]
        return self.on(kept or self.graphs)

    def best_known(self, graph: str) -> float:
        """The largest improvement that any run or classical search has come to on a graph."""
        found = [float(run.best[-1]) for (_, at, _), run in self.runs.items() if at == graph]
        return max([*found, self.classical[graph].best])

    def nothing(self, method: str, seed: int, count: int) -> bool:
        """Whether a method has found nothing valid on any graph among its first samples."""
        bests = [self.runs[method, graph, seed].best for graph in self.graphs]
        return all(best[min(count, best.size) - 1] == 0.0 for best in bests)

    def curve(self, method: str, seed: int, least: float = NOTHING_YET) -> Floats:
        """`[S]`, geometric mean over the graphs of the best so far.

        Args:
            method: its name.
            seed: of the runs.
            least: what counts where less is known.
        """
        rows = [self.runs[method, graph, seed].best for graph in self.graphs]
        return geometric_mean(np.stack(rows), least)

    def curves(self, method: str, least: float = NOTHING_YET) -> Floats:
        """`[seeds, S]`, the same of every seed."""
        return np.stack([self.curve(method, seed, least) for seed in self.seeds(method)])


def geometric_mean(rows: Floats, least: float = NOTHING_YET) -> Floats:
    """Over the first axis; what is below `least` counts as that."""
    return np.exp(np.log(np.maximum(rows, least)).mean(axis=0))


def mean_and_deviation(values: Floats | Sequence[float]) -> tuple[float, float]:
    """Over seeds; the deviation of a sample, 0 for a single seed."""
    array = np.asarray(values, np.float64)
    return float(array.mean()), float(array.std(ddof=1)) if array.size > 1 else 0.0


def rounded(value: float) -> float:
    """Six significant digits, so that data files stay small and readable."""
    return float(f"{value:.6g}")


def pair(values: Floats | Sequence[float]) -> list[Any]:
    """Mean and deviation for a data file."""
    return [rounded(value) for value in mean_and_deviation(values)]
