"""Tables of figures of mapping models, and where they stand on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

HEADS = {
    "error": "RE",
    "spearman": "Spearman",
    "within": "within a graph",
    "better_half": "better half",
    "regret": "top-1 regret",
    "pairs": "pairs in order",
}
"""Headings of figures; see `mcm_models.mapping_model.figures.Figures`."""


def figures_table(first: str, rows: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """In Markdown; of several trainings the mean, and half the distance of the extremes.

    Args:
        first: heading of the names.
        rows: of each name, figures of its trainings.
    """
    lines = [f"| {first} | {' | '.join(HEADS.values())} |", "|---" + "|---:" * len(HEADS) + "|"]
    for name, found in rows.items():
        cells = [_cell([row[figure] for row in found]) for figure in HEADS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    mean = f"{np.mean(values):.3f}"
    return mean if len(values) == 1 else f"{mean} ± {(max(values) - min(values)) / 2:.3f}"


def between_marks(page: str, name: str, text: str) -> str:
    """A page with a text between the marks of a section.

    Raises:
        ValueError: if the page has no such marks.
    """
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    head, found, rest = page.partition(begin)
    _, ended, tail = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the page has no section {name}")
    return f"{head}{begin}\n{text}\n\n{end}{tail}"
