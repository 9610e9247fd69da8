"""Plots of the studies of fabrics, from their records.

    pip install mcm-compiler[reproduce]
    python tools/reproduce/fabrics/lcm_plots.py
    python tools/reproduce/fabrics/lcm_plots.py --scatter DATA

Flows are drawn from the record. The scatter of guesses against measurements of a data set, such as
`tools/reproduce/data/fabric_measurements.npz`, needs matplotlib and one training of each fold, as
`lcm_accuracy.py` keeps them; missing ones are made.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lcm_placers
import numpy as np
from lcm_accuracy import Guesses, analytic_guesses, cross_fitted, network_guesses, ridge_guesses
from lcm_study.flow_table import compared
from lcm_study.fold_models import FoldModels
from lcm_study.graphs import read

# Drawing is shared by all studies.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from hier_study.pictures import drawing_library, save_picture
from mapping_network.layout import LearningSettings

from mcm_compiler.processes.one_thread import use_one_thread
from mcm_models.mapping_model.data_set import RANDOM, MappingData
from mcm_passes.families.fabric.learning.mapping_trainer import exact
from tools.readme_pictures import PLAIN, WIDTH, adaptive_picture, svg_text

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "results" / "images"
PLOTS = (IMAGES / "fabric_flows.svg", IMAGES / "fabric_guesses.png")
"""Written files."""

FORMULA, NETWORK = "tab:gray", "tab:blue"
"""Colours of what has no network, and of what has one."""

SHOWN = ("heuristic", "round-trips", "ridge", "gnn")
"""Models whose guesses are drawn."""


def main(argv: Sequence[str] | None = None) -> int:
    """Draws what is recorded, and the scatter where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scatter", type=Path, metavar="DATA", help="data set, for guesses")
    parser.add_argument("--work", type=Path, default=None, help="folder for weights of folds")
    parser.add_argument("--seed", type=int, default=0, help="of the trainings that are drawn")
    given = parser.parse_args(argv)
    flows, guessed = PLOTS
    flows.write_text(flows_picture(lcm_placers.recorded()), encoding="utf-8")
    if given.scatter is not None:
        use_one_thread()
        data = read(given.scatter)
        folder = given.work or given.scatter.with_name("folds")
        draw_guesses(drawing_library(), data, guesses_of_all(data, folder, given.seed), guessed)
    return 0


def flows_picture(rows: Sequence[dict[str, Any]]) -> str:
    """Periods of flows in 10 s over that of the best without a network, with 95 % intervals."""
    there, flows = lcm_placers.of_limit(rows, "short", "10 s")
    plain = lcm_placers.best_plain(there, flows)
    found = {row.flow: row for row in compared(there, [flow.name for flow in flows], plain)}
    shown = [found[name] for name in lcm_placers.SHOWN]
    refined = max(row.ratio for row in shown if row.flow.endswith("refined"))
    learned = {flow.name for flow in flows if flow.learned}
    left, right, top, step = 315, 60, 62, 26
    scale = (WIDTH - left - right) / np.log(max(row.high for row in shown))
    marks = [f'<path d="M{left} {top}V{top + step * len(shown)}" stroke="var(--line)"/>']
    for place, row in enumerate(shown):
        y = top + step * place + step // 2
        low, middle, high = (
            left + scale * float(np.log(v)) for v in (row.low, row.ratio, row.high)
        )
        colour = "var(--accent)" if row.flow in learned else "var(--soft)"
        marks += [
            svg_text(left - 16, y + 5, row.flow, PLAIN, "var(--ink)", anchor="end"),
            f'<path d="M{low:.1f} {y}H{high:.1f}" stroke="{colour}" stroke-width="3"/>',
            f'<circle cx="{middle:.1f}" cy="{y}" r="5" fill="{colour}"/>',
            svg_text(high + 10, y + 5, f"{row.ratio:.3f}", PLAIN, "var(--ink)"),
        ]
    return adaptive_picture(
        f"With refinement, every mapping model ends within {100 * (refined - 1):.1f} % of the best",
        "Simulated period over that of the best flow without a network, 10 s each, 24 blocks; "
        "95 % intervals; blue: with a network.",
        top + step * len(shown) + 8,
        marks,
    )


def guesses_of_all(data: MappingData, folder: Path, seed: int) -> dict[str, Guesses]:
    """Of each model that is shown, guesses for graphs that it has not learned from."""
    found = analytic_guesses(data)
    found["ridge"] = cross_fitted(data, ridge_guesses)
    found["gnn"] = network_guesses(FoldModels(data, LearningSettings(), folder), data, seed)
    return {name: found[name] for name in SHOWN}


def draw_guesses(pyplot: Any, data: MappingData, found: Mapping[str, Guesses], path: Path) -> None:
    """A panel for each model: throughputs over the bound, guessed against measured."""
    figure, axes = pyplot.subplots(
        1, len(found), figsize=(3.1 * len(found), 3.3), sharey=True, layout="constrained"
    )
    bounds = [graph.bound_cycles for graph in data.graphs]
    measured = [graph.period_cycles[exact(graph)] for graph in data.graphs]
    drawn = np.concatenate([graph.origin[exact(graph)] == RANDOM for graph in data.graphs])
    for panel, (name, guesses) in zip(axes, found.items(), strict=True):
        x, y = (
            np.concatenate([bound / some for bound, some in zip(bounds, periods, strict=True)])
            for periods in (measured, [guesses[k] for k in range(len(bounds))])
        )
        for rows, colour, label in ((drawn, FORMULA, "drawn"), (~drawn, NETWORK, "searched")):
            panel.scatter(x[rows], y[rows], s=3, alpha=0.35, linewidths=0, c=colour, label=label)
        panel.plot([0, 1], [0, 1], color="black", linewidth=0.6)
        panel.set_title(f"{name}: {np.mean(np.abs(x / y - 1)):.1%} off in the mean", fontsize=9)
        panel.set_xlabel("measured, over the bound")
    axes[0].set_ylabel("guessed, over the bound")
    axes[0].legend(fontsize=8, markerscale=3)
    save_picture(figure, path)


if __name__ == "__main__":
    sys.exit(main())
