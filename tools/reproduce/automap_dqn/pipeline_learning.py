"""Pipeline planning by deep Q-learning on the model at hand (Auto-MAP, section 3.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from deep_q_study.learner import PUBLISHED, DqnSettings, Learner

from automap_dqn.pipeline_environment import PlanningEnvironment
from mcm_compiler.arrays.kernels import entry_njit
from mcm_models.pipelines.kernels import Ints, descend, length_s
from mcm_models.pipelines.problem import Pipeline, PipelineProblem, PipelineTables, pipeline_tables
from mcm_passes.parallelism.pipelines.optimal_pipeline import pipeline_of

PRUNING_RADIUS = 3
"""Devices on each side of a boundary between servers at which stages may begin."""


@dataclass(frozen=True, eq=False)
class CandidateCuts:
    """A problem restricted to candidates.

    Attributes:
        whole: the problem with all cuts.
        cuts: `[C]`, the candidates in it, ascending.
        problem: the same with a part from each candidate to the next, and `device_cuts`.
    """

    whole: PipelineProblem
    cuts: tuple[int, ...]
    problem: PipelineProblem

    def in_whole(self, pipeline: Pipeline) -> Pipeline:
        """A pipeline of the restricted problem, with cuts of the whole one."""
        parts = np.array(
            [0, *(self.cuts[cut - 1] for cut in pipeline.cuts), self.whole.num_parts], np.int64
        )
        places = np.array([0, *pipeline.devices, self.whole.devices.num_devices], np.int64)
        return pipeline_of(pipeline_tables(self.whole), parts, places)


def candidate_cuts(problem: PipelineProblem, radius: int = PRUNING_RADIUS) -> CandidateCuts:
    """The candidates of a problem.

    All cuts and device cuts where there are no servers to speak of, or fewer candidates than the
    pipeline has cuts. Cuts that are equal in every number to the one before are left out.

    Args:
        problem: with all cuts.
        radius: see `PRUNING_RADIUS`.
    """
    t = pipeline_tables(problem)
    count, row = problem.devices.num_devices, problem.devices
    places = np.arange(1, count)
    starts = np.flatnonzero(np.diff(row.server_of)) + 1
    near = np.array([any(abs(place - start) <= radius for start in starts) for place in places])
    done = t.forward + t.backward
    shares = np.concatenate([[0.0], np.cumsum(row.speed)]) / row.speed.sum()
    mapped = np.abs(done[:, None] / max(done[-1], 1e-300) - shares[None, :]).argmin(axis=1)
    numbers = np.stack([t.forward, t.backward, t.weights, t.state, t.kept, t.cut])
    differs = np.concatenate([[True], np.any(np.diff(numbers, axis=1) != 0.0, axis=0)])
    inner = np.arange(1, problem.num_parts)
    inner = inner[differs[1:-1]]
    chosen = inner[np.isin(mapped[inner], places[near])] if near.any() else inner
    allowed = tuple(int(place) for place in places[near])
    if min(len(chosen), len(allowed)) < problem.stages - 1 or not allowed:
        chosen, allowed = inner, tuple(int(place) for place in places)
    starts = [0, *(int(cut) for cut in chosen)]
    forward, backward, weights, state, kept = (
        np.add.reduceat(values, starts)
        for values in (
            problem.forward_s,
            problem.backward_s,
            problem.weight_bytes,
            problem.state_bytes,
            problem.kept_bytes,
        )
    )
    restricted = replace(
        problem,
        forward_s=forward,
        backward_s=backward,
        weight_bytes=weights,
        state_bytes=state,
        kept_bytes=kept,
        cut_bytes=problem.cut_bytes[[*starts, problem.num_parts]],
        device_cuts=allowed,
    )
    return CandidateCuts(problem, tuple(starts[1:]), restricted)


ITERATIONS = 2_000
"""Gradient steps: a fifth of those over which the paper's share of random actions falls."""

GREEDY_SHARE = 0.2
"""Share of the gradient steps that are left when the share of random actions has reached its end:
it falls over the steps before, however many there are."""

SHIFTS = 14
"""Candidates by which cuts are moved together at the end."""


@dataclass(frozen=True)
class OnlineOutcome:
    """Result of learning.

    Attributes:
        pipeline: the best, or None if none of those seen fits into memory.
        iterations: gradient steps.
        episodes: pipelines seen.
        learned_s: length before descent settled the pipeline.
        last_epsilon: share of random actions that the last episode was played with.
    """

    pipeline: Pipeline | None
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
    chosen = schedule(settings or replace(PUBLISHED["pp"], updates=8), iterations)
    candidates = candidate_cuts(problem)
    environment = PlanningEnvironment(candidates.problem)
    learner = Learner(environment, environment.layout, chosen, seed, iterations)
    episodes = 0
    last_epsilon = chosen.first_epsilon
    while not learner.finished:
        last_epsilon = chosen.epsilon_at(learner.iterations)
        learner.advance(1)
        episodes += chosen.lanes
    found: Pipeline | None = learner.best
    return OnlineOutcome(
        None if found is None else candidates.in_whole(settled(environment, found)),
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
    return replace(settings, epsilon_iterations=min(settings.epsilon_iterations, most))


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


@entry_njit
def shift_together(t: PipelineTables, parts: Ints, places: Ints, reach: int, stride: int) -> float:
    """Moves up to three neighbouring cuts together, in place; the length that is reached.

    Where several cuts have to move by a layer, no cut alone makes the iteration shorter.

    Args:
        t: the tables.
        parts: `[S + 1]` with both ends.
        places: `[S + 1]` with both ends.
        reach: how far each moves, in steps.
        stride: parts of a step.
    """
    best = length_s(t, parts, places)
    stages = len(parts) - 1
    trial = parts.copy()
    for k in range(1, max(stages - 2, 2)):
        middle = parts.copy()
        for first in range(-reach, reach + 1):
            trial[k] = middle[k] + first * stride
            for second in range(
                -reach if k + 1 < stages else 0, reach + 1 if k + 1 < stages else 1
            ):
                if k + 1 < stages:
                    trial[k + 1] = middle[k + 1] + second * stride
                wide = k + 2 < stages
                for third in range(-reach if wide else 0, reach + 1 if wide else 1):
                    if wide:
                        trial[k + 2] = middle[k + 2] + third * stride
                    if (np.diff(trial) <= 0).any():
                        continue
                    length = length_s(t, trial, places)
                    if length < best:
                        best = length
                        parts[:] = trial
        trial[:] = parts
    return best
