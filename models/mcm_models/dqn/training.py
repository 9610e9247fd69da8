"""Deep Q-learning in one program: episodes in all lanes, replay and gradient steps.

A *round* is one episode in each lane, in step, then `updates` gradient steps. Rounds run in a scan,
so Python is left only between calls of `advance`. Sums come out the same on every run if NumPy and
JAX use one thread (`mcm_compiler.one_thread`), and then the same seed gives the same bytes.

    environment = MyEnvironment(...)              # a frozen dataclass, see `environment`
    layout = QLayout(features=F, context=G, actions=A)
    learner = Learner.of(environment, params, layout, PUBLISHED["pp"], seed=0, iterations=10_000)
    while not learner.finished:
        progress = learner.advance(50)            # 50 rounds
    learner.best, learner.best_score, learner.weights
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax

from mcm_compiler.randomness import seeded_generator
from mcm_models.dqn.environment import Environment, Observation, State
from mcm_models.dqn.layout import QLayout, Singles, Weights, initial_weights, q_values
from mcm_models.dqn.replay import (
    Replay,
    Transitions,
    draw,
    empty_replay,
    importance,
    pack,
    recall,
    remember,
    reweigh,
    unpack,
)
from mcm_models.dqn.settings import DqnSettings
from mcm_models.dqn.targets import cut_returns, double_target, huber

Array = jax.Array


_QUICK: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False}


class Program(NamedTuple):
    """What a compilation depends on, beside shapes.

    Attributes:
        environment: what is learned.
        layout: of the network.
        settings: how.
        quickly: by an older and simpler part of XLA: compiled in half the time, and some 25 %
            slower after that.
    """

    environment: Environment[Any]
    layout: QLayout
    settings: DqnSettings
    quickly: bool = False


class Memory(NamedTuple):
    """All that changes while learning.

    Attributes:
        weights: of the online network, all in one row: one array to step is quicker to compile.
        target: of the target network, likewise.
        adam: state of the optimizer.
        replay: transitions.
        iteration: gradient steps so far.
        most: gradient steps in all, which the learning rate falls over.
        best: state with the best score of all that episodes ended in; zeros while `best_score` is
            minus infinity.
        best_score: its score.
    """

    weights: Array
    target: Array
    adam: Any
    replay: Replay
    iteration: Array
    most: Array
    best: State
    best_score: Array


class Progress(NamedTuple):
    """What happened, per round; N rounds.

    Attributes:
        score: `[N]`, mean score of the lanes' last states.
        greedy_score: `[N]`, of the greedy lanes; of all lanes where none is greedy.
        best_score: `[N]`, best so far.
        reward: `[N]`, mean sum of rewards of an episode.
        steps: `[N]`, mean steps of an episode.
        loss: `[N]`, mean over the gradient steps.
        epsilon: `[N]`, share of random actions.
    """

    score: Any
    greedy_score: Any
    best_score: Any
    reward: Any
    steps: Any
    loss: Any
    epsilon: Any


class Draws(NamedTuple):
    """Random numbers of N rounds of E lanes, T steps, U gradient steps and batches of B.

    Attributes:
        keys: `[N, E, 2]` uint32, of the instances.
        actions: `[N, T, E, 2]`, from 0 up to 1.
        batches: `[N, U, B]`, likewise.
    """

    keys: Any
    actions: Any
    batches: Any


class _Step(NamedTuple):
    """One step of all lanes; E lanes."""

    seen: Array
    choices: Array
    action: Array
    reward: Array
    done: Array
    alive: Array
    explored: Array


def _optimizer(settings: DqnSettings) -> optax.GradientTransformation:
    """Adam for a step of size 1, which `_rate` scales."""
    return optax.chain(optax.clip_by_global_norm(settings.max_gradient), optax.adam(1.0))


def _rate(settings: DqnSettings, memory: Memory) -> Array:
    share = jnp.minimum(memory.iteration / memory.most, 1.0)
    return settings.learning_rate * (1.0 + share * (settings.final_rate - 1.0))


def _epsilon(settings: DqnSettings, iteration: Array) -> Array:
    share = jnp.minimum(iteration / settings.epsilon_iterations, 1.0)
    return settings.first_epsilon + share * (settings.last_epsilon - settings.first_epsilon)


def _by_name(layout: QLayout, row: Array) -> Weights:
    """Weights out of one row."""
    weights: Weights = {}
    start = 0
    for name, shape in layout.shapes().items():
        end = start + math.prod(shape)
        weights[name] = row[start:end].reshape(shape)
        start = end
    return weights


def _values(layout: QLayout, weights: Weights, seen: Observation) -> Array:
    return q_values(layout, weights, seen.candidates, seen.context, seen.mask, jnp)


def _choose(values: Array, mask: Array, uniform: Array, epsilon: Array) -> tuple[Array, Array]:
    """Epsilon-greedy `[E]`, and where the draw was not the greedy action.

    Args:
        values: `[E, A]`.
        mask: `[E, A]`.
        uniform: `[E, 2]`.
        epsilon: `[E]`.
    """
    greedy = jnp.argmax(values, axis=-1)
    # A product with a triangle: a cumulative sum compiles to far more code.
    ranks = mask.astype(jnp.float32) @ jnp.triu(jnp.ones((mask.shape[1],) * 2))
    wanted = jnp.floor(uniform[:, 1] * ranks[:, -1])
    drawn = jnp.argmax(ranks > wanted[:, None], axis=-1)
    action = jnp.where(uniform[:, 0] < epsilon, drawn, greedy)
    return action.astype(jnp.int32), action != greedy


def _play(
    program: Program, params: Any, weights: Array, draws: Draws, epsilon: Array
) -> tuple[State, _Step]:
    """One episode in each lane: the last states, and the steps `[T, E]`."""
    environment, settings = program.environment, program.settings
    lanes = settings.lanes
    keys = jax.random.wrap_key_data(draws.keys)
    observe = jax.vmap(environment.observe, (0, None))
    step = jax.vmap(environment.step, (0, 0, None))
    per_lane = jnp.where(jnp.arange(lanes) < settings.greedy_lanes, 0.0, epsilon)
    named = _by_name(program.layout, weights)

    def move(carry: tuple[State, Array], uniform: Array) -> tuple[tuple[State, Array], _Step]:
        state, alive = carry
        seen = observe(state, params)
        values = _values(program.layout, named, seen)
        action, explored = _choose(values, seen.mask, uniform, per_lane)
        moved, reward, over = step(state, action, params)

        def kept(new: Array, old: Array) -> Array:
            return jnp.where(alive.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        record = _Step(
            seen=pack(seen),
            choices=jnp.sum(seen.mask, axis=-1),
            action=action,
            reward=jnp.where(alive, reward, 0.0),
            done=alive & over,
            alive=alive,
            explored=explored & alive,
        )
        return (jax.tree.map(kept, moved, state), alive & ~over), record

    start = jax.vmap(environment.reset, (0, None))(keys, params)
    (state, _), steps = jax.lax.scan(move, (start, jnp.ones(lanes, bool)), draws.actions)
    return state, steps


def _transitions(settings: DqnSettings, steps: _Step) -> tuple[Transitions, Array]:
    """What there is to learn from a round, `[T * E]`, and which of it is wanted."""
    horizon, lanes = steps.reward.shape
    if settings.returns == "one-step":
        cut = jnp.ones((horizon + 1, lanes), bool)
    else:
        cut = jnp.concatenate([steps.explored, jnp.ones((1, lanes), bool)])
    # At the horizon an episode ends whatever the environment says.
    done = steps.done.at[-1].set(steps.alive[-1])
    returns = cut_returns(steps.reward, done, cut, settings.gamma)
    wanted = steps.alive
    if settings.returns == "monte-carlo":
        wanted &= steps.choices > 1
        if settings.after_cut == "drop":
            wanted &= returns.discount == 0.0
    # What is seen after an end counts nothing.
    until = jnp.minimum(returns.until, horizon - 1)
    after = steps.seen[until, jnp.arange(lanes)[None, :]]
    made = Transitions(steps.seen, steps.action, returns.reward, returns.discount, after)

    def flat(part: Array) -> Array:
        return part.reshape(horizon * lanes, *part.shape[2:])

    return jax.tree.map(flat, made), flat(wanted)


def _learn(program: Program, memory: Memory, uniform: Array) -> tuple[Memory, Array]:
    """One gradient step."""
    layout, settings = program.layout, program.settings
    replay = memory.replay
    spots = draw(replay.weight, uniform)
    batch = recall(replay, spots)
    target_weights = _by_name(layout, memory.target)
    valued = _values(layout, target_weights, unpack(batch.after, layout))
    # Before and after in one product: half the code to compile.
    both = unpack(jnp.concatenate([batch.before, batch.after]), layout)
    correction = importance(replay.weight, spots, settings.beta)

    def loss_of(weights: Array) -> tuple[Array, Array]:
        values, online = jnp.split(_values(layout, _by_name(layout, weights), both), 2)
        online = jax.lax.stop_gradient(online)
        target = double_target(batch.reward, batch.discount, online, valued, settings.double)
        error = jnp.take_along_axis(values, batch.action[:, None], axis=-1)[:, 0] - target
        return jnp.mean(correction * huber(error)), error

    (loss, error), gradient = jax.value_and_grad(loss_of, has_aux=True)(memory.weights)
    step, state = _optimizer(settings).update(gradient, memory.adam, memory.weights)
    weights: Array = memory.weights + _rate(settings, memory) * cast("Array", step)
    iteration = memory.iteration + 1
    sync = iteration % settings.sync_every == 0
    return memory._replace(
        weights=weights,
        target=jnp.where(sync, weights, memory.target),
        adam=state,
        replay=reweigh(replay, spots, error, settings.alpha, settings.min_priority),
        iteration=iteration,
    ), loss


def _round(program: Program, params: Any, memory: Memory, draws: Draws) -> tuple[Memory, Progress]:
    settings = program.settings
    epsilon = _epsilon(settings, memory.iteration)
    state, steps = _play(program, params, memory.weights, draws, epsilon)
    score = jax.vmap(program.environment.score, (0, None))(state, params)
    top = jnp.argmax(score)
    better = score[top] > memory.best_score

    def kept(new: Array, old: Array) -> Array:
        return jnp.where(better, new[top], old)

    made, wanted = _transitions(settings, steps)
    memory = memory._replace(
        best=jax.tree.map(kept, state, memory.best),
        best_score=jnp.maximum(memory.best_score, score[top]),
        replay=remember(memory.replay, made, wanted),
    )

    def learn(memory: Memory, uniform: Array) -> tuple[Memory, Array]:
        return _learn(program, memory, uniform)

    memory, losses = jax.lax.scan(learn, memory, draws.batches)
    progress = Progress(
        score=jnp.mean(score),
        greedy_score=jnp.mean(score[: settings.greedy_lanes or settings.lanes]),
        best_score=memory.best_score,
        reward=jnp.mean(jnp.sum(steps.reward, axis=0)),
        steps=jnp.mean(jnp.sum(steps.alive, axis=0, dtype=jnp.float32)),
        loss=jnp.mean(losses),
        epsilon=epsilon,
    )
    return memory, progress


def _advance(
    program: Program, params: Any, memory: Memory, draws: Draws
) -> tuple[Memory, Progress]:
    def one(memory: Memory, draws: Draws) -> tuple[Memory, Progress]:
        return _round(program, params, memory, draws)

    return jax.lax.scan(one, memory, draws)


@cache
def _compiled(quickly: bool) -> Callable[..., tuple[Memory, Progress]]:
    options = _QUICK if quickly and _is_known(_QUICK) else None
    return jax.jit(
        _advance,
        static_argnames=("program",),
        donate_argnames=("memory",),
        compiler_options=options,
    )


def _is_known(options: dict[str, Any]) -> bool:
    """Whether this version of XLA has these options."""
    try:
        jax.jit(jnp.negative, compiler_options=options).lower(jnp.float32(0.0)).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


class Learner:
    """A Q-network that learns, and the best state that its episodes ended in.

    Attributes:
        program: what it was made of.
        seconds: wall time of all calls of `advance`, the first of which compiles.
    """

    def __init__(
        self, program: Program, params: Any, memory: Memory, rng: np.random.Generator
    ) -> None:
        self.program = program
        self.seconds = 0.0
        self._params = params
        self._memory = memory
        self._rng = rng
        self._iterations = int(memory.most)

    @classmethod
    def of(
        cls,
        environment: Environment[Any],
        params: Any,
        layout: QLayout,
        settings: DqnSettings,
        seed: int,
        iterations: int,
        weights: dict[str, Singles] | None = None,
        *,
        quickly: bool = False,
    ) -> Learner:
        """One that has not learned yet.

        Args:
            environment: what is learned.
            params: its instances, a pytree of arrays.
            layout: of the network.
            settings: how it learns.
            seed: of weights and episodes; same seed, same bytes.
            iterations: gradient steps that `advance` will take in all.
            weights: to start from, instead of random ones.
            quickly: see `Program`; for searches of few iterations.

        Raises:
            ValueError: if a round has more transitions than the replay holds.
        """
        if environment.horizon * settings.lanes > settings.replay:
            raise ValueError(
                f"a replay of {settings.replay} cannot hold {settings.lanes} episodes of "
                f"{environment.horizon} steps"
            )
        program = Program(environment, layout, settings, quickly)
        named = initial_weights(layout, seed) if weights is None else weights
        row = np.concatenate([named[name].reshape(-1) for name in layout.shapes()])
        shapes = jax.eval_shape(environment.reset, jax.random.key(0), params)
        width = layout.actions * (layout.features + 1) + layout.context
        memory = Memory(
            weights=jnp.asarray(row),
            target=jnp.array(row),
            adam=_optimizer(settings).init(jnp.asarray(row)),
            replay=empty_replay(settings.replay, width),
            iteration=jnp.int32(0),
            most=jnp.int32(iterations),
            best=jax.tree.map(jnp.zeros_like, shapes),
            best_score=jnp.float32(-jnp.inf),
        )
        rng = seeded_generator(seed, "dqn")
        return cls(program, jax.tree.map(jnp.asarray, params), memory, rng)

    @property
    def iterations(self) -> int:
        """Gradient steps so far."""
        return int(self._memory.iteration)

    @property
    def finished(self) -> bool:
        """Whether all iterations have been taken."""
        return self.iterations >= self._iterations

    @property
    def rounds_left(self) -> int:
        """Rounds until all iterations have been taken."""
        left = self._iterations - self.iterations
        return max(0, -(-left // self.program.settings.updates))

    @property
    def weights(self) -> dict[str, Singles]:
        """Of the online network."""
        named = _by_name(self.program.layout, self._memory.weights)
        return {name: np.asarray(array) for name, array in named.items()}

    @property
    def best(self) -> Any:
        """The state with the best score, as NumPy arrays; zeros where there is none."""
        return jax.tree.map(np.asarray, self._memory.best)

    @property
    def best_score(self) -> float:
        """Its score; minus infinity where no episode ended in an answer."""
        return float(self._memory.best_score)

    def advance(self, rounds: int) -> Progress:
        """Plays and learns; each number of rounds is compiled once.

        Returns:
            NumPy arrays with one number per round.
        """
        started = time.perf_counter()
        settings, steps = self.program.settings, self.program.environment.horizon
        draws = Draws(
            keys=self._rng.integers(1 << 32, size=(rounds, settings.lanes, 2), dtype=np.uint32),
            actions=self._rng.random((rounds, steps, settings.lanes, 2), np.float32),
            batches=self._rng.random((rounds, settings.updates, settings.batch), np.float32),
        )
        run = _compiled(self.program.quickly)
        self._memory, progress = run(self.program, self._params, self._memory, draws)
        done: list[npt.NDArray[np.float32]] = [np.asarray(part) for part in progress]
        self.seconds += time.perf_counter() - started
        return Progress(*done)
