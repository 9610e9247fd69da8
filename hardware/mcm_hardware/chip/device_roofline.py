"""The analytic cost model of one device, such as a GPU: arithmetic against memory traffic.

Williams, Waterman and Patterson 2009, *Roofline: An Insightful Visual Performance Model*, with one
arithmetic rate for all ops. There is no tile quantisation: what an accelerator's library makes of
a shape is not known here, so times are lower bounds that keep the proportions between layers.
"""

from __future__ import annotations

from mcm_hardware.chip.chip_spec import ChipSpec, MacArray, VectorUnit
from mcm_hardware.chip.kernel_work import KernelWork
from mcm_hardware.chip.roofline import EngineTimes, Roofline
from mcm_hardware.tensors.storage_widths import StorageWidths

_ALIGNMENT_BYTES = 256


def device_roofline(
    flops_per_s: float, memory_bytes_per_s: float, memory_bytes: int, launch_s: float
) -> Roofline:
    """The cost model of a device; tensors take as many bytes as ONNX says.

    Args:
        flops_per_s: arithmetic; a multiply-accumulate counts as two.
        memory_bytes_per_s: between the device and its memory.
        memory_bytes: of the device.
        launch_s: cost of starting one kernel.
    """
    # The peak rate as one multiply-accumulate unit with a fast clock.
    macs_per_s = flops_per_s / 2
    device = ChipSpec(
        sram_bytes=memory_bytes,
        sram_bytes_per_s=memory_bytes_per_s,
        alignment_bytes=_ALIGNMENT_BYTES,
        launch_s=launch_s,
        array=MacArray(rows=1, cols=1, clock_hz=macs_per_s),
        vector=VectorUnit(lanes=1, clock_hz=macs_per_s),
        storage=StorageWidths({}),
    )
    return Roofline(device, timing=_device_times, name="device-roofline")


def _device_times(chip: ChipSpec, work: KernelWork) -> EngineTimes:
    """Seconds of arithmetic and of memory traffic; each operand is read once."""
    macs = sum(part.gemm.macs for part in work.gemms)
    return {
        "array": macs / chip.array.clock_hz,
        "vector": work.lane_ops / chip.vector.clock_hz,
        "memory": (work.read_bytes + work.write_bytes) / chip.sram_bytes_per_s,
    }
