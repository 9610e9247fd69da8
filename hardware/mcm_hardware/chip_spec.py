"""The numbers of a ring package and of its chips, in SI units."""

from __future__ import annotations

from dataclasses import dataclass

from mcm_compiler.target import HostIo
from mcm_hardware.storage_widths import StorageWidths


@dataclass(frozen=True)
class MacArray:
    """An output-stationary systolic array of multiply-accumulate units.

    Attributes:
        rows: rows of the result tile that it holds.
        cols: columns of the result tile that it holds.
        clock_hz: steps per second; every unit does one multiply-accumulate per step.
    """

    rows: int
    cols: int
    clock_hz: float


@dataclass(frozen=True)
class VectorUnit:
    """A SIMD unit.

    Attributes:
        lanes: elements that it works on at once.
        clock_hz: steps per second; a lane does one operation (or fused multiply-add) per step.
    """

    lanes: int
    clock_hz: float


@dataclass(frozen=True)
class ChipSpec:
    """One chip.

    Attributes:
        sram_bytes: its memory.
        sram_bytes_per_s: rate between SRAM and the engines, reads and writes together.
        alignment_bytes: buffers start at multiples of this.
        launch_s: overhead of one kernel.
        array: its MAC array.
        vector: its vector unit.
        storage: widths of ONNX types in SRAM and on links.
    """

    sram_bytes: int
    sram_bytes_per_s: float
    alignment_bytes: int
    launch_s: float
    array: MacArray
    vector: VectorUnit
    storage: StorageWidths


@dataclass(frozen=True)
class RingSpec:
    """A package of equal chips on a one-way ring.

    Attributes:
        summary: one line.
        num_chips: chips; link c leads from chip c to chip c + 1.
        link_bytes_per_s: rate of each link.
        hop_latency_s: delay of one hop.
        host_io: where the host reaches the ring.
        host_bytes_per_s: rate between the host and each chip that it reaches, each way.
        host_latency_s: delay between the host and a chip.
        channel_slots: buffers per tensor at the receiving and at the sending chip.
        chip: every chip.
    """

    summary: str
    num_chips: int
    link_bytes_per_s: float
    hop_latency_s: float
    host_io: HostIo
    host_bytes_per_s: float
    host_latency_s: float
    channel_slots: int
    chip: ChipSpec
