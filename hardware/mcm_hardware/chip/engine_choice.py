"""Which engine of a chip runs a matrix product."""

from __future__ import annotations

from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.chip.tile_cycles import pipelined_cycles
from mcm_hardware.op_costs.work import Gemm


def runs_on_vector_unit(chip: ChipSpec, gemm: Gemm) -> bool:
    """Whether the vector unit finishes `gemm` before the MAC array would.

    A lane does one multiply-accumulate per cycle. Products with a single column or row fill a
    sliver of the array only: depthwise convolutions, where each channel is a product of its own,
    and matrix-vector products. Compilers for such chips send them to the lanes (our choice; the
    analytic and the cycle model decide alike, or one could be shorter than the other).
    """
    on_lanes = gemm.macs / (chip.vector.lanes * chip.vector.clock_hz)
    return on_lanes < pipelined_cycles(chip.array, gemm) / chip.array.clock_hz
