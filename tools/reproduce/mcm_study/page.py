"""The page `docs/results/learned-search-results.md`, its data file and plot, from recorded data."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from mcm_study.page_sections import (
    CLAIMS,
    Data,
    ablations,
    bert,
    head,
    reproduce,
    test_graphs,
    without_solver,
)
from mcm_study.plot import picture
from mcm_study.tables import in_terms

PAGE = "learned-search-results.md"
PICTURE = "mcm_test_graphs.svg"
SECTIONS = {
    "mcm_test_graphs": test_graphs,
    "mcm_bert": bert,
    "mcm_without_solver": without_solver,
    "mcm_ablations": ablations,
}
"""Of each data file, in the order of the page."""

DRAWN = ("random", "sa", "dp", "rl-no-prior", "rl", "zero-shot", "fine-tuned")


def render(data: dict[str, Data]) -> str:
    """The page from what data files hold, by name; what is not measured is left out."""
    sections = [section(data[name]) for name, section in SECTIONS.items() if name in data]
    return "\n".join([head(data), *sections, reproduce(data)])


def read_data(folder: Path) -> dict[str, Data]:
    """The data files that there are, by name."""
    paths = {name: folder / f"{name}.json" for name in SECTIONS}
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if path.exists()
    }


def write_page(data_folder: Path, docs: Path) -> None:
    """Write the page, the file of claims and the plot into a folder."""
    data = read_data(data_folder)
    summary = next(iter(data.get("mcm_test_graphs", {}).get("panels", {}).values()), None)
    if summary is not None and summary["classical_mean"] is not None:
        path = docs / "images" / PICTURE
        path.parent.mkdir(exist_ok=True)
        path.write_text(picture(summary, DRAWN), encoding="utf-8")
    write_claims(data, docs / "data" / CLAIMS)
    (docs / PAGE).write_text(render(data), encoding="utf-8")


def write_claims(data: dict[str, Data], path: Path) -> None:
    """Write all claims with their bars and what was measured, one a line."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("claim", "bar", "measured", "holds"))
        for found in data.values():
            for row in found["bars"]:
                holds = "" if row["bar"] == "none" else row["holds"]
                writer.writerow((in_terms(row["claim"]), row["bar"], row["measured"], holds))
