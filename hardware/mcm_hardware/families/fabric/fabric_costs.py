"""What ops cost on a fabric before anything is laid out: their work over all units."""

from __future__ import annotations

from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.chip.chosen_costs import CostPair
from mcm_hardware.chip.kernel_work import KernelWork
from mcm_hardware.chip.roofline import EngineTimes, Roofline

NAME = "fabric-work"
"""What is printed with every number of these costs."""


def fabric_times(chip: ChipSpec, work: KernelWork) -> EngineTimes:
    """Seconds of all compute units together, as if they shared every op without a loss.

    A unit does products or works on lanes, never both, so that times add up; whichever is longer
    has the name. No mapping has a shorter period than the sum over the ops of a chip.

    Args:
        chip: from `fabric_chip.chip_of`.
        work: of the ops.
    """
    macs = sum(part.gemm.macs for part in work.gemms)
    products = macs / (chip.array.rows * chip.array.cols * chip.array.clock_hz)
    lanes = work.lane_ops / (chip.vector.lanes * chip.vector.clock_hz)
    if products >= lanes:
        return {"array": products + lanes, "vector": 0.0, "memory": 0.0}
    return {"array": 0.0, "vector": products + lanes, "memory": 0.0}


def fabric_costs(chip: ChipSpec) -> CostPair:
    """For search and bounds; what is played are measured mappings, and never shorter."""
    costs = Roofline(chip, fabric_times, NAME)
    return CostPair(costs, costs)
