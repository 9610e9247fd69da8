"""Learned search on the 16 test graphs: Fig. 5 and Table 2 of Xie et al. 2022 (MCM), on `mcm36`.

Random search, annealing as in the paper, reinforcement learning from scratch, the prior alone,
and the policies that come with the compiler, as they are and fine-tuned, against the classical
portfolio, and against the optimum or a bound close to it that a longer exact search proves.
Rewards are the fast model's, over the greedy heuristic's. Cells are kept in a file as they come,
and a later run measures those that are missing. `--update` writes
`tools/reproduce/data/mcm_test_graphs.json`, a plot (extra `reproduce`), and the page
`docs/results/learned-search-results.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from mcm_study.bars import all_levels, optimum_row, solved_graphs, test_graph_rows
from mcm_study.cells import Cell, Record, cells_of, graph_name
from mcm_study.classical import Exact
from mcm_study.command_line import parser_of, run_experiment
from mcm_study.curves import Panel
from mcm_study.methods import Method, standard_methods
from mcm_study.problems import Setting
from mcm_study.summary import panel_summary
from mcm_study.thresholds import samples_tables

from mcm_passes.families.ring.learning.training_problems import DEFAULT_DATA_SET, data_set

NAME = "mcm_test_graphs"
SHORT, LONG, SEEDS = 1000, 4000, 5


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = parser_of(__doc__, SEEDS)
    parser.add_argument("--short", type=int, default=SHORT, help=f"samples of some ({SHORT})")
    parser.add_argument("--long", type=int, default=LONG, help=f"samples of others ({LONG})")
    parser.add_argument("--graphs", type=int, default=16, help="only the first so many (16)")
    options = parser.parse_args(arguments)
    methods = standard_methods(options.short, options.long)
    return run_experiment(
        options,
        NAME,
        _cells(methods, data_set(DEFAULT_DATA_SET).test[: options.graphs], options.seeds),
        lambda found: _summarise(found, methods),
        f"--seeds {options.seeds} --short {options.short} --long {options.long} --update",
    )


def _cells(methods: Sequence[Method], models: Sequence[str], seeds: int) -> list[Cell]:
    cells: list[Cell] = []
    for model in models:
        setting = Setting(model)
        cells += cells_of("test graphs", graph_name(model), setting, methods, seeds)
        cells.append(Cell("test graphs", graph_name(model), setting, Exact(), 0))
    return cells


def _summarise(found: Sequence[tuple[Cell, Record]], methods: Sequence[Method]) -> dict[str, Any]:
    panel = Panel.of(found)
    common = panel.comparable()
    solved = panel.on(solved_graphs(panel))
    claim = "share of the exact optimum, {} graphs, 1,000 samples"
    of_solved = claim.format(f"the {len(solved.graphs)} solved")
    of_all = claim.format("all")
    return {
        "panels": {"test graphs": panel_summary(panel, {m.name: m.label for m in methods})},
        "thresholds": {
            mapping: samples_tables(common, levels)
            for mapping, levels in all_levels(common).items()
        },
        "bars": [
            *test_graph_rows(common),
            *(
                optimum_row(graphs, f"{words}, {text}", method, 1000, 0.95)
                for method, words in (("rl", "RL from scratch"), ("everything", "everything on"))
                for graphs, text in ((solved, of_solved), (panel, of_all))
            ),
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
