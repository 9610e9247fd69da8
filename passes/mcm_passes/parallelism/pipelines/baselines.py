"""Pipelines without learning and without proof: balanced, and improved by descent."""

from __future__ import annotations

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


def pipeline_of(t: PipelineTables, parts: Ints, places: Ints) -> Pipeline:
    """The pipeline of cuts and device cuts with both ends, `[S + 1]` each."""
    cuts, devices = (tuple(int(cut) for cut in row[1:-1]) for row in (parts, places))
    return Pipeline(cuts, devices, float(length_s(t, parts, places)))
