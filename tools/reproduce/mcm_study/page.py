"""The page `docs/results/learned-search-results.md` and its plots, from the data files."""

from __future__ import annotations

import json
from pathlib import Path

from mcm_study.page_sections import Data, ablations, bert, head, test_graphs, without_solver
from mcm_study.plot import plot

PAGE = "learned-search-results.md"
NAMES = ("mcm_test_graphs", "mcm_bert", "mcm_without_solver", "mcm_ablations")
"""Of the data files, in the order of the page."""

WITH_PRIOR = (
    "random", "sa", "rl", "rl-published-prior", "prior", "zero-shot", "fine-tuned", "everything",
)  # fmt: skip
WITHOUT_PRIOR = (
    "random", "sa", "rl-no-prior", "rl-published", "zero-shot-no-prior", "fine-tuned-no-prior",
)  # fmt: skip


def render(data: dict[str, Data]) -> str:
    """The page from what data files hold, by name; what is not measured is left out."""
    sections = [head(data)]
    for name, section in (
        ("mcm_test_graphs", test_graphs),
        ("mcm_bert", bert),
        ("mcm_without_solver", without_solver),
        ("mcm_ablations", ablations),
    ):
        if name in data:
            sections.append(section(data[name]))
    return "\n".join(sections)


def read_data(folder: Path) -> dict[str, Data]:
    """The data files that there are, by name."""
    paths = {name: folder / f"{name}.json" for name in NAMES}
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if path.exists()
    }


def write_page(data_folder: Path, docs: Path) -> None:
    """Writes the page into a folder, and a plot for each of the data files that has curves."""
    data = read_data(data_folder)
    for name, found in data.items():
        if name in {"mcm_test_graphs", "mcm_bert"}:
            panels = [
                (f"{title}, {words}", summary, methods)
                for title, summary in found["panels"].items()
                for words, methods in (("with prior", WITH_PRIOR), ("without prior", WITHOUT_PRIOR))
            ]
            plot(panels, docs / "images" / f"{name}.png")
    (docs / PAGE).write_text(render(data), encoding="utf-8")
