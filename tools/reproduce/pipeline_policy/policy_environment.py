"""Synthetic pipeline problems as an environment: devices and parts of one stage after the other.

Auto-MAP (Wang et al. 2020, section 4.4) trains one policy on arrays and applies it to models that
it has not seen. Here an action is an offset around the ideal next cut; the reward comes at the end
and is `100 (L_known / L - 1)`, cut to 0 to 2, where L is the shortest of the pipeline and of all
completions that were seen on its way: a gain over what the look-ahead alone decides for the same
case. Its pipeline is an answer already, so that losing to it costs nothing, and what is learned is
where else to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from deep_q_study.learner import Observation
from deep_q_study.network import QLayout, Singles, initial_weights, q_values
from numpy.typing import NDArray

from mcm_models.pipelines.kernels import Ints, length_s
from mcm_models.pipelines.problem import Floats, PipelineTables
from pipeline_policy import policy_features
from pipeline_policy.policy_lookahead import AheadTables
from pipeline_policy.random_cases import MAX_SERVERS

POLICY_LAYOUT = QLayout(
    features=policy_features.FEATURES,
    context=policy_features.CONTEXT,
    actions=policy_features.NUM_CANDIDATES,
)
"""Two hidden layers of 32, shared by all candidates."""


@dataclass(frozen=True, eq=False)
class QNetwork:
    """A network with its weights.

    Attributes:
        layout: its shape.
        weights: by name, as `QLayout.shapes` lists them.
    """

    layout: QLayout
    weights: dict[str, Singles]

    def values(self, candidates: Singles, context: Singles, mask: np.ndarray) -> Singles:
        """`[..., A]`, from `[..., A, F]`, `[..., G]` and `[..., A]`; see `q_values`."""
        return q_values(self.layout, self.weights, candidates, context, mask)


REWARD_SCALE, LARGEST_REWARD = 100.0, 2.0
"""Of the gain over the look-ahead."""


def first_weights(seed: int | None) -> dict[str, Singles]:
    """Weights that learning begins with: the policy that follows the look-ahead.

    One hidden unit carries the look-ahead into the advantage; the others are random, and count
    nothing at first.

    Args:
        seed: of the random ones; None for zeros.
    """
    weights = initial_weights(POLICY_LAYOUT, seed or 0)
    if seed is None:
        weights = {name: np.zeros_like(weight) for name, weight in weights.items()}
    source = policy_features.SHORTER
    for k in range(len(POLICY_LAYOUT.hidden)):
        kernel = weights[f"layer{k}/kernel"]
        kernel[:, 0] = 0.0
        kernel[source, 0] = 1.0
        source = 0
    weights["advantage/kernel"][:] = 0.0
    weights["advantage/kernel"][0] = -REWARD_SCALE / policy_features.SHORTER_SCALE
    return weights


@dataclass(frozen=True)
class PreparedCase:
    """A case with what the reward is measured by.

    Attributes:
        tables: of the problem.
        ahead: the same for the look-ahead.
        stages: of the pipeline.
        known_s: length of the pipeline that the look-ahead alone decides.
    """

    tables: PipelineTables
    ahead: AheadTables
    stages: int
    known_s: float


@dataclass(eq=False)
class CaseState:
    """Episodes in E lanes.

    Attributes:
        cases: of each lane.
        parts: cuts of each lane with both ends.
        places: device cuts of each lane.
        step: decisions made; a lane with fewer stages is over earlier.
        middle: `[E]`, position of the middle candidate of the last observation.
        shortest: `[E]`, length of the shortest completion seen.
        gain: `[E]`, reward at the end.
    """

    cases: list[PreparedCase]
    parts: list[Ints]
    places: list[Ints]
    step: int
    middle: Ints
    shortest: Floats
    gain: Singles


class CaseEnvironment:
    """Implements `learner.Environment`.

    Args:
        cases: to draw from, uniformly.
        seed: of the draws.

    Attributes:
        rng: what cases are drawn with.
    """

    def __init__(self, cases: Sequence[PreparedCase], seed: int) -> None:
        self._cases = list(cases)
        self.rng = np.random.default_rng(seed)

    @property
    def num_actions(self) -> int:
        """Candidates."""
        return policy_features.NUM_CANDIDATES

    @property
    def horizon(self) -> int:
        """Two decisions per stage but the last, of a case with most stages."""
        return 2 * (MAX_SERVERS - 1)

    def reset(self, lanes: int) -> CaseState:
        """Draws a case for each lane."""
        drawn = self.rng.integers(len(self._cases), size=lanes)
        cases = [self._cases[index] for index in drawn]
        parts, places = [], []
        for case in cases:
            ends = len(case.tables.forward) - 1, case.tables.speed.shape[0] - 1
            for rows, end in zip((parts, places), ends, strict=True):
                row = np.zeros(case.stages + 1, np.int64)
                row[-1] = end
                rows.append(row)
        return CaseState(
            cases,
            parts,
            places,
            0,
            np.zeros(lanes, np.int64),
            np.full(lanes, np.inf),
            np.zeros(lanes, np.float32),
        )

    def observe(self, state: CaseState) -> Observation:
        """Features of the candidates of each lane; one allowed action where it is over."""
        lanes = len(state.cases)
        rows = np.zeros(
            (lanes, policy_features.NUM_CANDIDATES, policy_features.FEATURES), np.float32
        )
        context = np.zeros((lanes, policy_features.CONTEXT), np.float32)
        mask = np.zeros((lanes, policy_features.NUM_CANDIDATES), np.bool_)
        stage, placed = divmod(state.step, 2)
        for lane, case in enumerate(state.cases):
            if stage >= case.stages - 1:
                mask[lane, policy_features.REACH] = True
                continue
            plan = np.empty((2, case.stages + 1), np.int64)
            state.middle[lane], _, length = policy_features.featurise(
                case.tables,
                case.ahead,
                state.parts[lane],
                state.places[lane],
                stage,
                bool(placed),
                policy_features.FeatureArrays(rows[lane], context[lane], mask[lane], plan),
            )
            state.shortest[lane] = min(state.shortest[lane], length)
        return Observation(rows, context, mask)

    def step(
        self, state: CaseState, action: NDArray[np.int64], alive: NDArray[np.bool_]
    ) -> tuple[Singles, NDArray[np.bool_]]:
        """Makes the next cut in each lane that is alive."""
        lanes = len(state.cases)
        reward, over = np.zeros(lanes, np.float32), np.zeros(lanes, np.bool_)
        stage, placed = divmod(state.step, 2)
        for lane, case in enumerate(state.cases):
            if not alive[lane]:
                continue
            row = state.parts[lane] if placed else state.places[lane]
            row[stage + 1] = state.middle[lane] + int(action[lane]) - policy_features.REACH
            if placed and stage == case.stages - 2:
                length = length_s(case.tables, state.parts[lane], state.places[lane])
                gain = case.known_s / min(length, state.shortest[lane]) - 1.0
                reward[lane] = min(max(REWARD_SCALE * gain, 0.0), LARGEST_REWARD)
                over[lane] = True
        state.gain += reward
        state.step += 1
        return reward, over

    def score(self, state: CaseState) -> Singles:
        """The reward."""
        return state.gain

    def answer(self, state: CaseState, lane: int) -> None:
        """Nothing is kept: lanes are different cases."""
        del state, lane
