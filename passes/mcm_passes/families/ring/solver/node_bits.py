"""Sets of nodes as words of 64 bits, inside compiled kernels."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import expanded_njit
from mcm_passes.families.ring.solver.random_stream import Words

_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_POSITIONS = np.zeros(64, np.int64)
for _bit in range(64):
    _POSITIONS[((1 << _bit) * int(_DE_BRUIJN) % (1 << 64)) >> 58] = _bit


@expanded_njit
def has(bits: Words, node: int) -> bool:
    """Return whether a node is in a set."""
    return bool((bits[node >> 6] >> np.uint64(node & 63)) & np.uint64(1))


@expanded_njit
def lowest_position(power: np.uint64) -> int:
    """Position of the only bit that is set (Leiserson, Prokop and Randall 1998)."""
    return _POSITIONS[(power * _DE_BRUIJN) >> np.uint64(58)]
