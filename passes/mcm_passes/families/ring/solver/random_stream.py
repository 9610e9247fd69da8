"""Random numbers inside compiled kernels: one stream per rollout, the same on any thread."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit, expanded_njit

Words = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11))
_UNIT = 1.0 / (1 << 53)


def streams(rng: np.random.Generator, count: int) -> Words:
    """`[count]`, the state of one stream each, drawn from `rng`."""
    return rng.integers(0, np.iinfo(np.uint64).max, count, dtype=np.uint64, endpoint=True)


@expanded_njit
def uniform(state: Words, stream: int) -> float:
    """The next number of a stream, uniform in [0, 1).

    SplitMix64 (Steele, Lea and Flood 2014, *Fast Splittable Pseudorandom Number Generators*).
    """
    state[stream] += _GOLDEN
    z = state[stream]
    z = (z ^ (z >> _SHIFTS[0])) * _MIX_1
    z = (z ^ (z >> _SHIFTS[1])) * _MIX_2
    z = z ^ (z >> _SHIFTS[2])
    return float(z >> _SHIFTS[3]) * _UNIT


@entry_njit
def random_orders(states: Words, n: int) -> npt.NDArray[np.int32]:
    """`[len(states), n]`, random orders of n numbers (Fisher and Yates), one of each stream."""
    orders = np.empty((states.size, n), np.int32)
    for row in range(states.size):
        order = orders[row]
        order[:] = np.arange(n)
        for i in range(n - 1, 0, -1):
            j = int(uniform(states, row) * (i + 1))
            order[i], order[j] = order[j], order[i]
    return orders
