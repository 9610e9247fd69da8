"""The picture of throughput against samples."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Pictures are drawn as those of the README.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from tools.readme_pictures import SMALL, WIDTH, adaptive_picture, svg_text

COLOURS = {
    "random": "var(--soft)",
    "sa": "#9a6700",
    "rl": "#0969da",
    "rl-no-prior": "#1b9aaa",
    "dp": "#cf222e",
    "zero-shot": "#2da44e",
    "fine-tuned": "#8250df",
}
"""By method; each is legible on light and on dark pages."""

TITLE = "dp reaches its end after 6 partitions, RL after 1,000"
VALID = 0.1001
"""Means up to here stand for searches without a valid partition."""

LEFT, RIGHT, TOP, BOTTOM = 60, 200, 66, 380
LABEL = 15
"""Height of a label."""


def picture(summary: Mapping[str, Any], methods: Sequence[str]) -> str:
    """Curves of methods with their labels, the classical portfolio and the proven bound."""
    found = {name: summary["methods"][name] for name in methods if name in summary["methods"]}
    lines = {"classical portfolio": "improvement", "proven bound": "bound"}
    heights = {text: summary["classical_mean"][key] for text, key in lines.items()}
    most = max(count for method in found.values() for count in method["counts"])
    top = 1.05 * max(heights.values())

    def place(count: float, mean: float) -> tuple[float, float]:
        share = math.log(count) / math.log(most)
        return LEFT + (WIDTH - LEFT - RIGHT) * share, BOTTOM - (BOTTOM - TOP) * mean / top

    right = WIDTH - RIGHT
    marks = [f'<path d="M{LEFT} {TOP}V{BOTTOM}H{right}" stroke="var(--line)" fill="none"/>']
    for count in (1, 10, 100, 1000):
        x = place(count, 0)[0]
        label = f"{count:,}"
        marks.append(svg_text(x, BOTTOM + 18, label, SMALL, "var(--soft)", anchor="middle"))
    for mean in (0.5, 1.0):
        y = place(1, mean)[1]
        marks.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="var(--line)"/>')
        marks.append(svg_text(LEFT - 8, y + 4, f"{mean:g}", SMALL, "var(--soft)", anchor="end"))
    ends = [(place(1, mean)[1], text, "var(--ink)") for text, mean in heights.items()]
    marks += [f'<path d="M{LEFT} {y:.1f}H{right}" stroke="var(--ink)"/>' for y, _, _ in ends]
    for name, method in found.items():
        curve = zip(method["counts"], method["curve"], strict=True)
        points = [place(count, mean) for count, (mean, _) in curve if mean > VALID]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        marks.append(
            f'<polyline points="{line}" stroke="{COLOURS[name]}" stroke-width="2" fill="none"/>'
        )
        ends.append((points[-1][1], method["label"], COLOURS[name]))
    above = -math.inf
    for y, text, colour in sorted(ends):
        above = max(y + 4, above + LABEL)
        marks.append(svg_text(right + 10, above, text, SMALL, colour))
    note = "Throughput over the greedy heuristic's against samples, geometric means (test graphs)."
    return adaptive_picture(TITLE, note, BOTTOM + 28, marks)
