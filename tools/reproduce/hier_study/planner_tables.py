"""The section on planners of `docs/results/hierarchical-planner.md`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from hier_study.page import table
from hier_study.paper_graphs import GRAPHS

OURS = "hierarchical-groups"
"""Whose CPU seconds others get."""

EVALUATIONS = 1200
"""Placements that methods of the table have."""

Row = dict[str, Any]

_LEARNING = "local_search;logits{parts=8,start_weight=5,learning_rate=%s}"

AFTER_SEARCH = tuple(
    f'portfolio{{robust=false,members="{_LEARNING % rate}"}}' for rate in ("0.1", "0")
)
"""Local search with half of the evaluations, and learning from what it found; then the same without
updates."""

_NAMES = {
    "hierarchical": "`hierarchical`, as published",
    OURS: f"`{OURS}`, given groups",
    f"{OURS}{{learning_rate=0}}": "the same, without updates",
    "logits": "`logits`, a table in place of the network",
    "pretrained{policy=none,evaluations=1000000000}": "hill climbing over the groups",
    AFTER_SEARCH[0]: "half `local_search`, half `logits{parts=8}`",
    AFTER_SEARCH[1]: "the same, without updates ",
    "local_search": "`local_search`",
    "portfolio": "`portfolio`",
}
"""Methods of the table, in its order."""


def section(rows: Sequence[Row]) -> str:
    """One table: seconds over the expert's and CPU seconds of each method on each graph."""
    done = [row for row in rows if "failed" not in row and row["evaluations"] == EVALUATIONS]
    graphs = [g.name for g in GRAPHS if any(row["graph"] == g.name for row in done)]
    body = [
        [
            name,
            *(
                _cell([r for r in done if (r["graph"], r["method"]) == (graph, m)])
                for graph in graphs
            ),
        ]
        for m, name in _NAMES.items()
    ]
    seeds = max((row["seed"] for row in done), default=0) + 1
    text = (
        f"Seconds of the best of {EVALUATIONS:,} placements over the expert's, and CPU seconds in "
        f"brackets; means over up to {seeds} seeds.\n\n{table(['', *graphs], body)}"
    )
    failed = [row for row in rows if "failed" in row]
    return text + (f"\n\n{len(failed)} cells have no answer." if failed else "")


def _cell(rows: Sequence[Row]) -> str:
    if not rows:
        return "-"
    ratio = fmean(row["best_s"] / row["expert_s"] for row in rows)
    unfit = "" if all(row["best_fits"] for row in rows) else ", out of memory"
    return f"{ratio:.3f} ({fmean(row['cpu_s'] for row in rows):.0f}){unfit}"
