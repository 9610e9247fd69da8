"""Learned search on BERT-large: Fig. 6 and Table 3 of Xie et al. 2022 (MCM), on `mcm36`.

The paper's two kinds of rewards: the fast model's, and those of the simulator in place of hardware.
BERT-large's embedding fills 59.6 of a chip's 64 MiB, so that random search finds nothing that fits;
the same is therefore measured on chips with 1 GiB, too. Policies were trained on graphs of tens to
hundreds of ops without attention, and BERT-large is what they transfer to. `--update` writes
`tools/reproduce/data/mcm_bert.json`, a plot (extra `reproduce`), and the page
`docs/results/learned-search-results.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from mcm_study.bars import bert_rows
from mcm_study.cells import Cell, Record, cells_of
from mcm_study.command_line import parser_of, run_experiment
from mcm_study.curves import Panel
from mcm_study.methods import Method, standard_methods
from mcm_study.problems import Measure, Setting
from mcm_study.summary import panel_summary
from mcm_study.thresholds import TABLE_3_RL, levels_of_curve, samples_tables

NAME = "mcm_bert"
MODEL = "zoo:bert-large{shape_only=true}"
SAMPLES, SEEDS = 800, 5
MEASURES: dict[Measure, str] = {"fast": "fast model", "judge": "judge"}
PACKAGES = {False: "mcm36", True: "mcm36 with 1 GiB"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = parser_of(__doc__, SEEDS)
    parser.add_argument("--samples", type=int, default=SAMPLES, help=f"of each ({SAMPLES})")
    options = parser.parse_args(arguments)
    methods = standard_methods(options.samples, options.samples)
    return run_experiment(
        options,
        NAME,
        _cells(methods, options.seeds),
        lambda found: _summarise(found, methods),
        f"--seeds {options.seeds} --samples {options.samples} --update",
    )


def _cells(methods: Sequence[Method], seeds: int) -> list[Cell]:
    cells: list[Cell] = []
    for roomy, package in PACKAGES.items():
        for measure, words in MEASURES.items():
            graph = f"{package}, {words}"
            setting = Setting(MODEL, measure=measure, roomy=roomy)
            cells += cells_of("bert-large", graph, setting, methods, seeds)
    return cells


def _summarise(found: Sequence[tuple[Cell, Record]], methods: Sequence[Method]) -> dict[str, Any]:
    whole = Panel.of(found)
    panels = {graph: whole.on([graph]) for graph in whole.graphs}
    labels = {method.name: method.label for method in methods}
    bars: list[dict[str, Any]] = []
    for package in PACKAGES.values():
        for words in MEASURES.values():
            panel = panels.get(f"{package}, {words}")
            if panel is not None:
                bars += bert_rows(panel, words, package)
    return {
        "panels": {graph: panel_summary(panel, labels) for graph, panel in panels.items()},
        "thresholds": {graph: _thresholds(panel) for graph, panel in panels.items()},
        "bars": bars,
    }


def _thresholds(panel: Panel) -> list[dict[str, Any]]:
    """Samples to where RL from scratch is after as many as in the paper's Table 3."""
    if "rl" not in panel.methods:
        return []
    scratch = panel.curves("rl").mean(axis=0)
    return samples_tables(panel, levels_of_curve(scratch, TABLE_3_RL))


if __name__ == "__main__":
    sys.exit(main())
