"""The tables of the pre-trained placer after 100 placements, beside searches with 4,000."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from hier_study.page import table
from mcm_models.cluster_policy.layout import PLACEMENT_POLICIES
from mcm_passes.families.box.learning.placement_trainer import POLICY_NAME

FEW, MANY = 100, 4000
"""Placements of the placer, and of the searches that it is held against."""

SEARCHES = {"coarse step": "parts=1,coarse=4000"}
"""Options of the placer: with as many placements of a coarse step as searches have of the whole
one. Records also have searches over whole clusters and over pieces of them without a coarse step,
which were behind on each graph and have left the compiler."""

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
        for search, options in SEARCHES.items():
            text = f"pretrained{{{policy},{options},evaluations={FEW}}}"
            yield f"{name}, {search}", text, FEW
    for method, evaluations in RIVALS:
        yield method, method, evaluations


def policies(folders: Sequence[Path]) -> dict[str, str]:
    """Text of each policy's placer without options of the search, by name."""
    found = {"no policy": "policy=none"}
    for folder in folders:
        path = folder / POLICY_NAME
        card = PLACEMENT_POLICIES.load(path)[1]
        found[f"policy of seed {card.trained_on['seed']}"] = f'policy="{path}"'
    return found


def section(rows: Sequence[Row]) -> str:
    """A table with a column for each graph, of means over seeds: seconds, and CPU seconds."""
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    names = sorted(
        dict.fromkeys((row["method"], row["evaluations"]) for row in rows), key=_place_in_table
    )
    shown = [one for one in names if "clusters" not in one[0] and "pieces" not in one[0]]
    body = [
        [f"{_named(name)}, {count:,}", *(_cell(rows, graph, name, count) for graph in graphs)]
        for name, count in shown
    ]
    return (
        "Seconds over the expert's, means over seeds of the search, and CPU seconds in brackets, "
        f"to which a coarse step's {MANY:,} placements belong:\n\n{table(['', *graphs], body)}"
    )


def _place_in_table(name: tuple[str, int]) -> tuple[bool, str, int]:
    """Policies in order, the control first; rivals behind."""
    method, evaluations = name
    policy, _, search = method.partition(", ")
    if search not in SEARCHES:
        return True, method, evaluations
    return False, policy, evaluations


def _named(method: str) -> str:
    return f"`{method.partition('{')[0]}`" if "robust" in method else method


def _cell(rows: Sequence[Row], graph: str, method: str, evaluations: int) -> str:
    found = _found(rows, graph, method, evaluations)
    if not found:
        return "-"
    ratio = fmean(row["best_s"] / row["expert_s"] for row in found)
    return f"{ratio:.3f} ({fmean(row['cpu_s'] for row in found):.1f})"


def _found(rows: Sequence[Row], graph: str, method: str, evaluations: int) -> list[Row]:
    key = (graph, method, evaluations)
    return [row for row in rows if (row["graph"], row["method"], row["evaluations"]) == key]
