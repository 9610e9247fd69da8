"""What each part of a recipe is worth: one change at a time, on the five validation graphs.

Changed are the rounds of decoding, the sampler and its mode, the gradient, the credit, the layers,
the prior, the scores of single nodes, and, of the problem, clones and relays; the latter two on
BERT-large, too, since hardly any op of the others may be cloned. Test graphs are not looked at.
`--update` writes `tools/reproduce/data/mcm_ablations.json` and the page
`docs/results/learned-search-results.md`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from mcm_study.cells import Cell, Record, graph_name
from mcm_study.classical import Portfolio
from mcm_study.command_line import parser_of, run_experiment
from mcm_study.curves import Panel
from mcm_study.methods import Method, dp_method
from mcm_study.problems import Setting
from mcm_study.summary import panel_summary

from mcm_passes.families.ring.learning.recipes import RECIPES, Recipe
from mcm_passes.families.ring.learning.training_problems import DEFAULT_DATA_SET, data_set

NAME = "mcm_ablations"
SAMPLES, SEEDS = 1000, 5
NOTHING_LEARNED = "nothing learned"
BASES = ("default", "no-prior")
BERT = "zoo:bert-large{shape_only=true}"
ON_BERT = "rules and clones on BERT-large"


def changes(base: str) -> Iterator[tuple[str, Recipe, dict[str, Any]]]:
    """Each change of a recipe: its name, the changed recipe, and what changes in the setting."""
    recipe = RECIPES[base]

    def layout(**new: int) -> Recipe:
        return replace(recipe, layout=replace(recipe.layout, **new))

    yield "unchanged", recipe, {}
    yield "T = 2", layout(iterations=2), {}
    yield "T = 4", layout(iterations=4), {}
    fix = replace(recipe, sampler="engine", mode="fix")
    yield "engine, FIX, gradient on y'", fix, {}
    yield "engine, FIX, gradient on y", replace(fix, gradient="proposed"), {}
    yield "engine, SAMPLE, gradient on y'", replace(fix, mode="sample"), {}
    for credit in (0.0, 1.0, 3.0):
        yield f"credit {credit:g}", replace(recipe, credit=credit), {}
    for layers in (2, 4):
        yield f"{layers} layers", layout(layers=layers), {}
    if recipe.prior:
        yield "without prior", replace(recipe, prior=0.0), {}
    else:
        yield "with prior", replace(recipe, prior=1.0), {}
    windows = "all windows" if recipe.improving else "only windows that may improve"
    yield windows, replace(recipe, improving=not recipe.improving), {}
    still = replace(recipe.ppo, learning_rate=1e-12, node_scores=0.0)
    yield NOTHING_LEARNED, replace(recipe, ppo=still), {}
    yield "no scores of single nodes", replace(recipe, ppo=replace(recipe.ppo, node_scores=0.0)), {}
    yield "no relays: strict rule", recipe, {"routing": "strict"}
    yield "no clones", recipe, {"clones": False}


def rules() -> Iterator[tuple[str, Recipe, dict[str, Any]]]:
    """Both rules for long dependencies, with and without clones, and what learns nothing."""
    for routing, relays in (("relay", "relays"), ("strict", "no relays")):
        for clones, words in ((True, "clones"), (False, "no clones")):
            changed = {"routing": routing, "clones": clones}
            yield f"{relays}, {words}", RECIPES["default"], changed
    recipe = RECIPES["default"]
    yield NOTHING_LEARNED, replace(recipe, ppo=replace(recipe.ppo, learning_rate=0.0)), {}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = parser_of(__doc__, SEEDS)
    parser.add_argument("--samples", type=int, default=SAMPLES, help=f"of each ({SAMPLES})")
    parser.add_argument("--graphs", type=int, default=5, help="only the first so many (5)")
    options = parser.parse_args(arguments)
    models = data_set(DEFAULT_DATA_SET).validation[: options.graphs]
    cells: list[Cell] = []
    for base in BASES:
        cells += _cells(f"changes to `{base}`", models, list(changes(base)), options)
    cells += _cells(ON_BERT, [BERT], list(rules()), options)
    command = f"--seeds {options.seeds} --samples {options.samples} --update"
    return run_experiment(options, NAME, cells, _summarise, command)


def _cells(
    experiment: str,
    models: Sequence[str],
    changed: Sequence[tuple[str, Recipe, dict[str, Any]]],
    options: argparse.Namespace,
) -> list[Cell]:
    cells: list[Cell] = []
    for model in models:
        graph = graph_name(model)
        setting = Setting(model)
        cells.append(Cell(experiment, graph, setting, Portfolio(), 0))
        classical = dp_method(options.samples)
        cells += [Cell(experiment, graph, setting, classical, s) for s in range(options.seeds)]
        for name, recipe, elsewhere in changed:
            method = Method(name, name, "learn", options.samples, "random", recipe)
            where = replace(setting, **elsewhere)
            cells += [Cell(experiment, graph, where, method, s) for s in range(options.seeds)]
    return cells


def _summarise(found: Sequence[tuple[Cell, Record]]) -> dict[str, Any]:
    panels: dict[str, Any] = {}
    for experiment in dict.fromkeys(cell.experiment for cell, _ in found):
        ours = [(cell, record) for cell, record in found if cell.experiment == experiment]
        names = {cell.method_name: cell.method_name for cell, _ in ours}
        panels[experiment] = panel_summary(Panel.of(ours), names)
    return {"panels": panels, "bars": []}


if __name__ == "__main__":
    sys.exit(main())
