"""Pipeline planning by deep Q-learning on the model at hand (Auto-MAP, section 3.4)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from mcm_models.dqn.numpy_learner import NumpyLearner
from mcm_models.dqn.settings import PUBLISHED, DqnSettings
from mcm_models.pipelines.balanced import descend, shift_together
from mcm_models.pipelines.planning_environment import PlanningEnvironment
from mcm_models.pipelines.problem import Pipeline, PipelineProblem
from mcm_passes.parallelism.pipelines.candidates import candidate_cuts

ITERATIONS = 2_000
"""Gradient steps: a fifth of those over which the paper's share of random actions falls."""

GREEDY_SHARE = 0.2
"""Share of the gradient steps that are left when the share of random actions has reached its end:
it falls over the steps before, however many there are."""

SHIFTS = 14
"""Candidates by which cuts are moved together at the end."""


@dataclass(frozen=True)
class OnlineOutcome:
    """What learning found.

    Attributes:
        pipeline: the best, or None if none of those seen fits into memory.
        seconds: wall time.
        iterations: gradient steps.
        episodes: pipelines seen.
        learned_s: length before descent settled the pipeline.
        last_epsilon: share of random actions that the last episode was played with.
    """

    pipeline: Pipeline | None
    seconds: float
    iterations: int
    episodes: int
    learned_s: float | None
    last_epsilon: float


def learn_online(
    problem: PipelineProblem,
    seed: int,
    settings: DqnSettings | None = None,
    iterations: int = ITERATIONS,
) -> OnlineOutcome:
    """Learns to cut one model; returns the best pipeline of all episodes.

    It chooses from the problem's candidates (`candidates`), and so does the descent behind it.

    Args:
        problem: with all cuts; at least two stages.
        seed: of weights and episodes.
        settings: how it learns; the published ones by default. Their share of random actions falls
            to its end over the iterations that there are (`schedule`).
        iterations: gradient steps.
    """
    chosen = schedule(settings or dataclasses.replace(PUBLISHED["pp"], updates=8), iterations)
    candidates = candidate_cuts(problem)
    environment = PlanningEnvironment(candidates.problem)
    learner = NumpyLearner(environment, environment.layout, chosen, seed, iterations)
    episodes = 0
    last_epsilon = chosen.first_epsilon
    while not learner.finished:
        last_epsilon = chosen.epsilon_at(learner.iterations)
        learner.advance(1)
        episodes += chosen.lanes
    found: Pipeline | None = learner.best
    return OnlineOutcome(
        None if found is None else candidates.in_whole(settled(environment, found)),
        learner.seconds,
        learner.iterations,
        episodes,
        None if found is None else found.length_s,
        last_epsilon,
    )


def schedule(settings: DqnSettings, iterations: int) -> DqnSettings:
    """Settings whose share of random actions has fallen to its end before the iterations are over.

    Args:
        settings: any.
        iterations: gradient steps that there will be.
    """
    most = max(1, int((1.0 - GREEDY_SHARE) * iterations))
    return dataclasses.replace(settings, epsilon_iterations=min(settings.epsilon_iterations, most))


def without_learning(settings: DqnSettings | None = None) -> DqnSettings:
    """The same search with a learning rate of 0: the control for what is learned."""
    chosen = settings or dataclasses.replace(PUBLISHED["pp"], updates=8)
    return dataclasses.replace(chosen, learning_rate=0.0)


def settled(environment: PlanningEnvironment, pipeline: Pipeline) -> Pipeline:
    """The pipeline after descent, with the cuts also moved together."""
    problem = environment.problem
    ends = problem.num_parts, problem.devices.num_devices
    parts, places = (
        np.array([0, *inner, end], np.int64)
        for inner, end in zip((pipeline.cuts, pipeline.devices), ends, strict=True)
    )
    length = descend(environment.tables, parts, places, environment.allowed)
    length = min(length, shift_together(environment.tables, parts, places, SHIFTS, 1))
    cuts, devices = (tuple(int(cut) for cut in row[1:-1]) for row in (parts, places))
    return Pipeline(cuts, devices, float(length))
