"""Pipeline planning of one model as an environment: the next pivot, until all stages are cut.

After Auto-MAP (Wang et al. 2020, section 3.4). An action is the next cut; cuts that are not behind
the last one, or that leave a stage without weights, are masked. So are those that leave no way to
fit into memory with devices evenly shared (ours). What is seen of each pivot are the seconds of its
stage's gradient reduction, the longest transfer, and the least over the largest compute time, as
they would be if it were the next. Devices are assigned when all cuts are made, by trying all
assignments: the paper leaves open how. The reward at the end is 1 / sqrt(L), negative out of
memory, with L in multiples of a lower bound (ours), so that one setting suits all models.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from deep_q_study.learner import Observation
from deep_q_study.network import QLayout, Singles
from numpy.typing import NDArray

from mcm_compiler.arrays.kernels import entry_njit
from mcm_models.pipelines.kernels import (
    Ints,
    backward_s,
    fits,
    forward_s,
    length_s,
    reduction_s,
    transfer_s,
    unchecked_length_s,
)
from mcm_models.pipelines.problem import Pipeline, PipelineProblem, PipelineTables, pipeline_tables

PER_PIVOT = 3
"""Numbers that are seen of each pivot."""


@dataclass(eq=False)
class PlanningState:
    """Episodes in E lanes.

    Attributes:
        parts: `[E, S + 1]`, cuts so far with both ends; 0 where not made.
        places: `[E, S + 1]`, device cuts, made at the end.
        made: cuts so far; all lanes are in step.
        length: `[E]`, seconds at the end; negative out of memory, 0 before.
    """

    parts: Ints
    places: Ints
    made: int
    length: NDArray[np.float64]


class PlanningEnvironment:
    """Implements `learner.Environment` for one problem.

    Args:
        problem: with at least two stages.
    """

    def __init__(self, problem: PipelineProblem) -> None:
        self.problem = problem
        self.tables = pipeline_tables(problem)
        t = self.tables
        work = t.forward[-1] + t.backward[-1]
        self.unit_s = float(work / t.speed[0, -1])
        self.bound_s = self.unit_s * problem.micro_batches
        count = problem.devices.num_devices
        self._even = np.arange(problem.stages + 1, dtype=np.int64) * count // problem.stages
        self.allowed = problem.allowed_places
        self._coverable = _coverable(t, self._even)

    @property
    def num_actions(self) -> int:
        """Pivots."""
        return self.problem.num_parts - 1

    @property
    def horizon(self) -> int:
        """Cuts."""
        return self.problem.stages - 1

    @property
    def layout(self) -> QLayout:
        """A flat network over all pivots, as published."""
        return QLayout(features=0, context=PER_PIVOT * self.num_actions, actions=self.num_actions)

    def reset(self, lanes: int) -> PlanningState:
        """Nothing is cut."""
        shape = (lanes, self.problem.stages + 1)
        parts, places = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        parts[:, -1] = self.problem.num_parts
        places[:, -1] = self.problem.devices.num_devices
        return PlanningState(parts, places, 0, np.zeros(lanes))

    def observe(self, state: PlanningState) -> Observation:
        """Effect of each pivot."""
        lanes = len(state.parts)
        seen = np.zeros((lanes, self.num_actions, PER_PIVOT), np.float32)
        mask = np.zeros((lanes, self.num_actions), np.bool_)
        made = min(state.made, self.horizon - 1)
        for lane in range(lanes):
            _see(
                self.tables,
                state.parts[lane],
                self._even,
                self._coverable,
                made,
                self.unit_s,
                seen[lane],
                mask[lane],
            )
        empty = np.zeros((lanes, self.num_actions, 0), np.float32)
        return Observation(empty, seen.reshape(lanes, -1), mask)

    def step(
        self, state: PlanningState, action: NDArray[np.int64], alive: NDArray[np.bool_]
    ) -> tuple[Singles, NDArray[np.bool_]]:
        """Makes the next cut in all lanes; assigns devices behind the last."""
        lanes = len(state.parts)
        reward = np.zeros(lanes, np.float32)
        state.made += 1
        state.parts[:, state.made] = action + 1
        over = state.made == self.horizon
        if over:
            for lane in range(lanes):
                length = best_places(
                    self.tables, state.parts[lane], state.places[lane], self.allowed
                )
                state.length[lane] = length
                value = np.sqrt(self.bound_s / abs(length))
                reward[lane] = value if length > 0 else -value
        return reward, np.full(lanes, over)

    def score(self, state: PlanningState) -> Singles:
        """Minus the length; minus infinity out of memory."""
        return np.where(state.length > 0, -state.length, -np.inf).astype(np.float32)

    def answer(self, state: PlanningState, lane: int) -> Pipeline:
        """The pipeline of a lane."""
        cuts, devices = (
            tuple(int(cut) for cut in row[lane, 1:-1]) for row in (state.parts, state.places)
        )
        return Pipeline(cuts, devices, float(state.length[lane]))


@entry_njit
def _see(
    t: PipelineTables,
    parts: Ints,
    even: Ints,
    coverable: NDArray[np.bool_],
    made: int,
    unit: float,
    seen: Singles,
    mask: NDArray[np.bool_],
) -> None:
    """Fills what is seen of all pivots, `[n - 1, 3]`, and which are allowed, `[n - 1]`."""
    stages, count = len(parts) - 1, len(t.forward) - 1
    transfer, least, most = 0.0, np.inf, 0.0
    for k in range(made):
        i, j, a, b, c = parts[k], parts[k + 1], even[k], even[k + 1], even[k + 2]
        transfer = max(transfer, transfer_s(t, j, a, b, c))
        slot = forward_s(t, i, j, a, b) + backward_s(t, i, j, a, b)
        least, most = min(least, slot), max(most, slot)
    i, a, b, c = parts[made], even[made], even[made + 1], even[made + 2]
    left = stages - made
    for j in range(i + 1, count - left + 2):
        slot = forward_s(t, i, j, a, b) + backward_s(t, i, j, a, b)
        rest = (t.forward[count] + t.backward[count] - t.forward[j] - t.backward[j]) / t.speed[
            b, even[stages]
        ]
        seen[j - 1, 0] = reduction_s(t, i, j, a, b) / unit
        seen[j - 1, 1] = max(transfer, transfer_s(t, j, a, b, c)) / unit
        seen[j - 1, 2] = min(least, slot, rest) / max(most, slot, rest)
        mask[j - 1] = fits(t, i, j, a, b, left) and coverable[made + 1, j]
    if not mask.any():
        # Nothing fits with even shares; uneven ones are tried when all cuts are made.
        for j in range(i + 1, count - left + 2):
            mask[j - 1] = t.weights[j] > t.weights[i] and t.weights[count] > t.weights[j]
    if not mask.any():
        mask[i] = True


@entry_njit
def _coverable(t: PipelineTables, even: Ints) -> NDArray[np.bool_]:
    """`[S + 1, n + 1]`, whether stages k to the last fit with parts j to the last."""
    stages, count = len(even) - 1, len(t.forward) - 1
    found = np.zeros((stages + 1, count + 1), np.bool_)
    found[stages, count] = True
    for k in range(stages - 1, -1, -1):
        for i in range(count):
            for j in range(i + 1, count + 1):
                if found[k + 1, j] and fits(t, i, j, even[k], even[k + 1], stages - k):
                    found[k, i] = True
                    break
    return found


@entry_njit
def best_places(t: PipelineTables, parts: Ints, places: Ints, allowed: NDArray[np.bool_]) -> float:
    """Sets the device cuts that suit the cuts best, by trying all; seconds, negative out of memory.

    Args:
        t: the tables.
        parts: `[S + 1]` with both ends.
        places: `[S + 1]`, to be set.
        allowed: `[D + 1]`, where stages but the first may begin.
    """
    stages, devices = len(parts) - 1, t.speed.shape[0] - 1
    trial = np.arange(stages + 1)
    trial[stages] = devices
    best, best_outside = np.inf, np.inf
    chosen, chosen_outside = trial.copy(), trial.copy()
    while True:
        usable = True
        for inner in range(1, stages):
            usable = usable and allowed[trial[inner]]
        length = length_s(t, parts, trial) if usable else np.inf
        if length < best:
            best = length
            chosen[:] = trial
        elif best == np.inf and usable:
            length = unchecked_length_s(t, parts, trial)
            if length < best_outside:
                best_outside = length
                chosen_outside[:] = trial
        k = stages - 1
        while k > 0 and trial[k] == devices - stages + k:
            k -= 1
        if k == 0:
            break
        trial[k] += 1
        for later in range(k + 1, stages):
            trial[later] = trial[later - 1] + 1
    if best < np.inf:
        places[:] = chosen
        return best
    places[:] = chosen_outside
    return -best_outside
