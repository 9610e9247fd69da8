"""The network of the LCM paper compared with formulas, the ridge and the formula-fed network.

    python tools/reproduce/fabrics/lcm_published.py          trains what the record lacks
    python tools/reproduce/fabrics/lcm_published.py --page   writes the tables into the page

Five folds by graph over `tools/reproduce/data/fabric_measurements.npz`, the folds of
`lcm_accuracy.py`: no model has learned from a graph that it is tested on. The *ridge* is the one
that ships, its nine coefficients fitted to the known graphs of each fold. The formula-fed network,
`gnn`, is recorded for one split only; its 42 held-out graphs are half of the first fold. There the
network has learned from 378 graphs, and all others from 336 of these.

Ablations and the random split train on the first fold alone. `bound` is the roofline of the
fabric: the busiest unit, whatever the mapping. Each training is recorded as soon as it is done.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from lcm_accuracy import FOLDS, PAPER, Guesses, analytic_guesses, cross_fitted
from lcm_placers import BEFORE
from lcm_study.graphs import read
from lcm_study.published_network import PublishedSettings, answered, placed_graphs, trained
from lcm_study.tables import between_marks
from mapping_network.gnn import prepared_gnn
from mapping_network.layout import MAPPING_MODELS

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Fabric, Mappings
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.processes.staging import write_whole
from mcm_models import training_run
from mcm_models.mapping_model.data_set import MappingData, MeasuredGraph
from mcm_models.mapping_model.figures import figures_of, folds, spearman
from mcm_passes.families.fabric.formulas.analytic import RoundTrips
from mcm_passes.families.fabric.formulas.ridge import fitted, prepared_ridge, ridge_card
from mcm_passes.families.fabric.learning.mapping_trainer import (
    HELD_OUT,
    LEARNED_ERROR,
    MappingTrainer,
    exact,
    guesses,
)

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tools" / "reproduce" / "data" / "fabric_measurements.npz"
RECORD = DATA.with_name("lcm_published.json")
PAGE = ROOT / "docs" / "results" / "learned-cost-model.md"

WHOLE = "as published"
VARIANTS: dict[str, tuple[PublishedSettings, int]] = {
    WHOLE: (PublishedSettings(), FOLDS),
    "without node inputs": (PublishedSettings(nodes=False), 1),
    "without edge inputs": (PublishedSettings(edges=False), 1),
    "with annotations": (PublishedSettings(annotations=True), 1),
}
"""Networks, and the folds that are trained."""

RANDOM_SPLIT = "random split"
"""The network as published, tested on other mappings of the graphs that it learned from."""

FED = "gnn"
"""The recorded network that corrects the formula, before it learned from its own optima."""

PAPER_FAMILIES = {"mlp": (0.148, 0.778), "ffn": (0.404, 0.563), "mha": (0.139, 0.794)}
"""Error and rank correlation of the paper's network by family."""

OTHERS = ("bound", "heuristic", "round-trips", "ridge")
"""Models without a network, in the order of the tables."""

DRAWS = 2000
"""Samples of the bootstrap over graphs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Trains what is missing, or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the tables, train nothing")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if not given.page:
        use_one_thread()
        data = read(DATA)
        if not record:
            record = {
                "command": f"python tools/reproduce/fabrics/lcm_published.py --seed {given.seed}",
                "seed": given.seed,
                "versions": {
                    **training_run.versions_of("numpy", "numba"),
                    "jax": jax.__version__,
                    "optax": optax.__version__,
                },
                "learned": dataclasses.asdict(data.learned),
                "graphs": len(data.graphs),
                "settings": {
                    name: dataclasses.asdict(settings) for name, (settings, _) in VARIANTS.items()
                },
                "guesses": {name: _plain(found) for name, found in other_guesses(data).items()},
                "cpu_s": {},
            }
        train_missing(data, record)
        return 0
    page = PAGE.read_text()
    for name, text in sections(read(DATA), record).items():
        page = between_marks(page, name, text)
    write_whole(PAGE, page.encode())
    return 0


def other_guesses(data: MappingData) -> dict[str, Guesses]:
    """Periods predicted by models that were not trained here."""
    analytic = analytic_guesses(data)
    graphs = data.graphs
    found = {
        "bound": {k: np.full(exact(g).sum(), g.bound_cycles) for k, g in enumerate(graphs)},
        "heuristic": analytic["heuristic"],
        "round-trips": analytic["round-trips"],
        "ridge": cross_fitted(data, fitted_ridge),
    }
    weights, card = MAPPING_MODELS.load(BEFORE)
    if card.learned != data.learned:
        raise SystemExit(f"{BEFORE} has learned of other data")
    held = _held(data)
    made = guesses(
        lambda graph: prepared_gnn(graph.problem, data.fabric, card.layout, weights),
        [graphs[k] for k in held],
    )
    return {**found, FED: dict(zip(held, made, strict=True))}


def fitted_ridge(
    fabric: Fabric, known: Sequence[MeasuredGraph], tested: Sequence[MeasuredGraph]
) -> list[Floats]:
    """Predictions of the ridge that ships, fitted to other graphs."""
    terms: list[Floats] = []
    periods: list[Floats] = []
    for graph in known:
        rows = graph.error <= LEARNED_ERROR
        mappings = Mappings(graph.mappings.site[rows], graph.mappings.turn[rows])
        terms.append(RoundTrips().prepared(graph.problem, fabric).terms(mappings))
        periods.append(graph.period_cycles[rows])
    found = fitted(np.concatenate(terms), np.concatenate(periods), MappingTrainer.strength)
    card = ridge_card(found, fabric, ("", ""), {})
    return guesses(lambda graph: prepared_ridge(card, graph.problem, fabric), tested)


def train_missing(data: MappingData, record: dict[str, Any]) -> None:
    """Trains networks whose predictions the record lacks."""
    parts = folds(len(data.graphs), FOLDS, data.seed)
    whole = set(range(len(data.graphs)))

    def keep(name: str, found: Guesses, began: float) -> None:
        record["guesses"].setdefault(name, {}).update(_plain(found))
        spent = record["cpu_s"].get(name, 0.0) + time.process_time() - began
        record["cpu_s"][name] = round(spent, 1)
        write_whole(RECORD, (json.dumps(record, sort_keys=True) + "\n").encode())
        print(f"{name}: {spent:.0f} CPU-s", flush=True)

    if RANDOM_SPLIT not in record["guesses"]:
        began = time.process_time()
        settings, _ = VARIANTS[WHOLE]
        graphs = [
            graph._replace(weight=graph.weight * (rows > 0))
            for graph, rows in zip(placed_graphs(data, settings), _dealt(data), strict=True)
        ]
        weights, _ = trained(settings, graphs, sorted(whole), record["seed"])
        keep(RANDOM_SPLIT, answered(settings, weights, data, graphs), began)
    for name, (settings, count) in VARIANTS.items():
        graphs = placed_graphs(data, settings)
        for held in (part.tolist() for part in parts[:count]):
            if str(held[0]) in record["guesses"].get(name, {}):
                continue
            began = time.process_time()
            known = sorted(whole - set(held))
            weights, _ = trained(settings, graphs, known, record["seed"])
            found = answered(settings, weights, data, graphs)
            keep(name, {k: found[k] for k in held}, began)


def _dealt(data: MappingData) -> list[np.ndarray]:
    """Of each graph `[M]`, the part of the random split that each mapping is in."""
    rng = np.random.default_rng(data.seed)
    return [rng.permutation(len(graph)) % FOLDS for graph in data.graphs]


def _plain(found: Guesses) -> dict[str, list[float]]:
    return {str(k): [round(float(period), 1) for period in found[k]] for k in sorted(found)}


@dataclasses.dataclass(frozen=True)
class Tested:
    """Predictions of a model on the mappings of some graphs.

    Attributes:
        guessed: of each graph, periods.
        measured: likewise.
        bounds: of each graph.
    """

    guessed: list[Floats]
    measured: list[Floats]
    bounds: list[float]

    @property
    def errors(self) -> list[Floats]:
        """Of each graph, relative errors of the throughputs, as the paper has them."""
        pairs = zip(self.guessed, self.measured, strict=True)
        return [np.abs(measured / guessed - 1) for guessed, measured in pairs]

    @property
    def error(self) -> float:
        """The mean over all mappings."""
        return float(np.concatenate(self.errors).mean())

    @property
    def order(self) -> float:
        """Rank correlation of normalised throughputs over all mappings."""
        return spearman(
            *(
                np.concatenate([b / p for b, p in zip(self.bounds, periods, strict=True)])
                for periods in (self.guessed, self.measured)
            )
        )


def tested(
    data: MappingData, found: Mapping[str, Sequence[float]], chosen: Sequence[int]
) -> Tested:
    """Predictions on those of some graphs that have exact labels."""
    rows = [exact(graph) for graph in data.graphs]
    some = [k for k in chosen if rows[k].any()]
    return Tested(
        [np.array(found[str(k)]) for k in some],
        [data.graphs[k].period_cycles[rows[k]] for k in some],
        [data.graphs[k].bound_cycles for k in some],
    )


def difference(one: Tested, other: Tested) -> tuple[float, float, float]:
    """Error of one model less that of another, and its 95 % interval by bootstrap over graphs."""
    counts = np.array([len(errors) for errors in one.errors])
    pairs = zip(one.errors, other.errors, strict=True)
    sums = np.array([(mine - its).sum() for mine, its in pairs])
    picks = np.random.default_rng(0).integers(0, len(sums), (DRAWS, len(sums)))
    drawn = sums[picks].sum(axis=1) / counts[picks].sum(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(sums.sum() / counts.sum()), float(low), float(high)


def sections(data: MappingData, record: Mapping[str, Any]) -> dict[str, str]:
    """Tables and lists of the page by the name of their section."""
    found = record["guesses"]
    first = folds(len(data.graphs), FOLDS, data.seed)[0].tolist()
    return {
        "accuracy": accuracy_table(data, found),
        "differences": differences_list(data, found),
        "families": families_list(data, found),
        "parts": parts_list(data, found, first),
    }


def accuracy_table(data: MappingData, found: Mapping[str, Any]) -> str:
    """Each model on all blocks, and on those that nothing has learned from."""
    lines = [
        "| model | error | Spearman | within a block | error on 42 blocks |",
        "|---|---:|---:|---:|---:|",
        *(f"| {name} | {error:.3f} | {order:.3f} | | |" for name, (error, order) in PAPER.items()),
    ]
    for name in (*OTHERS[:2], WHOLE, *OTHERS[2:], FED):
        small = f"{tested(data, found[name], _held(data)).error:.3f}"
        if name == FED:
            lines.append(f"| {name} | | | | {small} |")
            continue
        row = tested(data, found[name], range(len(data.graphs)))
        within = figures_of(row.guessed, row.measured, row.bounds).within
        lines.append(f"| {name} | {row.error:.3f} | {row.order:.3f} | {within:.3f} | {small} |")
    return "\n".join(lines)


def differences_list(data: MappingData, found: Mapping[str, Any]) -> str:
    """Errors of the network less those of others, on the same mappings."""
    whole, held = range(len(data.graphs)), _held(data)
    lines: list[str] = []
    for name, some in (("heuristic", whole), ("round-trips", whole), ("ridge", whole), (FED, held)):
        middle, low, high = difference(*(tested(data, found[each], some) for each in (WHOLE, name)))
        text = f"{middle:+.3f} ({low:+.3f} to {high:+.3f})"
        lines.append(f"- {WHOLE} less `{name}`, {len(some)} blocks: {text}")
    return "\n".join(lines)


def _held(data: MappingData) -> list[int]:
    """Blocks that the recorded network has not learned from."""
    return folds(len(data.graphs), HELD_OUT, data.seed)[0].tolist()


def families_list(data: MappingData, found: Mapping[str, Any]) -> str:
    """Error and rank correlation by family of blocks."""
    lines: list[str] = []
    for family in dict.fromkeys(graph.family for graph in data.graphs):
        mine = [k for k, graph in enumerate(data.graphs) if graph.family == family]
        cells = {name: tested(data, found[name], mine) for name in (WHOLE, "ridge")}
        text = ", ".join(f"{name} {row.error:.3f} ({row.order:.3f})" for name, row in cells.items())
        if family in PAPER_FAMILIES:
            error, order = PAPER_FAMILIES[family]
            text += f", paper {error:.3f} ({order:.3f})"
        lines.append(f"- {family.upper()}: {text}")
    return "\n".join(lines)


def parts_list(data: MappingData, found: Mapping[str, Any], first: Sequence[int]) -> str:
    """Errors without a part of the inputs, and on a random split."""
    texts: list[str] = []
    for name in VARIANTS:
        row = tested(data, found[name], first)
        texts.append(f"{name}: {row.error:.3f} ({row.order:.3f})")
    parts = [rows[exact(graph)] == 0 for graph, rows in zip(data.graphs, _dealt(data), strict=True)]
    row = tested(data, found[RANDOM_SPLIT], range(len(data.graphs)))
    parts = [rows for rows in parts if len(rows)]
    errors = np.concatenate([e[rows] for e, rows in zip(row.errors, parts, strict=True)])
    speeds = [
        np.concatenate([b / p[rows] for b, p, rows in zip(row.bounds, periods, parts, strict=True)])
        for periods in (row.guessed, row.measured)
    ]
    texts.append(f"{RANDOM_SPLIT}, all blocks: {errors.mean():.3f} ({spearman(*speeds):.3f})")
    return "\n".join(f"- {text}" for text in texts)


if __name__ == "__main__":
    sys.exit(main())
