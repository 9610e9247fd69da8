"""Cycles of matrix products on an output-stationary systolic array.

A result of `[m, n]` is cut into tiles of `rows x cols`; a tile stays in the array while its `k`
partial products stream through (Samajdar et al. 2018, *SCALE-Sim*, section III, output
stationary: a lone tile takes `2 rows + cols + k - 2` cycles).
"""

from __future__ import annotations

from mcm_hardware.chip_spec import MacArray
from mcm_hardware.op_costs.work import Gemm


def passes(array: MacArray, gemm: Gemm) -> int:
    """Tiles that the array makes one after another; a 65-wide result takes two passes of 64."""
    return gemm.count * -(-gemm.m // array.rows) * -(-gemm.n // array.cols)


def streaming_cycles(array: MacArray, gemm: Gemm) -> int:
    """Cycles when tiles follow each other without a gap: `k` per tile."""
    return passes(array, gemm) * gemm.k


def pipelined_cycles(array: MacArray, gemm: Gemm) -> int:
    """Cycles with fill and drain; never fewer than `streaming_cycles` (our derivation).

    Accumulators are doubled, so a finished tile leaves through the column ports, a row per cycle,
    while the next one accumulates: a tile takes `k` cycles or as many as it has rows, whichever
    is more. The skew of the operands, `rows + cols - 2` cycles over the part of the array that is
    used, is seen once per run of independent tiles, and so is the drain of the last tile.
    """
    tiles = passes(array, gemm)
    if tiles == 0 or gemm.k == 0:
        return 0
    rows, cols = min(gemm.m, array.rows), min(gemm.n, array.cols)
    exposed = (rows + cols - 2) + rows
    return tiles * max(gemm.k, rows) + gemm.rounds * exposed
