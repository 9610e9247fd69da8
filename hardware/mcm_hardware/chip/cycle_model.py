"""Durations of kernels in the simulator, and by default in search and bounds."""

from __future__ import annotations

from mcm_hardware.chip import tile_cycles
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.chip.kernel_work import KernelWork
from mcm_hardware.chip.roofline import EngineTimes, Roofline


def cycle_model(chip: ChipSpec) -> Roofline:
    """The cost model of the simulator: `cycle_times` on `chip`.

    It differs from the roofline in what that leaves out, and all of it takes time, so that no
    kernel is shorter than under the roofline.
    """
    return Roofline(chip, cycle_times, "cycles")


def cycle_times(chip: ChipSpec, work: KernelWork) -> EngineTimes:
    """Times of the engines with what the roofline leaves out.

    - The MAC array fills and drains (`tile_cycles.pipelined_cycles`).
    - It reads an operand again for every tile row or column that needs it; SRAM bandwidth pays
      for that (`tile_cycles.left_readings`, `right_readings`).
    - The vector unit works on a block of results while the array makes the next one, so that
      of a kernel that uses both, one block takes its time on both in sequence: with `b` blocks,
      the shorter of the two times is hidden but for its `1 / b` (our derivation. It is the time
      of a pipeline of two stages and `b` equal items). The engine that is busy longer pays.

    A group still costs at most the sum of its ops: readings are at most theirs, its blocks are all
    of theirs, and `max(a, v) + min(a, v) / b` is subadditive in `(a, v)` and falls with `b`.
    """
    cycles, blocks, lane_ops = 0, 0, work.lane_ops
    size_bytes = work.read_bytes + work.write_bytes
    for part in work.gemms:
        if tile_cycles.runs_on_vector_unit(chip, part.gemm):
            lane_ops += part.gemm.macs
            continue
        cycles += tile_cycles.pipelined_cycles(chip.array, part.gemm)
        blocks += tile_cycles.result_blocks(chip.array, part.gemm)
        size_bytes += part.left_bytes * max(tile_cycles.left_readings(chip.array, part.gemm) - 1, 0)
        size_bytes += part.right_bytes * max(
            tile_cycles.right_readings(chip.array, part.gemm) - 1, 0
        )
    array = cycles / chip.array.clock_hz
    vector = lane_ops / (chip.vector.lanes * chip.vector.clock_hz)
    exposed = min(array, vector) / blocks if blocks else 0.0
    return {
        "array": array + (exposed if array >= vector else 0.0),
        "vector": vector + (exposed if array < vector else 0.0),
        "memory": size_bytes / chip.sram_bytes_per_s,
    }


def launch_seconds(chip: ChipSpec, seconds: float) -> float:
    """The part of a kernel's `seconds` that is its launch; none where nothing runs."""
    return min(chip.launch_s / chip.speed, seconds)
