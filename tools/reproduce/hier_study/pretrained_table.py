"""The table of the pre-trained placer after 100 placements, beside searches with 4,000."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from hier_study.page import table
from mcm_models.cluster_policy.policy_file import load_placement_policy
from mcm_passes.families.box.learning.pretraining.placement_trainer import POLICY_NAME

FEW, MANY = 100, 4000
"""Placements of the placer, and of the searches that it is held against."""

PARTS = (0, 1)
"""Into which the placer divides clusters; the first are whole ones."""

RIVALS = (
    ("local_search{robust=false}", FEW),
    ("local_search{robust=false}", MANY),
    ("portfolio{robust=false}", MANY),
)
"""They tell about one order of queues, as the placer does."""

Row = dict[str, Any]


def cells(folders: Sequence[Path]) -> Iterator[tuple[str, str, int]]:
    """Name without paths, text and placements of each method; the control among them.

    The control is the same search without a policy, over the same pieces.

    Args:
        folders: of trainings.
    """
    for name, policy in policies(folders).items():
        for parts in PARTS:
            text = f"pretrained{{{policy},parts={parts},evaluations={FEW}}}"
            yield f"{name}, {'pieces' if parts else 'clusters'}", text, FEW
    for method, evaluations in RIVALS:
        yield method, method, evaluations


def policies(folders: Sequence[Path]) -> dict[str, str]:
    """Text of each policy's placer without options of the search, by name."""
    found = {"no policy": "policy=none"}
    for folder in folders:
        path = folder / POLICY_NAME
        card = load_placement_policy(path)[1]
        found[f"policy of seed {card.trained_on['seed']}"] = f'policy="{path}"'
    return found


def section(rows: Sequence[Row]) -> str:
    """A table with a column for each graph; means over seeds, over the best of 4,000."""
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    names = dict.fromkeys((row["method"], row["evaluations"]) for row in rows)
    body = [
        [f"{_named(name)}, {count:,}", *(_cell(rows, graph, name, count) for graph in graphs)]
        for name, count in names
    ]
    return (
        "Seconds over the expert's, means over seeds of the search, and in brackets over "
        f"`portfolio` with {MANY:,} placements:\n\n{table(['', *graphs], body)}"
    )


def _named(method: str) -> str:
    return f"`{method.partition('{')[0]}`" if "robust" in method else method


def _cell(rows: Sequence[Row], graph: str, method: str, evaluations: int) -> str:
    mine = [
        row["best_s"] / row["expert_s"]
        for row in rows
        if (row["graph"], row["method"], row["evaluations"]) == (graph, method, evaluations)
    ]
    best = [
        row["best_s"] / row["expert_s"]
        for row in rows
        if (row["graph"], row["evaluations"]) == (graph, MANY) and "portfolio" in row["method"]
    ]
    return f"{fmean(mine):.3f} ({fmean(mine) / fmean(best):.2f})" if mine and best else "-"
