"""Reinforcement learning without the constraint solver: what Xie et al. 2022 (MCM) start from.

On four of the 16 test graphs the policy's proposals are taken as they are, and what is not valid
earns nothing. The paper finds that nothing valid is ever found; so the published recipe is run,
and with the prior, which proposes chips in the order of the graph. `--update` writes
`tools/reproduce/data/mcm_without_solver.json` and `docs/results/learned-search-results.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from mcm_study.bars import row
from mcm_study.cells import Cell, Record, graph_name
from mcm_study.command_line import parser_of, run_experiment
from mcm_study.methods import Method
from mcm_study.problems import Setting
from mcm_study.proposals import measure_proposals

from mcm_passes.families.ring.learning.recipes import RECIPES
from mcm_passes.families.ring.learning.training_problems import DEFAULT_DATA_SET, data_set

NAME = "mcm_without_solver"
SAMPLES, SEEDS = 4000, 2
EVERY = 4
"""Of so many test graphs one is taken."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = parser_of(__doc__, SEEDS)
    parser.add_argument("--samples", type=int, default=SAMPLES, help=f"of each ({SAMPLES})")
    options = parser.parse_args(arguments)
    methods = [
        Method(name, name, "learn", options.samples, "random", RECIPES[name])
        for name in ("published", "published-prior")
    ]
    cells = [
        Cell("without solver", graph_name(model), Setting(model), m, s)
        for model in data_set(DEFAULT_DATA_SET).test[::EVERY]
        for m in methods
        for s in range(options.seeds)
    ]
    command = f"--seeds {options.seeds} --samples {options.samples} --update"
    return run_experiment(options, NAME, cells, _summarise, command, measure_proposals)


def _summarise(found: Sequence[tuple[Cell, Record]]) -> dict[str, Any]:
    by_run: dict[tuple[str, str], list[Record]] = {}
    for cell, record in found:
        by_run.setdefault((cell.graph, cell.method_name), []).append(record)
    rows = [
        {
            "graph": graph,
            "recipe": recipe,
            "nodes": records[0]["nodes"],
            "dependencies": records[0]["dependencies"],
            "seeds": len(records),
            "samples": sum(record["samples"] for record in records),
            "valid": sum(record["valid"] for record in records),
            "backward_first": sum(r["backward_first"] for r in records) / len(records),
            "backward_last": sum(r["backward_last"] for r in records) / len(records),
        }
        for (graph, recipe), records in by_run.items()
    ]
    return {"rows": rows, "bars": [_bar(rows, name) for name in ("published", "published-prior")]}


def _bar(rows: Sequence[dict[str, Any]], recipe: str) -> dict[str, Any]:
    ours = [r for r in rows if r["recipe"] == recipe]
    claim = f"recipe `{recipe}` without the solver finds nothing valid"
    if not ours:
        return row(claim, "0 valid", "not measured", None)
    valid, samples = (sum(r[name] for r in ours) for name in ("valid", "samples"))
    return row(claim, "0 valid", f"{valid} of {samples:,}", valid == 0)


if __name__ == "__main__":
    sys.exit(main())
