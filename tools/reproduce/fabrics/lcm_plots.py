"""Plots of the studies of fabrics, from their records.

python tools/reproduce/fabrics/lcm_plots.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lcm_placers
import numpy as np
from lcm_study.flow_table import compared

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tools.readme_pictures import PLAIN, SMALL, WIDTH, adaptive_picture, svg_text

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "results" / "images"
PLOTS = (IMAGES / "fabric_flows.svg", IMAGES / "fabric_errors.svg")
"""Written files."""

ACCURACY = Path(__file__).resolve().parents[1] / "data" / "lcm_accuracy.json"
"""Errors of models, as `lcm_accuracy.py` writes them."""

RANDOM, FORMULA = "random", "formula"
"""Origins of mappings in that record."""

SHOWN = ("heuristic", "round-trips", "ridge", "gnn")
"""Models whose errors are drawn."""


def main() -> int:
    """Draws what is recorded."""
    flows, errors = PLOTS
    flows.write_text(flows_picture(lcm_placers.recorded()), encoding="utf-8")
    errors.write_text(errors_picture(json.loads(ACCURACY.read_text("utf-8"))), encoding="utf-8")
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


def errors_picture(record: Mapping[str, Any]) -> str:
    """Mean relative errors of models on random and on searched mappings, as pairs of bars."""
    errors = {
        name: [
            float(np.mean([row["error"] for row in record["by_origin"][origin][name]]))
            for origin in (RANDOM, FORMULA)
        ]
        for name in SHOWN
    }
    formula, network = errors["round-trips"][1], errors["gnn"][1]
    left, top, step = 110, 62, 46
    scale = (WIDTH - left - 130) / max(map(max, errors.values()))
    marks: list[str] = []
    for place, (name, pair) in enumerate(errors.items()):
        y = top + step * place
        marks.append(svg_text(left - 14, y + 23, name, PLAIN, "var(--ink)", anchor="end"))
        for row, (error, what) in enumerate(zip(pair, ("random", "searched"), strict=True)):
            colour = ("var(--soft)", "var(--accent)")[row]
            length = scale * error
            marks += [
                f'<rect x="{left}" y="{y + 18 * row}" width="{length:.1f}" height="15" '
                f'fill="{colour}"/>',
                svg_text(
                    left + length + 8, y + 18 * row + 12, f"{error:.3f} {what}", SMALL, "var(--ink)"
                ),
            ]
    return adaptive_picture(
        f"On searched mappings the network has {network / formula:.2f} times the formula's error",
        "Mean relative error of predicted periods, on graphs that a model has not learned from.",
        top + step * len(errors) + 4,
        marks,
    )


if __name__ == "__main__":
    sys.exit(main())
