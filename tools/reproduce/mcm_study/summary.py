"""What data files hold of a panel: small, and enough for every table and plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mcm_compiler.contracts.partition import Floats
from mcm_study.curves import MARKS, Panel, Run, geometric_mean, pair, rounded, sample_counts
from mcm_study.equal_time import SECONDS, against_classical, at_seconds
from mcm_study.leads import lead_percent
from mcm_study.methods import CONTROL, DP

LEAD_MARKS = (200, 800, 1000, 4000)
"""Numbers of samples at which leads over Random and SA are told."""

CONTROL_MARKS = (20, 100, 200, 800, 1000, 4000)
"""Numbers of samples at which leads over what learns nothing are told."""

ZERO_SHOT_SAMPLES = 200
"""Within which zero-shot is held against the others."""


def panel_summary(panel: Panel, labels: dict[str, str]) -> dict[str, Any]:
    """The figures of one setting as JSON.

    Means over graphs are over those that `Panel.comparable` keeps; `greedy_kept` is over all of
    them, with the greedy heuristic's partition known from the start, and `share_of_bound` and
    `share_of_known`, the best that is known, over all of them.
    """
    unsolved = panel.unsolved()
    common = panel.comparable()
    return {
        "graphs": list(panel.graphs),
        "left_out": [graph for graph in panel.graphs if graph not in common.graphs],
        "unsolved": unsolved,
        "classical": {
            graph: {
                "improvement": rounded(found.improvement),
                "bound": rounded(found.bound),
                "cpu_s": rounded(found.cpu_s),
                "nodes": found.nodes,
                "clonable": found.clonable,
                "best_known": rounded(panel.best_known(graph)),
            }
            for graph, found in panel.classical.items()
            if graph in panel.graphs
        },
        "classical_mean": _classical(common),
        "methods": {name: _method(panel, common, name, labels[name]) for name in common.methods},
        "equal_time": {
            "seconds": list(SECONDS),
            "improvement": at_seconds(common),
            "against_portfolio": against_classical(panel),
        },
    }


def annealing_of(panel: Panel) -> list[str]:
    """Annealing over all samples, and over fewer where that was run."""
    return ["sa", "sa-short"] if "sa-short" in panel.methods else ["sa"]


def _lead(panel: Panel, name: str, others: Sequence[str], mark: int) -> list[Any] | None:
    leads = lead_percent(panel, name, others, mark) if mark <= panel.samples(name, 0) else None
    return None if leads is None else pair(leads)


def _classical(panel: Panel) -> dict[str, float] | None:
    """Geometric means over the graphs."""
    if not panel.graphs or any(graph not in panel.classical for graph in panel.graphs):
        return None
    found = [panel.classical[graph] for graph in panel.graphs]
    return {
        "improvement": rounded(float(geometric_mean(np.array([c.improvement for c in found])))),
        "bound": rounded(float(geometric_mean(np.array([c.bound for c in found])))),
        "cpu_s": rounded(float(np.mean([c.cpu_s for c in found]))),
    }


def _method(panel: Panel, common: Panel, name: str, label: str) -> dict[str, Any]:
    curves = common.curves(name)
    samples = curves.shape[1]
    counts = sample_counts(samples)
    seeds = common.seeds(name)
    data: dict[str, Any] = {
        "label": label,
        "samples": samples,
        "seeds": seeds,
        "counts": counts,
        "curve": [pair(curves[:, count - 1]) for count in counts],
        "first_area": pair(curves[:, :ZERO_SHOT_SAMPLES].mean(axis=1)),
        "valid_share": rounded(_over_runs(common, name, seeds, lambda run: run.valid_share)),
        "evaluated": rounded(_over_runs(common, name, seeds, lambda run: run.evaluated)),
        "cpu_s": rounded(_over_runs(common, name, seeds, lambda run: run.cpu_s)),
        "cpu_s_1000": rounded(_over_runs(common, name, seeds, lambda run: _cpu_at(run, samples))),
        "leads": {
            other: {str(mark): _lead(common, name, others, mark) for mark in LEAD_MARKS}
            for other, others in (("random", ["random"]), ("sa", annealing_of(common)))
        },
        "controls": {
            label: {str(mark): _lead(common, name, [other], mark) for mark in CONTROL_MARKS}
            for label, other in (("dp", DP), ("no updates", name + CONTROL))
        },
        "by_graph": {
            graph: pair([panel.runs[name, graph, seed].best[-1] for seed in seeds])
            for graph in panel.graphs
            if all((name, graph, seed) in panel.runs for seed in seeds)
        },
    }
    if set(panel.seeds(name)) >= set(seeds):
        kept = panel.curves(name, 1.0)
        data["greedy_kept"] = _at_marks(kept)
        if all(graph in panel.classical for graph in panel.graphs):
            bound = geometric_mean(np.array([panel.classical[g].bound for g in panel.graphs]))
            known = geometric_mean(np.array([panel.best_known(g) for g in panel.graphs]))
            data["share_of_bound"] = _at_marks(panel.curves(name) / bound)
            data["share_of_known"] = _at_marks(panel.curves(name) / known)
    return data


def _at_marks(curves: Floats) -> dict[str, Any]:
    samples = curves.shape[1]
    marks = sorted({*(mark for mark in MARKS if mark < samples), samples})
    return {str(mark): pair(curves[:, mark - 1]) for mark in marks}


def _cpu_at(run: Run, samples: int) -> float:
    """Processor seconds of the first 1,000 samples, or of all where there are fewer."""
    counts = sample_counts(samples)
    place = counts.index(min(1000, samples))
    return run.cpu_at_marks[place] if place < len(run.cpu_at_marks) else run.cpu_s


def _over_runs(
    panel: Panel, name: str, seeds: Sequence[int], figure: Callable[[Run], float]
) -> float:
    values = [figure(panel.runs[name, graph, seed]) for graph in panel.graphs for seed in seeds]
    return float(np.mean(values))


def at_count(method: dict[str, Any], count: int) -> list[float] | None:
    """Mean and deviation of a method's curve after so many samples; None where it has fewer."""
    return method["curve"][method["counts"].index(count)] if count in method["counts"] else None
