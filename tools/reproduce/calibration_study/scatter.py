"""The scatter of analytic against simulated periods."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from calibration_study.measurement import Samples

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from mcm_compiler.contracts.evaluation import ResultKind
from tools.readme_pictures import PLAIN, SMALL, WIDTH, adaptive_picture, svg_text

MOST_DOTS = 500
"""Dots of a population, so that the picture stays small."""

_LEFT, _RIGHT, _TOP, _HEIGHT = 70, 150, 62, 300


def picture(drawn: Mapping[str, Samples]) -> str:
    """One panel with all populations that have partitions which run, on logarithmic axes.

    Args:
        drawn: samples by population and rule.
    """
    points: dict[str, np.ndarray] = {}
    for name, samples in drawn.items():
        runs = samples.results.kind == ResultKind.RUNS
        if runs.sum() > 2:
            pairs = np.stack([samples.analytic_s, samples.results.period_s])[:, runs]
            points[name] = pairs[:, :MOST_DOTS] * 1e3
    every = np.concatenate([*points.values()], axis=1)
    low, high = every.min() / 1.2, every.max() * 1.2

    def place(ms: np.ndarray | float, start: int, length: int) -> np.ndarray:
        return np.round(start + length * np.log(np.asarray(ms) / low) / np.log(high / low), 1)

    width, bottom = WIDTH - _LEFT - _RIGHT, _TOP + _HEIGHT
    marks = [f'<path d="M{_LEFT} {bottom}L{_LEFT + width} {_TOP}" stroke="var(--line)"/>']
    for tick in (one for one in (0.5, 1, 2, 5, 10, 20, 50) if low <= one <= high):
        x, y = float(place(tick, _LEFT, width)), float(place(tick, bottom, -_HEIGHT))
        marks += [
            f'<path d="M{x} {_TOP}V{bottom}M{_LEFT} {y}H{_LEFT + width}" stroke="var(--line)"/>',
            svg_text(x, bottom + 16, f"{tick:g} ms", SMALL, "var(--soft)", anchor="middle"),
            svg_text(_LEFT - 8, y + 4, f"{tick:g} ms", SMALL, "var(--soft)", anchor="end"),
        ]
    groups: dict[str, list[np.ndarray]] = {}
    for name, pairs in points.items():
        groups.setdefault(name.rpartition(", ")[0], []).append(pairs)
    for place_of, (name, parts) in enumerate(groups.items()):
        pairs = np.concatenate(parts, axis=1)
        colour = ("var(--accent)", "var(--ink)")[place_of % 2]
        xs, ys = place(pairs[0], _LEFT, width), place(pairs[1], bottom, -_HEIGHT)
        dots = "".join(f"M{x:g} {y:g}h0" for x, y in zip(xs, ys, strict=True))
        marks.append(
            f'<path d="{dots}" stroke="{colour}" stroke-width="4" stroke-linecap="round" '
            'stroke-opacity="0.4"/>'
        )
        marks.append(svg_text(float(xs.max()) + 12, float(np.median(ys)) + 5, name, PLAIN, colour))
    across = _LEFT + width / 2
    marks.append(
        svg_text(across, bottom + 36, "analytic period", PLAIN, "var(--ink)", anchor="middle")
    )
    return adaptive_picture(
        "The analytic model ranks partitions as the simulator does",
        f"Simulated period (up) by analytic period; up to {MOST_DOTS} partitions of a population.",
        bottom + 46,
        marks,
    )
