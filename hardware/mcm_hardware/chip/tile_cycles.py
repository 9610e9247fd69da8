"""Cycles and operand traffic of matrix products on a systolic array.

The operands of `[m, k] x [k, n]` are mapped to the array as in Samajdar et al. 2020, *A
Systematic Methodology for Characterizing Scalability of DNN Accelerators using SCALE-Sim*,
section III. An array of `R x C` units holds a tile of `rows x cols` elements while `steps` vectors
stream through it.

| dataflow | what is cut into tiles | rows | cols | steps per tile |
|---|---|---|---|---|
| output stationary | the result `[m, n]` | m | n | k |
| weight stationary | the second operand `[k, n]` | k | n | m |

A lone tile takes `2 rows + cols + steps - 2` cycles there, whichever the dataflow.
"""

from __future__ import annotations

from dataclasses import dataclass

from mcm_hardware.chip.chip_spec import ChipSpec, MacArray
from mcm_hardware.op_costs.work import Gemm


@dataclass(frozen=True)
class Tiling:
    """How a matrix product is cut for an array.

    Attributes:
        row_tiles: tiles along the rows of the array.
        col_tiles: tiles along its columns.
        rows: rows of a full tile, at most those of the array.
        cols: columns of a full tile.
        steps: vectors that stream through while a tile stays.
    """

    row_tiles: int
    col_tiles: int
    rows: int
    cols: int
    steps: int


def tiling(array: MacArray, gemm: Gemm) -> Tiling:
    """The tiles of one of the products of `gemm`."""
    tall, steps = (gemm.m, gemm.k) if array.dataflow == "output_stationary" else (gemm.k, gemm.m)
    return Tiling(
        row_tiles=-(-tall // array.rows),
        col_tiles=-(-gemm.n // array.cols),
        rows=min(tall, array.rows),
        cols=min(gemm.n, array.cols),
        steps=steps,
    )


def passes(array: MacArray, gemm: Gemm) -> int:
    """Tiles that the array holds one after another; 65 columns take two passes of 64."""
    tiles = tiling(array, gemm)
    return gemm.count * tiles.row_tiles * tiles.col_tiles


def result_blocks(array: MacArray, gemm: Gemm) -> int:
    """Parts of the results that are finished one after another (our derivation).

    Output stationary, each tile is one. Weight stationary, the columns of a tile are finished when
    the last of the tiles above one another has passed. Partial sums wait in accumulators at the
    foot of the columns, as in Jouppi et al. 2017, *In-Datacenter Performance Analysis of a Tensor
    Processing Unit*, section 2.
    """
    tiles = tiling(array, gemm)
    stacked = tiles.row_tiles if array.dataflow == "output_stationary" else 1
    return gemm.count * stacked * tiles.col_tiles


def streaming_cycles(array: MacArray, gemm: Gemm) -> int:
    """Cycles when tiles follow each other without a gap: `steps` per tile."""
    return passes(array, gemm) * tiling(array, gemm).steps


def pipelined_cycles(array: MacArray, gemm: Gemm) -> int:
    """Cycles with fill and drain; never fewer than `streaming_cycles` (our derivation).

    What stays in the array is doubled: a finished tile of results leaves through the column ports,
    a row per cycle, while the next one accumulates. A tile of weights enters in the same way while
    the one before is used (Jouppi et al. 2017, section 2). So tiles follow each other after `steps`
    cycles, or as many as they have rows if those are more. What a lone tile takes is seen once per
    run of independent tiles. A tile at the edge counts as a full one.
    """
    if gemm.macs == 0:
        return 0
    tiles, number = tiling(array, gemm), passes(array, gemm)
    runs = min(gemm.rounds, number)
    lone = 2 * tiles.rows + tiles.cols + tiles.steps - 2
    return (number - runs) * max(tiles.steps, tiles.rows) + runs * lone


def left_readings(array: MacArray, gemm: Gemm) -> int:
    """How often the array reads the whole left operand from SRAM: once per tile column.

    There is no buffer between SRAM and array that holds a panel of operands. SRAM reads are
    counted as SCALE-Sim counts them (Samajdar et al. 2018, *SCALE-Sim: Systolic CNN Accelerator
    Simulator*). One exception is our choice: overlapping windows of a convolution are read once
    per pass, out of line buffers. Timeloop (Parashar et al. 2019) counts the same for a mapping
    without a buffer level between the two.
    """
    return tiling(array, gemm).col_tiles


def right_readings(array: MacArray, gemm: Gemm) -> int:
    """How often the array reads the whole right operand from SRAM.

    Output stationary, once per tile row; weight stationary each tile of it is loaded once.
    """
    return tiling(array, gemm).row_tiles if array.dataflow == "output_stationary" else 1


def runs_on_vector_unit(chip: ChipSpec, gemm: Gemm) -> bool:
    """Return whether the vector unit finishes `gemm` before the MAC array would.

    A lane does one multiply-accumulate per cycle. Products with a single column or row fill a
    sliver of the array only: depthwise convolutions, where each channel is a product of its own,
    and matrix-vector products. Compilers for such chips send them to the lanes (our choice; the
    analytic and the cycle model decide alike, or one could be shorter than the other).
    """
    on_lanes = gemm.macs / (chip.vector.lanes * chip.vector.clock_hz)
    return on_lanes < pipelined_cycles(chip.array, gemm) / chip.array.clock_hz
