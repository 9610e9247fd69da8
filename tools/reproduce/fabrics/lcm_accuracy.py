"""How well mapping models guess what the judge measures, by 5-fold cross-validation over graphs.

    mcmc train mapping-model --set graphs=420 -o training
    python tools/reproduce/fabrics/lcm_accuracy.py training/collection --seeds 5

No model sees a mapping of a graph that it is asked about, but in the row `random split`. Beside the
network stand the mean of a graph's mappings, which is blind to where units lie, the formulas, a
ridge of second degree on their terms, fitted on the same folds, and what the LCM paper reports of
its own data. Weights of folds are kept, so that a stopped study goes on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lcm_study.fold_models import LAYOUT, FoldModels
from lcm_study.graphs import part, read
from lcm_study.tables import figures_table
from mapping_network.gnn import PreparedGnn, prepared_gnn
from mapping_network.layout import LearningSettings, Weights

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Fabric
from mcm_compiler.contracts.fabrics.mappers import MapperRequest
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.processes.staging import write_whole
from mcm_hardware.families.fabric.measuring.player import ENOUGH, FlitJudge
from mcm_models.mapping_model.data_set import FORMULA, ORIGINS, RANDOM, MappingData, MeasuredGraph
from mcm_models.mapping_model.figures import Figures, folds
from mcm_passes.families.fabric.annealing.annealing import Annealing
from mcm_passes.families.fabric.formulas.analytic import Busiest, Heuristic, RoundTrips, WireLength
from mcm_passes.families.fabric.learning.mapping_trainer import exact, guesses, judged

FOLDS = 5
PAPER = {"paper, heuristic": (0.406, 0.468), "paper, GNN": (0.193, 0.808)}
"""Relative error and rank correlation in the LCM paper, on data that are not public."""

OPTIMA, OPTIMUM_EVALUATIONS = 12, 1500
"""Graphs of each fold whose optima are searched for, and evaluations of such a search."""

STRENGTH = 1.0
"""Of the ridge: weight of squared coefficients of standardised features."""

RANDOM_SPLIT = "gnn, random split"
"""A network that has learned from other mappings of the graphs that it is asked about."""

LEAST = 1e-3
"""Terms below this share of the bound are taken for so much."""

Guesses = dict[int, Floats]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table, and writes all figures where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="data set, or folder of parts of one")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of the network")
    parser.add_argument("--more", action="store_true", help="add what the output lacks")
    parser.add_argument("--epochs", type=int, default=LearningSettings().epochs)
    parser.add_argument("--work", type=Path, default=None, help="folder for weights of folds")
    parser.add_argument("--random-split", action="store_true", help="one fold of it, too")
    parser.add_argument("--output", type=Path, default=None)
    given = parser.parse_args(argv)
    if given.more and (given.output is None or not given.output.exists()):
        parser.error("--more needs an --output that is there")
    use_one_thread()
    data = read(given.data)
    begin = time.process_time()
    if given.more:
        add_trainings(data, given)
        return 0
    found = {name: [made] for name, made in analytic_guesses(data).items()}
    found["ridge"] = [cross_fitted(data, ridge_guesses)]
    settings = LearningSettings(epochs=given.epochs)
    models = FoldModels(data, settings, given.work or given.data.with_name("folds"))
    found["gnn"] = [network_guesses(models, data, seed) for seed in range(given.seeds)]
    if given.seeds > 1:
        found["gnn, mean of seeds"] = [mean_guesses(found["gnn"])]
    rows = {name: [figures(one, data.graphs) for one in made] for name, made in found.items()}
    by_origin = {
        ORIGINS[origin]: {
            name: [figures(*of_origin(one, data.graphs, origin)) for one in made]
            for name, made in found.items()
        }
        for origin in (RANDOM, FORMULA)
    }
    optimum = own_optimum_errors(models, data)
    if given.random_split:
        rows[RANDOM_SPLIT] = [random_split(models, data, 0)]
    record = {
        "graphs": len(data.graphs),
        "measurements": data.measurements,
        "learned": dataclasses.asdict(data.learned),
        "labels": labels_of(data),
        "settings": dataclasses.asdict(settings),
        "own_optimum": optimum,
        "rows": _plain(rows),
        "by_origin": {name: _plain(some) for name, some in by_origin.items()},
        "cpu_s": round(time.process_time() - begin, 1),
    }
    print(table(rows))
    for origin, some in by_origin.items():
        print(f"of origin {origin}:\n{table(some)}")
    print(f"error at the own optimum: {optimum}")
    if given.output is not None:
        write_record(given.output, record)
    return 0


def add_trainings(data: MappingData, given: argparse.Namespace) -> None:
    """Adds rows of the network to a record, as its data and settings were."""
    record = json.loads(given.output.read_text())
    settings = LearningSettings(**record["settings"])
    if record["learned"] != dataclasses.asdict(data.learned):
        raise SystemExit(f"{given.output} is of other data")
    models = FoldModels(data, settings, given.work or given.data.with_name("folds"))
    for seed in range(len(record["rows"]["gnn"]), given.seeds):
        found = network_guesses(models, data, seed)
        record["rows"]["gnn"].append(dataclasses.asdict(figures(found, data.graphs)))
        for origin in (RANDOM, FORMULA):
            row = figures(*of_origin(found, data.graphs, origin))
            record["by_origin"][ORIGINS[origin]]["gnn"].append(dataclasses.asdict(row))
        write_record(given.output, record)
    if given.random_split and RANDOM_SPLIT not in record["rows"]:
        record["rows"] |= _plain({RANDOM_SPLIT: [random_split(models, data, 0)]})
        write_record(given.output, record)


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Writes all figures."""
    write_whole(path, (json.dumps(record, indent=1, sort_keys=True) + "\n").encode())


def mean_guesses(found: Sequence[Guesses]) -> Guesses:
    """Of several trainings, the geometric mean."""
    return {k: np.exp(np.mean([np.log(one[k]) for one in found], axis=0)) for k in found[0]}


def labels_of(data: MappingData) -> dict[str, float]:
    """What the labels are like: throughput over the bound, and what placement is worth."""
    labels = np.concatenate([g.bound_cycles / g.period_cycles for g in data.graphs])
    spread = [g.period_cycles.max() / g.period_cycles.min() for g in data.graphs]
    low, middle, high = np.quantile(labels, [0.05, 0.5, 0.95])
    return {
        "5 %": round(float(low), 4),
        "median": round(float(middle), 4),
        "95 %": round(float(high), 4),
        "worst over best, median graph": round(float(np.median(spread)), 4),
        "inexact": int(sum((~exact(g)).sum() for g in data.graphs)),
    }


def analytic_guesses(data: MappingData) -> dict[str, Guesses]:
    """Of models that have learned nothing, or nothing of where units lie."""
    graphs, fabric = data.graphs, data.fabric
    mean = [_mean(graph.period_cycles[exact(graph)]) for graph in graphs]
    found = {"graph's mean": dict(enumerate(mean))}
    for model in (WireLength(), Heuristic(), Busiest(), RoundTrips()):
        made = guesses(lambda graph, model=model: model.prepared(graph.problem, fabric), graphs)
        found[model.name] = dict(enumerate(made))
    return found


def of_origin(
    found: Guesses, graphs: Sequence[MeasuredGraph], origin: int
) -> tuple[Guesses, list[MeasuredGraph]]:
    """Guesses and mappings of one origin: those that searches end in are nearly equal."""
    some = {k: found[k][graph.origin[exact(graph)] == origin] for k, graph in enumerate(graphs)}
    return some, [part(graph, graph.origin == origin) for graph in graphs]


def _mean(periods: Floats) -> Floats:
    """The geometric mean for every mapping of the graph."""
    if not len(periods):
        return periods
    return np.full(len(periods), np.exp(np.log(periods).mean()))


def cross_fitted(
    data: MappingData,
    fit: Callable[[Fabric, Sequence[MeasuredGraph], Sequence[MeasuredGraph]], list[Floats]],
) -> Guesses:
    """Guesses for each graph of a model that has not seen it."""
    found: Guesses = {}
    for held in folds(len(data.graphs), FOLDS, data.seed):
        inside = set(held.tolist())
        known = [graph for k, graph in enumerate(data.graphs) if k not in inside]
        tested = [data.graphs[k] for k in held.tolist()]
        found |= dict(zip(held.tolist(), fit(data.fabric, known, tested), strict=True))
    return found


def ridge_guesses(
    fabric: Fabric, known: Sequence[MeasuredGraph], tested: Sequence[MeasuredGraph]
) -> list[Floats]:
    """Least squares on logarithms of terms, their products, and the formula."""
    train = np.concatenate([_terms(fabric, graph) for graph in known])
    centre, spread = train.mean(axis=0), np.maximum(train.std(axis=0), 1e-9)
    target = np.concatenate([_logs(graph) for graph in known])
    inputs = _squares((train - centre) / spread)
    penalty = STRENGTH * np.eye(inputs.shape[1])
    penalty[0, 0] = 0
    weights = np.linalg.solve(inputs.T @ inputs + penalty, inputs.T @ target)
    return [
        graph.bound_cycles
        * np.exp(np.clip(_squares((_terms(fabric, graph) - centre) / spread) @ weights, 0, 10))
        for graph in tested
    ]


def _terms(fabric: Fabric, graph: MeasuredGraph) -> Floats:
    """`[B, F]`, logarithms over the bound: of the formula and of its terms."""
    prepared = RoundTrips().prepared(graph.problem, fabric)
    rows = exact(graph)
    terms = prepared.terms(graph.mappings)[rows, 1:]
    period = prepared.period_cycles(graph.mappings)[rows, None]
    over = np.maximum(np.concatenate([period, terms], axis=1) / graph.bound_cycles, LEAST)
    return np.log(over)


def _squares(rows: Floats) -> Floats:
    first, second = np.triu_indices(rows.shape[1])
    return np.concatenate([np.ones((len(rows), 1)), rows, rows[:, first] * rows[:, second]], axis=1)


def _logs(graph: MeasuredGraph) -> Floats:
    return np.log(graph.period_cycles[exact(graph)] / graph.bound_cycles)


def network_guesses(models: FoldModels, data: MappingData, seed: int) -> Guesses:
    """Guesses of networks, one a fold."""
    found: Guesses = {}
    for number, held in enumerate(folds(len(data.graphs), FOLDS, data.seed)):
        weights = models.without_graphs(held.tolist(), number, seed)
        made = guesses(_prepares(data, weights), [data.graphs[k] for k in held.tolist()])
        found |= dict(zip(held.tolist(), made, strict=True))
    return found


def random_split(models: FoldModels, data: MappingData, seed: int) -> Figures:
    """One fold of mappings of all graphs: the network has seen others of each graph."""
    rng = np.random.default_rng(data.seed)
    held = {
        k: rng.permutation(len(graph)) < len(graph) // FOLDS for k, graph in enumerate(data.graphs)
    }
    weights = models.without_mappings(held, 0, seed)
    tested = [part(graph, held[k]) for k, graph in enumerate(data.graphs)]
    return judged(guesses(_prepares(data, weights), tested), tested)


def _prepares(data: MappingData, weights: Weights) -> Callable[[MeasuredGraph], PreparedGnn]:
    return lambda graph: prepared_gnn(graph.problem, data.fabric, LAYOUT, weights)


def own_optimum_errors(models: FoldModels, data: MappingData) -> dict[str, float]:
    """Mean error of what models say of mappings that a search by them has found, measured."""
    judge = FlitJudge(enough=ENOUGH)
    errors: dict[str, list[float]] = {"gnn": [], "round-trips": []}
    for number, held in enumerate(folds(len(data.graphs), FOLDS, data.seed)):
        network = _prepares(data, models.without_graphs(held.tolist(), number, 0))
        for k in held.tolist()[:OPTIMA]:
            graph = data.graphs[k]
            asked = (network(graph), RoundTrips().prepared(graph.problem, data.fabric))
            for model, found_errors in zip(asked, errors.values(), strict=True):
                request = MapperRequest(
                    graph.problem,
                    data.fabric,
                    model,
                    judge,
                    0,
                    evaluations=OPTIMUM_EVALUATIONS,
                    seed=k,
                )
                answer = Annealing(chains=4).map(request)
                found = judge.measure(graph.problem, data.fabric, answer.mapping)
                guess = model.period_cycles(answer.mapping)[0]
                found_errors.append(abs(guess / found.period_cycles[0] - 1))
    return {name: round(float(np.mean(found)), 4) for name, found in errors.items()}


def _plain(rows: dict[str, list[Figures]]) -> dict[str, list[dict[str, float]]]:
    return {name: [dataclasses.asdict(row) for row in found] for name, found in rows.items()}


def figures(found: Guesses, graphs: Sequence[MeasuredGraph]) -> Figures:
    """Of guesses for all graphs."""
    return judged([found[k] for k in range(len(graphs))], graphs)


def table(rows: dict[str, list[Figures]]) -> str:
    """In Markdown, with what the LCM paper reports."""
    lines = [figures_table("model", _plain(rows))]
    lines += [f"| {name} | {e:.3f} | {s:.3f} | | | | |" for name, (e, s) in PAPER.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
