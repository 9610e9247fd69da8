"""Plots of the studies of fabrics, from their records.

    pip install mcm-compiler[reproduce]
    python tools/reproduce/fabrics/lcm_plots.py
    python tools/reproduce/fabrics/lcm_plots.py --scatter DATA

Flows are drawn from the record. The scatter of guesses against measurements,
of a data set such as `tools/reproduce/data/fabric_measurements.npz`, needs one training of each
fold, as `lcm_accuracy.py` keeps them; those that are missing are made.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lcm_placers
import numpy as np
from lcm_accuracy import (
    Guesses,
    analytic_guesses,
    cross_fitted,
    network_guesses,
    ridge_guesses,
)
from lcm_study.flow_table import Compared, compared
from lcm_study.fold_models import FoldModels
from lcm_study.graphs import read

# What draws is shared by all studies.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hier_study.pictures import drawing_library, save_picture
from mapping_network.layout import LearningSettings

from mcm_compiler.processes.one_thread import use_one_thread
from mcm_models.mapping_model.data_set import RANDOM, MappingData
from mcm_passes.families.fabric.learning.mapping_trainer import exact

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "results" / "images"
PLOTS = tuple(IMAGES / f"fabric_{name}.png" for name in ("flows", "guesses"))
"""What is written."""

FORMULA, NETWORK = "tab:gray", "tab:blue"
"""Colours of what has no network, and of what has one."""

LIMITS = (("short", "1 s"), ("short", "10 s"), ("long", "10 s"))
"""Kinds of blocks and limits that are drawn."""

TICKS = (1.0, 1.1, 1.2, 1.4, 1.6, 1.8)
"""Ratios of periods that are written at the axis."""

SHOWN = ("heuristic", "round-trips", "ridge", "gnn")
"""Models whose guesses are drawn."""


def main(argv: Sequence[str] | None = None) -> int:
    """Draws what is recorded, and the scatter where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scatter", type=Path, metavar="DATA", help="data set, for guesses")
    parser.add_argument("--work", type=Path, default=None, help="folder for weights of folds")
    parser.add_argument("--seed", type=int, default=0, help="of the trainings that are drawn")
    given = parser.parse_args(argv)
    pyplot = drawing_library()
    flows, guessed = PLOTS
    draw_flows(pyplot, flow_panels(lcm_placers.recorded()), flows)
    if given.scatter is not None:
        use_one_thread()
        data = read(given.scatter)
        folder = given.work or given.scatter.with_name("folds")
        draw_guesses(pyplot, data, guesses_of_all(data, folder, given.seed), guessed)
    return 0


def flow_panels(rows: Sequence[dict[str, Any]]) -> dict[str, list[Compared]]:
    """By title, flows beside the best without a network, on the cells that all have been run on."""
    panels: dict[str, list[Compared]] = {}
    for kind, limit in LIMITS:
        there, flows = lcm_placers.of_limit(rows, kind, limit)
        if not there:
            continue
        names = [flow.name for flow in flows]
        plain = lcm_placers.best_plain(there, flows)
        panels[f"{limit}, {kind} blocks, over {plain}"] = compared(there, names, plain)
    return panels


def draw_flows(pyplot: Any, panels: Mapping[str, Sequence[Compared]], path: Path) -> None:
    """A panel for each limit: ratios of periods with their 95 % intervals."""
    learned = {flow.name for flow in lcm_placers.FLOWS if flow.learned}
    heights = [len(rows) + 2 for rows in panels.values()]
    figure, axes = pyplot.subplots(
        len(panels),
        1,
        figsize=(7.5, 0.27 * sum(heights)),
        height_ratios=heights,
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    for panel, (title, rows) in zip(axes.flat, panels.items(), strict=True):
        for place, row in enumerate(reversed(rows)):
            colour = NETWORK if row.flow in learned else FORMULA
            panel.plot([row.low, row.high], [place, place], color=colour, linewidth=1.5)
            panel.plot([row.ratio], [place], "o", color=colour, markersize=4)
        panel.set_yticks(range(len(rows)), [row.flow for row in reversed(rows)], fontsize=8)
        panel.axvline(1.0, color="black", linewidth=0.6)
        panel.set_title(title, fontsize=9)
        panel.set_xscale("log")
        panel.set_xticks(TICKS, [f"{tick:.1f}" for tick in TICKS])
        panel.minorticks_off()
    axes.flat[-1].set_xlabel("measured period, geometric mean over blocks; 95 % interval")
    save_picture(figure, path)


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
