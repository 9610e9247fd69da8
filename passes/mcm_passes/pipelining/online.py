"""Pipeline planning by deep Q-learning on the model at hand (Auto-MAP, section 3.4)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from mcm_models.dqn.plain_learner import PlainLearner
from mcm_models.dqn.settings import PUBLISHED, DqnSettings
from mcm_models.pipelines.balanced import descend, shift_together
from mcm_models.pipelines.planning_environment import PlanningEnvironment
from mcm_models.pipelines.problem import Pipeline, PipelineProblem

ITERATIONS = 2_000
"""Gradient steps: a fifth of those over which the paper's share of random actions falls. By then
all instances that were tried had been solved."""


SHIFTS = 14
"""Parts by which cuts are moved together at the end: two layers of seven allowed cuts."""


@dataclass(frozen=True)
class OnlineOutcome:
    """What learning found.

    Attributes:
        pipeline: the best, or None if none of those seen fits into memory.
        seconds: wall time.
        iterations: gradient steps.
        episodes: pipelines seen.
        learned_s: length before descent settled the pipeline.
    """

    pipeline: Pipeline | None
    seconds: float
    iterations: int
    episodes: int
    learned_s: float | None


def learn_online(
    problem: PipelineProblem,
    seed: int,
    settings: DqnSettings | None = None,
    iterations: int = ITERATIONS,
    limit_s: float = 55.0,
) -> OnlineOutcome:
    """Learns to cut one model; returns the best pipeline of all episodes.

    Args:
        problem: at least two stages.
        seed: of weights and episodes.
        settings: how it learns; the published ones by default.
        iterations: gradient steps.
        limit_s: wall time after which it stops early.
    """
    chosen = settings or dataclasses.replace(PUBLISHED["pp"], updates=8)
    environment = PlanningEnvironment(problem)
    learner = PlainLearner(environment, environment.layout, chosen, seed, iterations)
    episodes = 0
    while not learner.finished and learner.seconds < limit_s:
        learner.advance(10)
        episodes += 10 * chosen.lanes
    found: Pipeline | None = learner.best
    return OnlineOutcome(
        None if found is None else settled(environment, found),
        learner.seconds,
        learner.iterations,
        episodes,
        None if found is None else found.length_s,
    )


def settled(environment: PlanningEnvironment, pipeline: Pipeline) -> Pipeline:
    """The pipeline after descent, with the cuts also moved together by up to two layers."""
    problem = environment.problem
    ends = problem.num_parts, problem.devices.num_devices
    parts, places = (
        np.array([0, *inner, end], np.int64)
        for inner, end in zip((pipeline.cuts, pipeline.devices), ends, strict=True)
    )
    length = descend(environment.tables, parts, places)
    length = min(length, shift_together(environment.tables, parts, places, SHIFTS, 1))
    cuts, devices = (tuple(int(cut) for cut in row[1:-1]) for row in (parts, places))
    return Pipeline(cuts, devices, float(length))
