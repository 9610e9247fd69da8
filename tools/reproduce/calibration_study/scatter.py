"""The scatter of analytic against judged periods."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hier_study.pictures import drawing_library, save_picture

from calibration_study.measurement import Samples
from mcm_compiler.contracts.evaluation import ResultKind


def plot(drawn: Mapping[str, Samples], path: Path) -> None:
    """Writes one panel for each of `drawn` that has partitions which run.

    Args:
        drawn: samples by population and rule.
        path: a PNG file.
    """
    pyplot = drawing_library()
    ran = {
        name: (samples, samples.results.kind == ResultKind.RUNS)
        for name, samples in drawn.items()
        if (samples.results.kind == ResultKind.RUNS).sum() > 2
    }
    figure, panels = pyplot.subplots(
        2, -(-len(ran) // 2), figsize=(3.4 * -(-len(ran) // 2), 6), squeeze=False
    )
    for panel, (name, (samples, runs)) in zip(panels.T.flat, ran.items(), strict=False):
        x = samples.analytic_s[runs] * 1e6
        y = samples.results.period_s[runs] * 1e6
        panel.scatter(x, y, s=3, alpha=0.35, linewidths=0)
        ends = [float(x.min()), float(x.max())]
        panel.plot(ends, ends, color="black", linewidth=0.6)
        panel.set_title(f"{name}: {int(runs.sum())} run", fontsize=9)
        panel.set_xlabel("analytic period, us")
        panel.set_ylabel("judged period, us")
    figure.tight_layout()
    save_picture(figure, path)
