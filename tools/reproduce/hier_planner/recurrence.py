"""Layers of the planner's networks: an LSTM in both directions, and attention."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

Array = jax.Array
CellState: TypeAlias = tuple[Array, Array]
"""Cells and outputs of an LSTM."""


class Steps(NamedTuple):
    """An LSTM of width W in S steps, for K sequences.

    Attributes:
        gates: `[S, K, 4 W]`, after their nonlinearities, in the order input, forget, output, value.
        cells: `[S, K, W]`, what cells held after each step.
        states: `[S, K, W]`, what they put out.
    """

    gates: Array
    cells: Array
    states: Array


def lstm_step(
    given: Array, state: CellState, own: Array, forget: Array
) -> tuple[CellState, tuple[Array, Array, Array]]:
    """The state after a step, and a step's part of `Steps`.

    Args:
        given: `[K, 4 W]`, input times its matrix.
        state: `[K, W]` each.
        own: `[W, 4 W]`.
        forget: `[1]`, bias of the forget gate.
    """
    cell, last = state
    enter, keep, leave, value = jnp.split(given + last @ own, 4, axis=-1)
    enter, keep = jax.nn.sigmoid(enter), jax.nn.sigmoid(keep + forget)
    leave, value = jax.nn.sigmoid(leave), jnp.tanh(value)
    cell = enter * value + keep * cell
    last = leave * jnp.tanh(cell)
    return (cell, last), (jnp.concatenate([enter, keep, leave, value], axis=-1), cell, last)


def run_lstm(given: Array, start: CellState, own: Array, forget: Array) -> Steps:
    """All steps from inputs `[S, K, 4 W]`, each times its matrix."""

    def step(state: CellState, now: Array) -> tuple[CellState, tuple[Array, Array, Array]]:
        return lstm_step(now, state, own, forget)

    return Steps(*jax.lax.scan(step, start, given)[1])


@jax.custom_vjp
def lstm_outputs(
    given: Array, start: CellState, own: Array, forget: Array, steps: Steps
) -> tuple[Array, Array]:
    """States `[S, K, W]` and last cells `[K, W]` of steps that `run_lstm` made of the rest.

    Nothing is computed; the gradient goes to all arguments but `steps`, which count as constants.
    """
    return steps.states, steps.cells[-1]


def _outputs_forward(
    given: Array, start: CellState, own: Array, forget: Array, steps: Steps
) -> tuple[tuple[Array, Array], tuple[CellState, Array, Steps]]:
    return (steps.states, steps.cells[-1]), (start, own, steps)


def _outputs_backward(
    kept: tuple[CellState, Array, Steps], gradient: tuple[Array, Array]
) -> tuple[Array, CellState, Array, Array, Steps]:
    start, own, steps = kept
    of_states, of_last_cell = gradient
    cells_before = jnp.concatenate([start[0][None], steps.cells[:-1]])
    states_before = jnp.concatenate([start[1][None], steps.states[:-1]])
    # Without the barrier XLA folds the transposition into the product of each step, which then
    # takes twice as long.
    back = jax.lax.optimization_barrier(own.T)

    def step(later: CellState, now: tuple[Array, Array, Array, Array]) -> tuple[CellState, Array]:
        of_cell, of_last = later
        of_state, gates, cell, before = now
        enter, keep, leave, value = jnp.split(gates, 4, axis=-1)
        of_last += of_state
        shown = jnp.tanh(cell)
        of_cell += of_last * leave * (1.0 - shown * shown)
        of_gates = jnp.concatenate(
            [
                of_cell * value * enter * (1.0 - enter),
                of_cell * before * keep * (1.0 - keep),
                of_last * shown * leave * (1.0 - leave),
                of_cell * enter * (1.0 - value * value),
            ],
            axis=-1,
        )
        return (of_cell * keep, of_gates @ back), of_gates

    end = (of_last_cell, jnp.zeros_like(of_last_cell))
    order = (of_states, steps.gates, steps.cells, cells_before)
    of_start, of_gates = jax.lax.scan(step, end, order, reverse=True)
    width = own.shape[0]
    of_own = states_before.reshape(-1, width).T @ of_gates.reshape(-1, 4 * width)
    of_forget = jnp.sum(of_gates[..., width : 2 * width])[None]
    return of_gates, of_start, of_own, of_forget, jax.tree.map(jnp.zeros_like, steps)


lstm_outputs.defvjp(_outputs_forward, _outputs_backward)


def shares_of(query: Array, memory: Array, weights: Array) -> Array:
    """`[K, S, M]`, how much each query reads of each state; rows sum to 1.

    Args:
        query: `[K, S, H]`.
        memory: `[K, M, H]`, or `[1, M, H]` where all samples share it.
        weights: `[H, 1]`.
    """
    matched = jnp.tanh(query[:, :, None] + memory[:, None]) @ weights
    return jax.nn.softmax(matched[..., 0], axis=-1)


def all_shares(query: Array, memory: Array, weights: Array) -> Array:
    """As `shares_of`, one query at a time."""

    def at(now: Array) -> Array:
        return shares_of(now[:, None], memory, weights)[:, 0]

    return jax.lax.map(at, query.transpose(1, 0, 2)).transpose(1, 0, 2)


@jax.custom_vjp
def read_by(shares: Array, query: Array, memory: Array, weights: Array) -> Array:
    """`[K, S, H]`, the mean of states by shares that `shares_of` made of the rest.

    The gradient goes to all arguments but `shares`, which count as constants.
    """
    return shares @ memory


def _read_forward(
    shares: Array, query: Array, memory: Array, weights: Array
) -> tuple[Array, tuple[Array, Array, Array, Array]]:
    return shares @ memory, (shares, query, memory, weights)


def _read_backward(
    kept: tuple[Array, Array, Array, Array], of_read: Array
) -> tuple[Array, Array, Array, Array]:
    shares, query, memory, weights = kept
    of_shares = of_read @ memory.transpose(0, 2, 1)
    of_matched = shares * (of_shares - jnp.sum(shares * of_shares, axis=-1, keepdims=True))
    along = weights[:, 0]

    # With t = tanh(query + state): the gradient of their sum is of_matched * weights * (1 - t * t),
    # and that of weights is of_matched * t.
    def of_sample(k: Array) -> tuple[Array, Array, Array]:
        states = memory[jnp.minimum(k, memory.shape[0] - 1)]

        def step(
            sums: tuple[Array, Array], now: tuple[Array, Array]
        ) -> tuple[tuple[Array, Array], Array]:
            one, of_one = now
            t = jnp.tanh(one + states)
            square = t * t
            squares, firsts = sums
            squares += of_one[:, None] * square
            return (squares, firsts + of_one @ t), of_one @ square

        start = (jnp.zeros_like(states), jnp.zeros_like(along))
        (squares, firsts), of_queries = jax.lax.scan(step, start, (query[k], of_matched[k]))
        return squares, firsts, of_queries

    squares, firsts, of_queries = jax.lax.map(of_sample, jnp.arange(query.shape[0]))
    of_query = along * (jnp.sum(of_matched, axis=-1)[..., None] - of_queries)
    of_memory = along * (jnp.sum(of_matched, axis=1)[..., None] - squares)
    of_memory += shares.transpose(0, 2, 1) @ of_read
    if memory.shape[0] == 1:
        of_memory = jnp.sum(of_memory, axis=0, keepdims=True)
    return jnp.zeros_like(shares), of_query, of_memory, jnp.sum(firsts, axis=0)[:, None]


read_by.defvjp(_read_forward, _read_backward)
