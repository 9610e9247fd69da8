"""Pipelines without learning and without proof: balanced, improved by descent, and random."""

from __future__ import annotations

import numpy as np

from mcm_models.pipelines.balanced import balanced_pipeline, descend
from mcm_models.pipelines.kernels import Ints, length_s
from mcm_models.pipelines.problem import Pipeline, PipelineProblem
from mcm_models.pipelines.tables import PipelineTables, pipeline_tables


def balanced(problem: PipelineProblem, tables: PipelineTables | None = None) -> Pipeline:
    """Stages of about as many devices, on whole servers where possible, and work to match."""
    t = tables or pipeline_tables(problem)
    return pipeline_of(t, *balanced_pipeline(t, problem.stages))


def descended(problem: PipelineProblem, tables: PipelineTables | None = None) -> Pipeline:
    """The balanced pipeline after one pass of coordinate descent."""
    t = tables or pipeline_tables(problem)
    parts, places = balanced_pipeline(t, problem.stages)
    descend(t, parts, places, problem.allowed_places)
    return pipeline_of(t, parts, places)


def random_search(problem: PipelineProblem, samples: int, seed: int) -> Pipeline:
    """The best of pipelines whose cuts and device cuts are drawn uniformly."""
    t = pipeline_tables(problem)
    best_parts, best_places = balanced_pipeline(t, problem.stages)
    parts, places, best = best_parts.copy(), best_places.copy(), np.inf
    rng = np.random.default_rng(seed)
    choices = np.arange(1, problem.num_parts), np.flatnonzero(problem.allowed_places)
    for _ in range(samples):
        for row, values in zip((parts, places), choices, strict=True):
            row[1:-1] = np.sort(rng.choice(values, problem.stages - 1, replace=False))
        length = length_s(t, parts, places)
        if length < best:
            best, best_parts, best_places = length, parts.copy(), places.copy()
    return pipeline_of(t, best_parts, best_places)


def pipeline_of(t: PipelineTables, parts: Ints, places: Ints) -> Pipeline:
    """The pipeline of cuts and device cuts with both ends, `[S + 1]` each."""
    cuts, devices = (tuple(int(cut) for cut in row[1:-1]) for row in (parts, places))
    return Pipeline(cuts, devices, float(length_s(t, parts, places)))
