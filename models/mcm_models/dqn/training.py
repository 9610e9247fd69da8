"""Deep Q-learning in one program: episodes in all lanes, replay and gradient steps.

A *round* is one episode in each lane, in step, then `updates` gradient steps. Rounds run in a scan,
so Python is left only between calls of `advance`. Sums come out the same on every run if NumPy and
JAX use one thread (`mcm_compiler.processes.one_thread`), and then the same seed gives the same
bytes.

    environment = MyEnvironment(...)              # a frozen dataclass, see `environment`
    layout = QLayout(features=F, context=G, actions=A)
    learner = Learner.of(environment, params, layout, PUBLISHED["pp"], seed=0, iterations=10_000)
    while not learner.finished:
        progress = learner.advance(50)            # 50 rounds
    learner.best, learner.best_score, learner.weights
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_models.dqn.environment import Environment
from mcm_models.dqn.episodes import Draws, Program, weights_by_name
from mcm_models.dqn.layout import QLayout, Singles, initial_weights
from mcm_models.dqn.replay import empty_replay
from mcm_models.dqn.rounds import Memory, Progress, compiled, optimizer
from mcm_models.dqn.settings import DqnSettings


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
            adam=optimizer(settings).init(jnp.asarray(row)),
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
    def weights(self) -> dict[str, Singles]:
        """Of the online network."""
        named = weights_by_name(self.program.layout, self._memory.weights)
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
        run = compiled(self.program.quickly)
        self._memory, progress = run(self.program, self._params, self._memory, draws)
        done: list[npt.NDArray[np.float32]] = [np.asarray(part) for part in progress]
        self.seconds += time.perf_counter() - started
        return Progress(*done)
