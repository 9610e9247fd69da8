"""Deep Q-learning: episodes in all lanes, prioritised replay and gradient steps.

A *round* is one episode in each lane, in step, then `updates` gradient steps. The same seed gives
the same bytes.

    learner = Learner(MyEnvironment(...), QLayout(F, G, A), PUBLISHED["pp"], 0, iterations=9_000)
    while not learner.finished:
        progress = learner.advance(50)
    learner.best, learner.best_score, learner.weights
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from deep_q_study.network import Adam, QLayout, Singles, gradients, initial_weights, q_values
from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.processes.one_thread import numpy_on_one_thread
from mcm_compiler.text.option_fields import above, at_least, checked, from_to

Returns = Literal["one-step", "monte-carlo"]
"""Source of the value of a step: its reward and the value of the next state, or all
rewards up to the end or the next exploratory action."""

AfterCut = Literal["bootstrap", "drop"]
"""Treatment of a Monte-Carlo return that an exploratory action cuts: the value of the state in
which that action was taken is added, or the step is not learned from."""


@dataclass(frozen=True)
@checked(
    batch=at_least(1),
    replay=at_least(1),
    sync_every=at_least(1),
    epsilon_iterations=at_least(1),
    lanes=at_least(1),
    updates=at_least(1),
    max_gradient=above(0),
    min_priority=above(0),
    final_rate=from_to(0, 1),
    gamma=from_to(0, 1),
    alpha=from_to(0, 1),
    beta=from_to(0, 1),
    first_epsilon=from_to(0, 1),
    last_epsilon=from_to(0, 1),
)
class DqnSettings:
    """How a Q-network learns. An iteration is one gradient step.

    The defaults are those of Auto-MAP (Wang et al. 2020, section 3.4) for operator partitioning;
    what the paper leaves open is marked ours.

    Attributes:
        learning_rate: of Adam (Kingma and Ba 2015); 0 for a control that learns nothing.
        final_rate: share of the learning rate that is left at the last iteration, which it falls
            to linearly; 1 for a constant one, as published.
        batch: transitions of a gradient step.
        gamma: discount of later rewards.
        replay: transitions that are remembered.
        alpha: power of priorities (Schaul et al. 2016).
        beta: power of the importance weights that correct for them.
        sync_every: iterations after which the target network becomes the online one.
        first_epsilon: share of random actions at the beginning.
        last_epsilon: the same from `epsilon_iterations` on.
        epsilon_iterations: iterations over which it falls, linearly.
        double: the online network chooses the action that the target network values (van Hasselt
            et al. 2016).
        returns: see `Returns`.
        after_cut: see `AfterCut`.
        lanes: environments that run side by side (ours).
        greedy_lanes: how many of them take no random actions (ours), so that what has been learned
            is seen each round; their steps are learned from, too.
        updates: iterations per round (ours); a round is one episode in each lane.
        max_gradient: norm that gradients are cut to (ours).
        min_priority: added to errors before the power is taken (ours).

    Raises:
        ValueError: if a number is out of range.
    """

    learning_rate: float = 5e-4
    final_rate: float = 1.0
    batch: int = 64
    gamma: float = 0.6
    replay: int = 2000
    alpha: float = 0.2
    beta: float = 0.6
    sync_every: int = 100
    first_epsilon: float = 1.0
    last_epsilon: float = 0.1
    epsilon_iterations: int = 2000
    double: bool = True
    returns: Returns = "one-step"
    after_cut: AfterCut = "bootstrap"
    lanes: int = 8
    greedy_lanes: int = 1
    updates: int = 16
    max_gradient: float = 10.0
    min_priority: float = 1e-3

    def __post_init__(self) -> None:
        if not self.learning_rate >= 0:
            raise ValueError(f"learning_rate is {self.learning_rate}, below 0")
        if not 0 <= self.greedy_lanes <= self.lanes:
            raise ValueError(f"{self.greedy_lanes} of {self.lanes} lanes cannot be greedy")

    def epsilon_at(self, iteration: int) -> float:
        """Share of random actions after some iterations."""
        share = min(iteration / self.epsilon_iterations, 1.0)
        return self.first_epsilon + share * (self.last_epsilon - self.first_epsilon)


PUBLISHED = {
    "opp": DqnSettings(),
    "adp": DqnSettings(epsilon_iterations=500),
    "pp": DqnSettings(learning_rate=1e-3, epsilon_iterations=10_000),
}
"""Auto-MAP's settings by search: operator partitioning, data parallelism, pipeline planning."""


def improved(settings: DqnSettings) -> DqnSettings:
    """The same with what measured better (ours).

    Undiscounted returns up to the next exploratory action instead of bootstrapped ones, and a
    learning rate that falls to a tenth.
    """
    return dataclasses.replace(
        settings, learning_rate=1e-3, final_rate=0.1, gamma=1.0, returns="monte-carlo"
    )


StateT = TypeVar("StateT")


class Observation(NamedTuple):
    """Input of the network from E lanes.

    Attributes:
        candidates: `[E, A, F]` float32.
        context: `[E, G]` float32.
        mask: `[E, A]` bool.
    """

    candidates: Singles
    context: Singles
    mask: NDArray[np.bool_]


class Environment(Protocol[StateT]):
    """Episodes of at most `horizon` steps in all lanes at once, in step. States change in place.

    `observe` allows at least one action in every lane, also after its end. `step` gives rewards,
    and marks lanes whose episode is over. `score` rates last states as answers: larger is better,
    minus infinity is none. `answer` is kept of the best state.
    """

    @property
    def horizon(self) -> int: ...

    def reset(self, lanes: int) -> StateT: ...

    def observe(self, state: StateT) -> Observation: ...

    def step(
        self, state: StateT, action: NDArray[np.int64], alive: NDArray[np.bool_]
    ) -> tuple[Singles, NDArray[np.bool_]]: ...

    def score(self, state: StateT) -> Singles: ...

    def answer(self, state: StateT, lane: int) -> Any: ...


@dataclass(frozen=True)
class Progress:
    """Curves of N rounds.

    Attributes:
        greedy_score: `[N]`, mean of the greedy lanes; of all lanes where none is greedy.
        best_score: `[N]`, best so far.
        loss: `[N]`, mean over the gradient steps.
    """

    greedy_score: NDArray[np.float64]
    best_score: NDArray[np.float64]
    loss: NDArray[np.float64]


class Learner:
    """A Q-network that learns, and the best answer that its episodes ended in.

    Args:
        environment: what is learned.
        layout: of the network.
        settings: how it learns.
        seed: of weights and episodes; same seed, same bytes.
        iterations: gradient steps in all.

    Attributes:
        best: what `environment.answer` made of the state with the best score; None at first.
        best_score: its score.
        iterations: gradient steps so far.
        weights: of the online network.
    """

    def __init__(
        self,
        environment: Environment[Any],
        layout: QLayout,
        settings: DqnSettings,
        seed: int,
        iterations: int,
    ) -> None:
        self.best: Any = None
        self.best_score = -np.inf
        self.iterations = 0
        self.weights = initial_weights(layout, seed)
        self._environment, self._layout, self._settings = environment, layout, settings
        self._most = iterations
        self._target = self.weights
        self._adam = Adam(settings.max_gradient)
        self._rng = seeded_generator(seed, "dqn")
        width = layout.actions * (layout.features + 1) + layout.context
        self._rows = np.zeros((settings.replay, 2 * width + 3), np.float32)
        self._weight = np.zeros(settings.replay, np.float32)
        self._place = 0
        self._largest = np.float32(1.0)

    @property
    def finished(self) -> bool:
        """True once all iterations have been taken."""
        return self.iterations >= self._most

    @numpy_on_one_thread()
    def advance(self, rounds: int) -> Progress:
        """Plays and learns."""
        told = np.zeros((3, rounds))
        for row in range(rounds):
            greedy = self._play()
            shape = self._settings.updates, self._settings.batch
            losses = [self._learn(draws) for draws in self._rng.random(shape, np.float32)]
            told[:, row] = greedy, self.best_score, np.mean(losses)
        return Progress(*told)

    def _values(self, weights: dict[str, Singles], seen: Observation) -> Singles:
        return q_values(self._layout, weights, *seen)

    def _play(self) -> float:
        environment, settings = self._environment, self._settings
        lanes, horizon = settings.lanes, environment.horizon
        state = environment.reset(lanes)
        alive = np.ones(lanes, bool)
        uniform = self._rng.random((horizon, lanes, 2), np.float32)
        epsilon = np.full(lanes, settings.epsilon_at(self.iterations))
        epsilon[: settings.greedy_lanes] = 0.0
        seen_rows = np.zeros((horizon, lanes, (self._rows.shape[1] - 3) // 2), np.float32)
        actions = np.zeros((horizon, lanes), np.int64)
        rewards = np.zeros((horizon, lanes), np.float32)
        done = np.zeros((horizon, lanes), bool)
        living = np.zeros((horizon, lanes), bool)
        explored = np.ones((horizon + 1, lanes), bool)
        choices = np.zeros((horizon, lanes), np.int64)
        for step in range(horizon):
            seen = environment.observe(state)
            seen_rows[step] = _pack(seen)
            greedy = np.argmax(self._values(self.weights, seen), axis=-1)
            ranks = np.cumsum(seen.mask, axis=-1)
            wanted = np.floor(uniform[step, :, 1] * ranks[:, -1])
            drawn = np.argmax(ranks > wanted[:, None], axis=-1)
            action = np.where(uniform[step, :, 0] < epsilon, drawn, greedy)
            reward, over = environment.step(state, action, alive)
            actions[step], choices[step], living[step] = action, ranks[:, -1], alive
            rewards[step] = np.where(alive, reward, 0.0)
            done[step] = alive & over
            explored[step] = alive & (action != greedy)
            alive = alive & ~over
        done[-1] |= living[-1]
        self._keep(seen_rows, actions, rewards, done, living, explored, choices)
        score = environment.score(state)
        top = int(np.argmax(score))
        if score[top] > self.best_score:
            self.best, self.best_score = environment.answer(state, top), float(score[top])
        return float(score[: settings.greedy_lanes or lanes].mean())

    def _keep(
        self,
        seen: Singles,
        actions: NDArray[np.int64],
        rewards: Singles,
        done: NDArray[np.bool_],
        living: NDArray[np.bool_],
        explored: NDArray[np.bool_],
        choices: NDArray[np.int64],
    ) -> None:
        """Remembers the steps of a round."""
        settings = self._settings
        cut = explored if settings.returns == "monte-carlo" else np.ones_like(explored)
        reward, discount, until = cut_returns(rewards, done, cut, settings.gamma)
        wanted = living
        if settings.returns == "monte-carlo":
            wanted = wanted & (choices > 1)
            if settings.after_cut == "drop":
                wanted = wanted & (discount == 0.0)
        # What is seen after an end counts nothing.
        until = np.minimum(until, len(seen) - 1)
        after = seen[until, np.arange(seen.shape[1])[None, :]]
        numbers = np.stack([actions.astype(np.float32), reward, discount], axis=-1)
        new = np.concatenate([seen, after, numbers], axis=-1)[wanted]
        spots = (self._place + np.arange(len(new))) % len(self._rows)
        self._rows[spots] = new
        self._weight[spots] = self._largest
        self._place = (self._place + len(new)) % len(self._rows)

    def _learn(self, uniform: Singles) -> float:
        """One gradient step."""
        layout, settings = self._layout, self._settings
        total = np.cumsum(self._weight, dtype=np.float32)
        aim = (np.arange(len(uniform), dtype=np.float32) + uniform) / len(uniform) * total[-1]
        spots = np.searchsorted(total, aim, side="right")
        spots = np.minimum(spots, np.searchsorted(total, total[-1], side="left"))
        rows = self._rows[spots]
        width = (rows.shape[1] - 3) // 2
        before = _unpack(rows[:, :width], layout)
        after = _unpack(rows[:, width : 2 * width], layout)
        action = rows[:, -3].astype(np.int64)
        valued = self._values(self._target, after)
        chooses = self._values(self.weights, after) if settings.double else valued
        chosen = np.argmax(chooses, axis=-1)
        each = np.arange(len(rows))
        target = rows[:, -2] + rows[:, -1] * valued[each, chosen]
        chance = self._weight[spots] / max(total[-1], np.float32(1e-30))
        count = np.count_nonzero(self._weight)
        correction = np.maximum(count * chance, 1e-30) ** -settings.beta
        correction = (correction / correction.max()).astype(np.float32)
        error = self._values(self.weights, before)[each, action] - target
        slope = np.zeros(before.mask.shape, np.float32)
        slope[each, action] = correction * np.clip(error, -1.0, 1.0) / len(rows)
        gradient = gradients(
            layout,
            self.weights,
            before.candidates,
            before.context,
            before.mask.astype(np.float32),
            slope,
        )
        share = min(self.iterations / self._most, 1.0)
        rate = settings.learning_rate * (1.0 + share * (settings.final_rate - 1.0))
        self.weights = self._adam.update(self.weights, gradient, rate)
        self.iterations += 1
        if self.iterations % settings.sync_every == 0:
            self._target = self.weights
        new = ((np.abs(error) + settings.min_priority) ** settings.alpha).astype(np.float32)
        self._weight[spots] = new
        self._largest = max(self._largest, new.max())
        size = np.abs(error)
        loss = np.where(size <= 1.0, 0.5 * error * error, size - 0.5)
        return float(np.mean(correction * loss))


def cut_returns(
    reward: Singles, done: NDArray[np.bool_], cut: NDArray[np.bool_], gamma: float
) -> tuple[Singles, Singles, NDArray[np.int64]]:
    """Returns up to the end of the episode or the next step that is marked as a cut.

    Args:
        reward: `[T, E]`, each column an episode.
        done: `[T, E]`, steps that an episode ends with.
        cut: `[T + 1, E]`, steps before which returns end.
        gamma: discount.

    Returns:
        `[T, E]` each: discounted rewards up to a step; the weight of the value of the state at that
        step, 0 at an end; and that step.
    """
    steps = len(reward)
    total, discount = np.zeros_like(reward), np.zeros_like(reward)
    until = np.full(reward.shape, steps, np.int64)
    for step in reversed(range(steps)):
        total[step] = reward[step]
        discount[step] = np.where(done[step], 0.0, gamma)
        until[step] = step + 1
        if step + 1 < steps:
            on = ~(done[step] | cut[step + 1])
            total[step] += np.where(on, gamma * total[step + 1], 0.0)
            discount[step] = np.where(on, gamma * discount[step + 1], discount[step])
            until[step] = np.where(on, until[step + 1], until[step])
    return total, discount, until


def _pack(seen: Observation) -> Singles:
    flat = seen.candidates.reshape(len(seen.mask), -1)
    return np.concatenate([flat, seen.context, seen.mask], axis=-1, dtype=np.float32)


def _unpack(rows: Singles, layout: QLayout) -> Observation:
    first = layout.actions * layout.features
    candidates = rows[:, :first].reshape(len(rows), layout.actions, layout.features)
    context = rows[:, first : first + layout.context]
    return Observation(candidates, context, rows[:, first + layout.context :] > 0.5)
