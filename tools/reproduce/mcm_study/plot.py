"""Plots of curves against samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hier_study.pictures import drawing_library, save_picture

COLOURS = {
    "random": "tab:gray",
    "sa": "tab:brown",
    "rl": "tab:blue",
    "rl-no-prior": "tab:cyan",
    "dp": "tab:red",
    "zero-shot": "tab:green",
    "fine-tuned": "tab:purple",
}


def plot(panels: Sequence[tuple[str, Mapping[str, Any], Sequence[str]]], path: Path) -> None:
    """Writes panels side by side: curves with their deviation, the portfolio and the bound.

    Args:
        panels: title, summary of a setting, and names of the methods to draw, of each panel.
        path: a PNG file.
    """
    pyplot = drawing_library()
    columns = min(len(panels), 2)
    lines = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(
        lines, columns, figsize=(5.6 * columns, 4.6 * lines), squeeze=False
    )
    for unused in axes.flat[len(panels) :]:
        unused.set_visible(False)
    for panel, (title, summary, methods) in zip(axes.flat, panels, strict=False):
        _draw(panel, summary, methods)
        panel.set_title(title, fontsize=10)
    figure.tight_layout()
    save_picture(figure, path)


def _draw(panel: Any, summary: Mapping[str, Any], methods: Sequence[str]) -> None:
    for name in methods:
        if name not in summary["methods"]:
            continue
        method = summary["methods"][name]
        found = [
            (count, mean, deviation)
            for count, (mean, deviation) in zip(method["counts"], method["curve"], strict=True)
            # Less is what stands for nothing valid yet.
            if mean > 0.1001
        ]
        if not found:
            panel.plot([], [], color=COLOURS.get(name), label=f"{method['label']}: nothing valid")
            continue
        counts, means, deviations = zip(*found, strict=True)
        colour = COLOURS.get(name)
        panel.plot(counts, means, color=colour, linewidth=1.3, label=method["label"])
        low = [mean - deviation for mean, deviation in zip(means, deviations, strict=True)]
        high = [mean + deviation for mean, deviation in zip(means, deviations, strict=True)]
        panel.fill_between(counts, low, high, color=colour, alpha=0.15, linewidth=0)
    classical = summary["classical_mean"]
    if classical is not None:
        panel.axhline(
            classical["improvement"], color="black", linewidth=1, label="classical portfolio"
        )
        panel.axhline(
            classical["bound"], color="black", linewidth=1, linestyle=":", label="proven bound"
        )
    panel.set_xscale("log")
    panel.set_xlabel("samples")
    panel.set_ylabel("throughput over the greedy heuristic's")
    panel.set_xlim(left=1)
    panel.set_ylim(bottom=0)
    # Below, where it covers no curve.
    panel.legend(
        fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False
    )
