"""Errors of the network of mappings without each of its parts, and on blocks beyond its sizes.

    python tools/reproduce/fabrics/lcm_ablations.py tools/reproduce/data/fabric_measurements.npz

A part is left out of training and of answers: columns of what it sees become 0, or a loss has no
weight. (What a round of measuring brings is in `docs/explanation/learned-mapping.md`; the data set
has none of it.) Folds are those of `lcm_accuracy.py`. Answers are the network's own, without the
threshold below which mappers leave the formula as it is, so that figures differ a little from
there. Last, it learns from blocks of up to so many units and is asked about larger ones, with
with formula and ridge on the same blocks; the largest are those of `lcm_large_blocks.py`.

Each row is written as soon as it is done; rows that are there are not made again. `--page` writes
the errors into `docs/results/fabrics.md`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lcm_accuracy import FOLDS, LAYOUT, Guesses, analytic_guesses, figures, ridge_guesses
from lcm_large_blocks import ABOVE
from lcm_large_blocks import OUT as LARGE_BLOCKS
from lcm_study.graphs import read
from lcm_study.tables import between_marks
from mapping_network.graphs import GraphShape, MappingGraph, padded
from mapping_network.layout import GLOBAL_COLUMNS, LearningSettings, Weights, initial_weights
from mapping_network.rounds import seen_graphs
from mapping_network.training import SeenGraph, answers, fresh_state, learn

from mcm_compiler.arrays.types import Floats
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.processes.staging import write_whole
from mcm_models.mapping_model.data_set import MappingData
from mcm_models.mapping_model.figures import folds
from mcm_passes.families.fabric.learning.mapping_trainer import exact, judged

ROOT = Path(__file__).resolve().parents[3]
RECORD = ROOT / "tools" / "reproduce" / "data" / "lcm_ablations.json"
PAGE = ROOT / "docs" / "results" / "fabrics.md"

SIZES = ((30, 45), (40, 55), (55, 75))
"""Units of the largest block that is learned from, and that blocks that are asked about exceed."""

_TIMES = slice(0, GLOBAL_COLUMNS.index("logarithm of the bound in cycles, over 10"))
"""Columns of the whole that formulas say."""

ASKED = ("round-trips", "ridge", "gnn")
"""Models whose errors on larger blocks the page has."""

Masks = Callable[[MappingGraph], MappingGraph]


def _as_it_is(graph: MappingGraph) -> MappingGraph:
    return graph


def _no_edges(graph: MappingGraph) -> MappingGraph:
    nothing = np.zeros_like
    return graph._replace(
        branches=nothing(graph.branches),
        links=nothing(graph.links),
        pair_weight=nothing(graph.pair_weight),
    )


def _no_nodes(graph: MappingGraph) -> MappingGraph:
    return graph._replace(op=np.zeros_like(graph.op), units=np.zeros_like(graph.units))


def _no_ops(graph: MappingGraph) -> MappingGraph:
    return graph._replace(op=np.zeros_like(graph.op))


def _no_annotations(graph: MappingGraph) -> MappingGraph:
    """Neither times nor loads: which units there are, of which op, and which talk to each other."""
    nothing = np.zeros_like
    return graph._replace(
        units=nothing(graph.units), branches=nothing(graph.branches), links=nothing(graph.links)
    )


def _no_formula(graph: MappingGraph) -> MappingGraph:
    whole = graph.whole.copy()
    whole[_TIMES] = 0.0
    return graph._replace(whole=whole)


@dataclass(frozen=True)
class Variant:
    """A network that lacks something.

    Attributes:
        masks: what it does not see.
        settings: changes of how it learns.
    """

    masks: Masks = _as_it_is
    settings: dict[str, float] = dataclasses.field(default_factory=dict[str, float])


VARIANTS = {
    "whole": Variant(),
    "no edges": Variant(_no_edges),
    "no nodes": Variant(_no_nodes),
    "no op embedding": Variant(_no_ops),
    "no performance annotations": Variant(_no_annotations),
    "no formula": Variant(_no_formula),
    "no ranking loss": Variant(settings={"ranking": 0.0}),
}


def seen_by(variant: Variant, seen: Sequence[SeenGraph]) -> list[SeenGraph]:
    """Graphs as a variant sees them."""
    return [
        dataclasses.replace(graph, mappings=[variant.masks(mapping) for mapping in graph.mappings])
        for graph in seen
    ]


def learned(
    variant: Variant, known: Sequence[SeenGraph], beside: Sequence[SeenGraph], seed: int
) -> Weights:
    """Weights of a training."""
    settings = dataclasses.replace(LearningSettings(), **variant.settings)
    state = fresh_state(settings, initial_weights(LAYOUT, seed))
    return learn(LAYOUT, settings, state, known, seed, lambda _, __: None, beside).weights


def answered(weights: Weights, data: MappingData, seen: Sequence[SeenGraph], k: int) -> Floats:
    """Periods of the mappings of a graph whose labels are exact; never below the bound."""
    graph = data.graphs[k]
    chosen = [seen[k].mappings[i] for i in np.flatnonzero(exact(graph)).tolist()]
    if not chosen:
        return np.empty(0)
    # Few shapes: each is a program.
    shape = GraphShape(*(-(-size // 64) * 64 for size in seen[k].shape))
    filled = [chosen[i % len(chosen)] for i in range(-(-len(chosen) // 16) * 16)]
    out = np.asarray(answers(LAYOUT, weights, padded(filled, shape)))[: len(chosen), 0]
    return graph.bound_cycles * np.exp(np.clip(out.astype(np.float64), 0.0, 10.0))


def by_folds(
    variant: Variant, data: MappingData, seen: Sequence[SeenGraph], seed: int, count: int
) -> Guesses:
    """Guesses for each graph of the first folds of a network that has not seen it."""
    mine = seen_by(variant, seen)
    found: Guesses = {}
    for held in folds(len(data.graphs), FOLDS, data.seed)[:count]:
        inside = set(held.tolist())
        known = [graph for k, graph in enumerate(mine) if k not in inside]
        weights = learned(variant, known, [mine[k] for k in held.tolist()], seed)
        found |= {k: answered(weights, data, mine, k) for k in held.tolist()}
    return found


def beyond(
    data: MappingData, seen: Sequence[SeenGraph], sizes: tuple[int, int], seeds: range
) -> dict[str, list[dict[str, float]]]:
    """Figures on blocks larger than those that were learned from, of trainings with some seeds."""
    most, above = sizes
    if above >= ABOVE:
        more = read(LARGE_BLOCKS).graphs
        data = dataclasses.replace(data, graphs=(*data.graphs, *more))
        seen = [*seen, *seen_graphs(data.fabric, more)]
    units = np.array([len(graph.problem.kind) for graph in data.graphs])
    small, large = np.flatnonzero(units <= most), np.flatnonzero(units > above)
    asked = [data.graphs[k] for k in large.tolist()]
    known = [data.graphs[k] for k in small.tolist()]
    inside = dataclasses.replace(data, graphs=tuple(asked))
    rows = {name: [figures(found, asked)] for name, found in analytic_guesses(inside).items()}
    rows["ridge"] = [judged(ridge_guesses(data.fabric, known, asked), asked)]
    rows["gnn"] = []
    for seed in seeds:
        weights = learned(VARIANTS["whole"], [seen[k] for k in small.tolist()],
                          [seen[k] for k in large.tolist()], seed)  # fmt: skip
        found = [answered(weights, data, seen, k) for k in large.tolist()]
        rows["gnn"].append(judged(found, asked))
    return {name: [dataclasses.asdict(row) for row in found] for name, found in rows.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Makes the rows that are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="data set, or folder of parts of one")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each network")
    parser.add_argument("--folds", type=int, default=FOLDS, help="of them are asked about")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--output", type=Path, default=RECORD)
    parser.add_argument("--page", action="store_true", help="write the errors, run nothing")
    given = parser.parse_args(argv)
    record: dict[str, Any] = (
        json.loads(given.output.read_text())
        if given.output.exists()
        else {"rows": {}, "sizes": {}, "folds": given.folds}
    )
    if given.page:
        write_page(record)
        return 0
    if record["folds"] != given.folds:
        parser.error(f"{given.output} has rows of {record['folds']} folds")
    use_one_thread()
    data = read(given.data)
    seen = seen_graphs(data.fabric, data.graphs)
    record |= {"graphs": len(data.graphs), "learned": dataclasses.asdict(data.learned)}

    def keep(kind: str, name: str, rows: object, began: float) -> None:
        spent = time.process_time() - began
        record[kind][name] = rows
        all_spent = record.setdefault("cpu_s", {})
        all_spent[name] = round(all_spent.get(name, 0.0) + spent, 1)
        write_whole(given.output, (json.dumps(record, indent=1, sort_keys=True) + "\n").encode())
        print(f"{name}: {spent:.0f} CPU-s", flush=True)

    for sizes in SIZES:
        name = f"up to {sizes[0]} units, asked above {sizes[1]}"
        done = record["sizes"].get(name, {"gnn": []})["gnn"]
        if len(done) < given.seeds:
            began = time.process_time()
            rows = beyond(data, seen, sizes, range(len(done), given.seeds))
            keep("sizes", name, rows | {"gnn": [*done, *rows["gnn"]]}, began)
    for name in filter(None, given.variants.split(",")):
        done = record["rows"].get(name, [])
        for seed in range(len(done), given.seeds):
            began = time.process_time()
            guessed = by_folds(VARIANTS[name], data, seen, seed, given.folds)
            asked = [data.graphs[k] for k in guessed]
            done = [*done, dataclasses.asdict(judged(list(guessed.values()), asked))]
            keep("rows", name, done, began)
    return 0


def write_page(record: dict[str, Any]) -> None:
    """Writes the errors into the page."""
    lines = [f"- one fold: {_errors({name: record['rows'][name] for name in VARIANTS})}"]
    for name, found in record["sizes"].items():
        lines.append(f"- {name}: {_errors({model: found[model] for model in ASKED})}")
    write_whole(PAGE, between_marks(PAGE.read_text(), "ablations", "\n".join(lines)).encode())


def _errors(rows: dict[str, list[dict[str, float]]]) -> str:
    """Mean errors of trainings by name."""
    means = {name: np.mean([row["error"] for row in found]) for name, found in rows.items()}
    return ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())


if __name__ == "__main__":
    sys.exit(main())
