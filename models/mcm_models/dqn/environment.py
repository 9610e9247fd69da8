"""What a decision problem implements to be learned: pure functions over a state, for `jax.jit`."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar

import jax

Array = jax.Array
State = Any
"""Any pytree of arrays of fixed shapes."""

ParamsT_contra = TypeVar("ParamsT_contra", contravariant=True)
"""Pytree of arrays that describes the instances; arguments of the program, so that one compilation
serves all instances of the same shapes."""


class Observation(NamedTuple):
    """What the network sees of a state.

    Attributes:
        candidates: `[A, F]` float32, features of each action; F may be 0 for a flat network.
        context: `[G]` float32, what all actions share; G may be 0.
        mask: `[A]` bool, actions that may be taken. At least one, also after the end.
    """

    candidates: Array
    context: Array
    mask: Array


class Environment(Protocol[ParamsT_contra]):
    """Episodes of at most `horizon` steps with `num_actions` actions each.

    An implementation is a frozen dataclass of plain numbers: it is hashed as a static argument of
    the program, and all arrays are in `params` or in the state. All functions are for one
    instance; `training` vectorises them over lanes with `jax.vmap` and scans them over `horizon`
    steps. A lane that is done is frozen until the others are, so that episodes stay in step; what
    `step` says of a state after the end is ignored.
    """

    @property
    def num_actions(self) -> int:
        """A."""
        ...

    @property
    def horizon(self) -> int:
        """Most steps of an episode; the scan always has as many."""
        ...

    def reset(self, key: Array, params: ParamsT_contra) -> State:
        """The first state of an episode.

        May draw an instance with `key`, a key of `jax.random` that no other episode has, and keep
        it in the state.
        """
        ...

    def observe(self, state: State, params: ParamsT_contra) -> Observation:
        """What the network sees."""
        ...

    def step(
        self, state: State, action: Array, params: ParamsT_contra
    ) -> tuple[State, Array, Array]:
        """Takes an action that the mask allows.

        Args:
            state: of one instance, not done.
            action: int32 scalar.
            params: of the instances.

        Returns:
            The next state, the reward (float32 scalar) and whether the episode is over (bool
            scalar).
        """
        ...

    def score(self, state: State, params: ParamsT_contra) -> Array:
        """How good a state is as an answer, float32 scalar; larger is better.

        Minus infinity for one that is none. Asked of every state that an episode ends in, and the
        best of them is kept.
        """
        ...
