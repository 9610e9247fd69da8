"""Additive attention, with a gradient that makes its tables one query at a time.

Between S queries and M states of width H there are S x M x H numbers: 16.6 million at 180 groups,
per sample. Derived by JAX, the gradient passes over tables of that size several times. Here it
computes them again a query at a time, small enough for caches, and keeps their sums.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array


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
