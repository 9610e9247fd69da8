"""Correlation, rejections and their causes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from calibration_study.measurement import Samples
from mcm_compiler.contracts.evaluation import ResultKind
from mcm_compiler.contracts.partition import Floats


def summary(samples: Samples) -> dict[str, Any]:
    """The figures of one rule, as JSON."""
    kind = samples.results.kind
    runs = kind == ResultKind.RUNS
    fits = samples.analytic_fits
    rejected = kind == ResultKind.OVERFLOWS
    evaluated = samples.results.period_s
    limit = np.array(samples.problem.limits.sram_bytes)
    over = samples.results.high_water_bytes > limit
    return {
        "partitions": len(kind),
        "distinct": len(np.unique(samples.partitions, axis=0)),
        "breaks_rule": int((kind == ResultKind.BREAKS_RULE).sum()),
        "rejected_by_judge_share": float(rejected.mean()),
        "rejected_by_analytic_share": float((~fits).mean()),
        "false_positives": int((fits & rejected).sum()),
        "false_negatives": int((~fits & runs).sum()),
        "overflowing_chips": _chips(over[rejected]),
        "median_estimate_over_plan": _median_ratio(samples),
        "analytic_model": _agreement(samples.analytic_s[runs], evaluated[runs]),
        "paper_model": _agreement(samples.paper_s[runs], evaluated[runs]),
        "busiest_resource": dict(
            sorted(Counter(b for b, r in zip(samples.busiest, runs, strict=True) if r).items())
        ),
        "judge_over_analytic": _quantiles(evaluated[runs] / samples.analytic_s[runs]),
        "causes": _causes(samples, runs),
    }


def _agreement(model_s: Floats, judged_s: Floats) -> dict[str, float]:
    if len(model_s) < 3:
        return {}
    return {
        "pearson": float(np.corrcoef(model_s, judged_s)[0, 1]),
        "spearman": float(np.corrcoef(_ranks(model_s), _ranks(judged_s))[0, 1]),
    }


def _ranks(values: Floats) -> Floats:
    """Ranks; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[inverse]


def _quantiles(values: Floats) -> dict[str, float]:
    if not len(values):
        return {}
    names = ("min", "p25", "median", "p75", "max")
    return dict(zip(names, np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist(), strict=True))


def _chips(over: np.ndarray) -> dict[str, int]:
    """How often each chip is the one that overflows."""
    return {str(c): int(n) for c, n in enumerate(over.sum(axis=0)) if n}


def _median_ratio(samples: Samples) -> float:
    plan = samples.results.high_water_bytes
    used = plan > 0
    return float(np.median(samples.estimate_bytes[used] / plan[used]))


def _causes(samples: Samples, runs: np.ndarray) -> dict[str, float]:
    """What makes the evaluator's period longer, as mean shares of it.

    `analytic`: the analytic period. `kernels`: how much longer the busiest chip or link takes by
    the cycle model (fill and drain of the array, operands read again). `waits`: what is left,
    the busiest resource waiting for inputs, links or buffers.
    """
    if not runs.any():
        return {}
    evaluated = samples.results.period_s[runs]
    busiest = np.maximum(
        samples.results.chip_busy_s[runs].max(axis=1), samples.results.link_busy_s[runs].max(axis=1)
    )
    analytic = np.minimum(samples.analytic_s[runs], evaluated)
    busiest = np.clip(busiest, analytic, evaluated)
    return {
        "analytic": float((analytic / evaluated).mean()),
        "kernels": float(((busiest - analytic) / evaluated).mean()),
        "waits": float(((evaluated - busiest) / evaluated).mean()),
    }
