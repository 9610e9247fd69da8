"""Deep Q-learning of decisions: double, dueling, with prioritised replay, in NumPy.

As Auto-MAP (Wang et al. 2020, sections 3.2 to 3.4), with undiscounted returns up to the next
exploratory action and a learning rate that falls (ours). A *round* is one episode in each lane, in
step, then `UPDATES` gradient steps; the best decision that any episode ended in counts. In a second
stage, episodes start from that decision with what it replicates undecided again.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.processes.one_thread import numpy_on_one_thread
from mcm_models.cards import Singles, Weights, normal_weights
from mcm_passes.parallelism.decisions.decision_problem import DecisionObjective, DecisionProblem
from mcm_passes.parallelism.deep_q.decision_game import (
    CONTEXT,
    PARTITION,
    DecisionGame,
    decision_game,
)


class Recipe(NamedTuple):
    """How decisions are learned.

    With linkage groups `OPERATORS` found the optimum of the oracle on T5 and VGG-19 with each of
    five seeds, and so did `INPUTS`; docs/explanation/parallel-search.md calls them `opp` and `adp`.

    Attributes:
        iterations: gradient steps over which the learning rate falls, in each stage.
        rounds: of each stage.
        epsilon_iterations: gradient steps over which the share of random actions falls.
        lanes: environments that run side by side; the first takes no random actions.
        width: of the hidden layers.
        masked: see `DecisionGame`. Has no effect without linkage groups, which would not be known
            before a conflict.
    """

    iterations: tuple[int, int]
    rounds: tuple[int, int]
    epsilon_iterations: int
    lanes: int
    width: int
    masked: bool


OPERATORS = Recipe((1500, 500), (96, 32), 1000, 8, 32, masked=True)
INPUTS = Recipe((120, 40), (8, 3), 100, 4, 16, masked=False)

BATCH, REPLAY, UPDATES, SYNC_EVERY = 64, 2000, 16, 100
"""Transitions of a gradient step, those that are remembered, gradient steps of a round, and
those after which the target network becomes the online one."""
LEARNING_RATE, FINAL_RATE = 1e-3, 0.1
"""The first rate of Adam, and the share of it that is left at the end."""
FIRST_EPSILON, LAST_EPSILON = 1.0, 0.1
"""Share of random actions."""
ALPHA, BETA, MIN_PRIORITY = 0.2, 0.6, 1e-3
"""Powers of priorities and of the weights that correct for them (Schaul et al. 2016)."""
MAX_GRADIENT = 10.0
"""Norm that gradients are cut to."""
LAYERS = 2
FORBIDDEN = -1e9
"""Value of an action that may not be taken."""


def search_decision(
    problem: DecisionProblem,
    recipe: Recipe,
    seed: int,
    objective: DecisionObjective,
    *,
    forced: NDArray[np.bool_] | None = None,
    linkage: bool = True,
) -> NDArray[np.bool_]:
    """`[K]`, the classes that are partitioned in the best decision that is learned.

    Args:
        problem: what is decided about.
        recipe: how.
        seed: of network and episodes; the same seed gives the same answer.
        objective: what a decision is worth.
        forced: `[K]` bool, classes that must be partitioned.
        linkage: whether a linkage group is decided at once, or one dim of one tensor at a time.

    Raises:
        ValueError: if the forced classes are not feasible.
    """
    if forced is None:
        forced = np.zeros(problem.num_classes, dtype=bool)
    elif not problem.is_feasible(forced):
        raise ValueError("the forced classes cannot all be partitioned")
    game = decision_game(problem, objective, linkage=linkage, masked=recipe.masked and linkage)
    if forced[game.item_class].all():
        return forced
    best, value = _learned(game, recipe, seed, 0, forced)
    if linkage and not best[game.item_class].all():
        more, more_value = _learned(game, recipe, seed, 1, best)
        best = more if more_value > value else best
    if not problem.is_feasible(best):
        raise AssertionError("the search broke the rules of its problem")
    return best


def _learned(
    game: DecisionGame, recipe: Recipe, seed: int, stage: int, decided: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], float]:
    """The best decision of a stage and its value; what is decided is not asked about again."""
    open_class = np.where(decided[game.item_class], np.int32(-1), game.item_class)
    start = np.where(decided, np.int8(1), np.int8(-1))
    game = replace(game, item_class=open_class, start=start)
    learner = Learner(game, recipe, 2 * seed + stage, recipe.iterations[stage])
    learner.learn(recipe.rounds[stage])
    return learner.best, learner.best_value


class Learner:
    """A Q-network that learns a game, and the best decision that its episodes ended in.

    Attributes:
        best: `[K]` bool.
        best_value: its value.
        weights: of the online network.
    """

    def __init__(self, game: DecisionGame, recipe: Recipe, seed: int, iterations: int) -> None:
        self.best, self.best_value = game.start == PARTITION, -np.inf
        self.weights = self._target = first_weights(recipe.width, seed)
        self._game, self._recipe, self._most = game, recipe, iterations
        self._iterations, self._adam = 0, Adam()
        self._rng = seeded_generator(seed, "dqn")
        replay = max(REPLAY, recipe.lanes * len(game.item_class))
        # What is seen before and after, the action, the return and the discount of what follows.
        self._rows = np.zeros((replay, 2 * (CONTEXT + 2) + 3), np.float32)
        self._priority = np.zeros(replay, np.float32)
        self._place = 0
        self._largest = np.float32(1.0)

    @numpy_on_one_thread()
    def learn(self, rounds: int) -> None:
        """Plays and learns."""
        for _ in range(rounds):
            self._play()
            for draws in self._rng.random((UPDATES, BATCH), np.float32):
                self._improve(draws)

    def _play(self) -> None:
        """One episode in each lane; steps with a choice are remembered."""
        game, lanes, steps = self._game, self._recipe.lanes, len(self._game.item_class)
        state, alive = game.reset(lanes), np.ones(lanes, bool)
        uniform = self._rng.random((steps, lanes, 2), np.float32)
        share = min(self._iterations / self._recipe.epsilon_iterations, 1.0)
        epsilon = np.full(lanes, FIRST_EPSILON + share * (LAST_EPSILON - FIRST_EPSILON))
        epsilon[0] = 0.0
        seen = np.zeros((steps, lanes, CONTEXT + 2), np.float32)
        actions = np.zeros((steps, lanes), np.float32)
        rewards = np.zeros((steps, lanes), np.float32)
        done, explored, wanted = (np.zeros((steps, lanes), bool) for _ in range(3))
        for step in range(steps):
            context, mask = game.observe(state)
            seen[step] = np.concatenate([context, mask], axis=-1)
            greedy = np.argmax(q_values(self.weights, context, mask), axis=-1)
            ranks = np.cumsum(mask, axis=-1)
            rank = np.floor(uniform[step, :, 1] * ranks[:, -1])
            drawn = np.argmax(ranks > rank[:, None], axis=-1)
            action = np.where(uniform[step, :, 0] < epsilon, drawn, greedy)
            reward, over = game.step(state, action, alive)
            actions[step], rewards[step] = action, np.where(alive, reward, 0.0)
            done[step], explored[step] = alive & over, alive & (action != greedy)
            wanted[step] = alive & mask.all(axis=-1)
            alive = alive & ~over
        returns, discount, until = cut_returns(rewards, done, explored)
        # What is seen after an end counts nothing.
        after = seen[np.minimum(until, steps - 1), np.arange(lanes)]
        numbers = np.stack([actions, returns, discount], axis=-1)
        self._remember(np.concatenate([seen, after, numbers], axis=-1)[wanted])
        top = int(np.argmax(state.value))
        if state.value[top] > self.best_value:
            self.best, self.best_value = state.decision[top] == PARTITION, float(state.value[top])

    def _remember(self, new: Singles) -> None:
        spots = (self._place + np.arange(len(new))) % len(self._rows)
        self._rows[spots], self._priority[spots] = new, self._largest
        self._place = (self._place + len(new)) % len(self._rows)

    def _improve(self, uniform: Singles) -> None:
        """One gradient step on transitions that are drawn by priority."""
        total = np.cumsum(self._priority, dtype=np.float32)
        aim = (np.arange(BATCH, dtype=np.float32) + uniform) / BATCH * total[-1]
        spots = np.searchsorted(total, aim, side="right")
        spots = np.minimum(spots, np.searchsorted(total, total[-1], side="left"))
        rows, each = self._rows[spots], np.arange(BATCH)
        context, mask = _unpacked(rows[:, : CONTEXT + 2])
        after = _unpacked(rows[:, CONTEXT + 2 : -3])
        action = rows[:, -3].astype(np.int64)
        chosen = np.argmax(q_values(self.weights, *after), axis=-1)
        target = rows[:, -2] + rows[:, -1] * q_values(self._target, *after)[each, chosen]
        chance = self._priority[spots] / max(total[-1], np.float32(1e-30))
        count = np.count_nonzero(self._priority)
        correction = np.maximum(count * chance, 1e-30) ** -BETA
        correction = (correction / correction.max()).astype(np.float32)
        error = q_values(self.weights, context, mask)[each, action] - target
        slope = np.zeros(mask.shape, np.float32)
        slope[each, action] = correction * np.clip(error, -1.0, 1.0) / BATCH
        share = min(self._iterations / self._most, 1.0)
        rate = LEARNING_RATE * (1.0 + share * (FINAL_RATE - 1.0))
        gradient = gradients(self.weights, context, mask, slope)
        self.weights = self._adam.update(self.weights, gradient, rate)
        self._iterations += 1
        if self._iterations % SYNC_EVERY == 0:
            self._target = self.weights
        new = ((np.abs(error) + MIN_PRIORITY) ** ALPHA).astype(np.float32)
        self._priority[spots] = new
        self._largest = max(self._largest, new.max())


def cut_returns(
    reward: Singles, done: NDArray[np.bool_], cut: NDArray[np.bool_]
) -> tuple[Singles, Singles, NDArray[np.int64]]:
    """Returns up to the end of the episode or the next step that is marked as a cut.

    Args:
        reward: `[T, E]`, each column an episode.
        done: `[T, E]`, steps that an episode ends with.
        cut: `[T, E]`, steps before which returns end.

    Returns:
        `[T, E]` each: rewards up to a step; the weight of the value of the state at that step, 0
        at the end; that step.
    """
    total, discount = reward.copy(), np.where(done, np.float32(0.0), np.float32(1.0))
    until = np.broadcast_to(np.arange(1, len(reward) + 1)[:, None], reward.shape).copy()
    for step in reversed(range(len(reward) - 1)):
        on = ~(done[step] | cut[step + 1])
        total[step] += np.where(on, total[step + 1], 0.0)
        discount[step] = np.where(on, discount[step + 1], discount[step])
        until[step] = np.where(on, until[step + 1], until[step])
    return total, discount, until


def _unpacked(rows: Singles) -> tuple[Singles, NDArray[np.bool_]]:
    return rows[:, :CONTEXT], rows[:, CONTEXT:] > 0.5


def first_weights(width: int, seed: int) -> Weights:
    """Random weights (He et al. 2015), the heads small; a layer sees the action, then the context.

    Matrices are `[inputs, outputs]`.
    """

    def deviation(name: str, shape: tuple[int, ...]) -> float | None:
        if name.endswith("/bias"):
            return None
        return math.sqrt(2.0 / shape[0]) if name.startswith("layer") else 0.01

    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(LAYERS):
        shapes[f"layer{layer}/kernel"] = (width if layer else 2 + CONTEXT, width)
        shapes[f"layer{layer}/bias"] = (width,)
    shapes |= {"advantage/kernel": (width, 1), "value/kernel": (width, 1), "value/bias": (1,)}
    return normal_weights(shapes, seed, deviation)


def q_values(weights: Weights, context: Singles, mask: NDArray[np.bool_]) -> Singles:
    """Values of both actions, `[E, 2]`; `FORBIDDEN` outside the mask."""
    share = _share(mask)
    # The context's part of the first layer is the same for both actions.
    first = weights["layer0/kernel"]
    shared = context @ first[2:] + weights["layer0/bias"]
    hidden = np.maximum(first[:2] + shared[:, None, :], 0.0)
    for k in range(1, LAYERS):
        hidden = np.maximum(hidden @ weights[f"layer{k}/kernel"] + weights[f"layer{k}/bias"], 0.0)
    advantage = (hidden @ weights["advantage/kernel"])[..., 0]
    pooled = np.sum(hidden * share[..., None], axis=-2)
    value = pooled @ weights["value/kernel"] + weights["value/bias"]
    mean = np.sum(advantage * share, axis=-1, keepdims=True)
    return np.where(mask, value + advantage - mean, FORBIDDEN)


def gradients(
    weights: Weights, context: Singles, mask: NDArray[np.bool_], slope: Singles
) -> Weights:
    """Gradient of `sum(slope * q_values(...))` by each weight."""
    share = _share(mask)
    each = np.broadcast_to(np.eye(2, dtype=np.float32), (*mask.shape, 2))
    spread = np.broadcast_to(context[:, None], (*mask.shape, CONTEXT))
    kept = [np.concatenate([each, spread], axis=-1)]
    for k in range(LAYERS):
        inputs = kept[-1] @ weights[f"layer{k}/kernel"] + weights[f"layer{k}/bias"]
        kept.append(np.maximum(inputs, np.float32(0.0)))
    total = slope.sum(axis=-1, keepdims=True)
    of_advantage = slope - share * total
    found: Weights = {
        "value/bias": total.sum(axis=0),
        "advantage/kernel": np.einsum("bah,ba->h", kept[-1], of_advantage)[:, None],
        "value/kernel": np.einsum("bah,ba->bh", kept[-1], share).T @ total,
    }
    back = of_advantage[..., None] * weights["advantage/kernel"][:, 0]
    back = back + (share * total)[..., None] * weights["value/kernel"][:, 0]
    for k in reversed(range(LAYERS)):
        back = back * (kept[k + 1] > 0)
        rows, slopes = (part.reshape(-1, part.shape[-1]) for part in (kept[k], back))
        found[f"layer{k}/kernel"] = rows.T @ slopes
        found[f"layer{k}/bias"] = slopes.sum(axis=0)
        if k:
            back = back @ weights[f"layer{k}/kernel"].T
    return found


def _share(mask: NDArray[np.bool_]) -> Singles:
    """Share of each allowed action in the mean of all."""
    allowed = mask.astype(np.float32)
    return allowed / np.maximum(allowed.sum(axis=-1, keepdims=True), 1.0)


class Adam:
    """Adam (Kingma and Ba 2015) behind a cut of the gradient's norm."""

    def __init__(self) -> None:
        self._step = 0
        self._mean: Weights = {}
        self._square: Weights = {}

    def update(self, weights: Weights, gradient: Weights, rate: float) -> Weights:
        """New weights."""
        norm = float(np.sqrt(sum(float((part * part).sum()) for part in gradient.values())))
        cut = np.float32(min(1.0, MAX_GRADIENT / max(norm, 1e-30)))
        self._step += 1
        size = np.float32(rate * np.sqrt(1.0 - 0.999**self._step) / (1.0 - 0.9**self._step))
        new: Weights = {}
        for name, weight in weights.items():
            slope = gradient[name] * cut
            mean = self._mean.setdefault(name, np.zeros_like(weight))
            square = self._square.setdefault(name, np.zeros_like(weight))
            mean += np.float32(0.1) * (slope - mean)
            square += np.float32(0.001) * (slope * slope - square)
            change: Singles = size * mean / (np.sqrt(square) + np.float32(1e-8))
            new[name] = weight - change
        return new
