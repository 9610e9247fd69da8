"""Durations of kernels as the simulator plays them."""

from __future__ import annotations

from mcm_hardware.chip_spec import ChipSpec
from mcm_hardware.roofline import Roofline
from mcm_hardware.tile_cycles import pipelined_cycles


def cycle_model(chip: ChipSpec) -> Roofline:
    """The chip's engines with fill and drain of the MAC array.

    Differs from the analytic model in the array's cycles alone, which are never fewer, so that no
    kernel is shorter than its analytic cost.
    """
    return Roofline(chip, pipelined_cycles, "cycles")


def copy_seconds(chip: ChipSpec, size_bytes: int) -> float:
    """Time of a kernel that copies `size_bytes` from one buffer to another."""
    return chip.launch_s + 2 * size_bytes / chip.sram_bytes_per_s
