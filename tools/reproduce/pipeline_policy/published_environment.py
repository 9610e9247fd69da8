"""The setting of PP online inference as published: one flat vector, 128 absolute actions, 1 / L.

Auto-MAP (Wang et al. 2020, section 4.4): the state is a vector of prefix sums of compute and
weights, of activations, of the topology and of the partial partition; an action is the place of the
next cut, first of parts and then of devices; the reward at the end is 1 / L. It is here to be
compared with (`mcmc train pipeline --set recipe=published`). Ours is L in multiples of a lower
bound.
"""

from __future__ import annotations

import numpy as np
from deep_q_study.learner import Observation
from deep_q_study.network import QLayout, Singles
from numpy.typing import NDArray

from mcm_models.pipelines.kernels import length_s
from mcm_models.pipelines.problem import Pipeline, PipelineTables
from pipeline_policy.policy_environment import CaseEnvironment, CaseState, QNetwork
from pipeline_policy.random_cases import MAX_DEVICES, POSITIONS

FLAT = 4 * POSITIONS
"""Numbers of the state: three arrays of 128, and one for topology and partial partition."""

FLAT_LAYOUT = QLayout(features=0, context=FLAT, actions=POSITIONS)


class PublishedEnvironment(CaseEnvironment):
    """Cases as `CaseEnvironment` draws them, seen and rewarded as published."""

    @property
    def num_actions(self) -> int:
        """Places."""
        return POSITIONS

    def observe(self, state: CaseState) -> Observation:
        """The flat vector; one allowed action where an episode is over."""
        lanes = len(state.cases)
        context = np.zeros((lanes, FLAT), np.float32)
        mask = np.zeros((lanes, POSITIONS), np.bool_)
        for lane, case in enumerate(state.cases):
            seen = see_flat(case.tables, state.parts[lane], state.places[lane], state.step)
            context[lane], mask[lane] = seen
        return Observation(np.zeros((lanes, POSITIONS, 0), np.float32), context, mask)

    def step(
        self, state: CaseState, action: NDArray[np.int64], alive: NDArray[np.bool_]
    ) -> tuple[Singles, NDArray[np.bool_]]:
        """Makes the next cut in each lane that is alive."""
        lanes = len(state.cases)
        reward, over = np.zeros(lanes, np.float32), np.zeros(lanes, np.bool_)
        for lane, case in enumerate(state.cases):
            if not alive[lane]:
                continue
            inner = case.stages - 1
            row = state.parts[lane] if state.step < inner else state.places[lane]
            row[state.step % inner + 1] = int(action[lane])
            if state.step == 2 * inner - 1:
                t = case.tables
                bound = t.micro_batches * (t.forward[-1] + t.backward[-1]) / t.speed[0, -1]
                length = length_s(t, state.parts[lane], state.places[lane])
                reward[lane] = bound / length
                over[lane] = True
        state.gain += reward
        state.step += 1
        return reward, over


def see_flat(
    t: PipelineTables, parts: NDArray[np.int64], places: NDArray[np.int64], step: int
) -> tuple[Singles, NDArray[np.bool_]]:
    """`[FLAT]` numbers and `[POSITIONS]` allowed places; place 0 where nothing is left to decide.

    Args:
        t: tables of a case with at most `POSITIONS` parts and `MAX_DEVICES` devices.
        parts: `[S + 1]`, cuts made so far with both ends.
        places: `[S + 1]`, likewise.
        step: decisions made.
    """
    inner = len(parts) - 2
    seen = np.zeros((4, POSITIONS), np.float32)
    mask = np.zeros(POSITIONS, np.bool_)
    work = t.forward + t.backward
    # One common maximum, as published: seconds of compute, of transfers and of reductions.
    numbers = work[1:], t.cut[:-1] * t.network.inter, t.weights[1:] * t.network.inter
    most = max(float(array.max()) for array in numbers)
    for row, array in zip(seen, numbers, strict=False):
        row[: len(array)] = array / most
    count, devices = len(t.forward) - 1, t.speed.shape[0] - 1
    first = t.servers[0, 1:] / 4.0
    seen[3, :devices] = first
    seen[3, MAX_DEVICES : MAX_DEVICES + len(parts)] = parts / count
    seen[3, MAX_DEVICES + 8 : MAX_DEVICES + 8 + len(places)] = places / devices
    seen[3, MAX_DEVICES + 16] = step / (2 * inner)
    seen[3, MAX_DEVICES + 17] = t.micro_batches / 32.0
    if step >= 2 * inner:
        mask[0] = True
        return seen.reshape(-1), mask
    row = parts if step < inner else places
    k = step % inner
    mask[row[k] + 1 : row[-1] - (inner - k) + 1] = True
    return seen.reshape(-1), mask


def infer_flat(network: QNetwork, t: PipelineTables, stages: int) -> Pipeline:
    """The pipeline that a flat network takes for the best, step by step."""
    parts, places = np.zeros(stages + 1, np.int64), np.zeros(stages + 1, np.int64)
    parts[-1], places[-1] = len(t.forward) - 1, t.speed.shape[0] - 1
    empty = np.zeros((POSITIONS, 0), np.float32)
    for step in range(2 * (stages - 1)):
        seen, mask = see_flat(t, parts, places, step)
        row = parts if step < stages - 1 else places
        row[step % (stages - 1) + 1] = int(np.argmax(network.values(empty, seen, mask)))
    cuts, devices = (tuple(int(cut) for cut in row[1:-1]) for row in (parts, places))
    return Pipeline(cuts, devices, float(length_s(t, parts, places)))
