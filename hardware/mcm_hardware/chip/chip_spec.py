"""The numbers of packages of chips and of their chips, in SI units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mcm_compiler.machines.package_limits import EnergyCosts
from mcm_hardware.tensors.storage_widths import StorageWidths

if TYPE_CHECKING:
    from mcm_hardware.chip.op_support import OpSupport

Dataflow = Literal["output_stationary", "weight_stationary"]
"""Operand that stays in the MAC array while others stream through: a tile of the result, or of the
second operand."""


STREAM_BUFFERS = 2
"""Buffers that streamed weights pass through where there is space: one is filled while the other
is read."""

ACTIVATION_PACKING = 1.25
"""Factor on the peak of live bytes in estimates, as addresses may leave gaps (our choice)."""


@dataclass(frozen=True)
class MacArray:
    """A systolic array of multiply-accumulate units.

    Attributes:
        rows: rows of the tile that it holds.
        cols: columns of the tile that it holds.
        clock_hz: steps per second; every unit does one multiply-accumulate per step.
        dataflow: see `Dataflow`.
    """

    rows: int
    cols: int
    clock_hz: float
    dataflow: Dataflow = "output_stationary"


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
        speed: what all of its clocks, its SRAM rate and its launches are multiplied by. The other
            numbers stay those of a chip of speed 1, so that whatever takes `t` there takes
            exactly `t / speed` here.
    """

    sram_bytes: int
    sram_bytes_per_s: float
    alignment_bytes: int
    launch_s: float
    array: MacArray
    vector: VectorUnit
    storage: StorageWidths
    speed: float = 1.0


@dataclass(frozen=True, kw_only=True)
class DeviceNumbers:
    """One device of a host with accelerators, or of a cluster.

    Attributes:
        memory_bytes: what a placement may use of its memory.
        memory_bytes_per_s: between the device and its memory.
        flops_per_s: arithmetic; a multiply-accumulate counts as two.
        launch_s: cost of starting one op or kernel.
        support: what it can run; None where it runs everything.
    """

    memory_bytes: int
    memory_bytes_per_s: float
    flops_per_s: float
    launch_s: float
    support: OpSupport | None = None


@dataclass(frozen=True)
class AreaCosts:
    """Square millimetres of the parts of a package.

    Attributes:
        chip_mm2: of a chip next to the parts below.
        mac_mm2: of one multiply-accumulate unit.
        sram_mib_mm2: of one MiB of SRAM.
        link_mm2: of both ends of one link between two chips.
    """

    chip_mm2: float = 0.0
    mac_mm2: float = 0.0
    sram_mib_mm2: float = 0.0
    link_mm2: float = 0.0

    def of(self, chip: ChipSpec) -> float:
        """The area of a chip without its links."""
        macs = chip.array.rows * chip.array.cols
        sram_mib = chip.sram_bytes / 2**20
        return self.chip_mm2 + macs * self.mac_mm2 + sram_mib * self.sram_mib_mm2


@dataclass(frozen=True)
class KindOfChip:
    """A kind of chip of a package.

    Attributes:
        name: of the kind.
        chip: its numbers, at speed 1.
        support: what chips of the kind run; None where they run everything.
        energy: joules of what an inference does there; None where the description does not say.
        area: square millimetres of the parts; None where the description does not say.
    """

    name: str
    chip: ChipSpec
    support: OpSupport | None = None
    energy: EnergyCosts | None = None
    area: AreaCosts | None = None


@dataclass(frozen=True, kw_only=True)
class PackageSpec:
    """A package of chips, whatever connects them.

    Chips are numbered without those that are switched off.

    Attributes:
        summary: one line.
        reference: the chip that the file describes, and that the cost model speaks of.
        chips: `[num_chips]`, usable chips; they differ from those of their kind in memory and
            speed.
        physical: `[num_chips]`, their places in the package.
        host_bytes_per_s: rate between the host and each chip that it reaches, each way.
        host_latency_s: delay between the host and a chip.
        channel_slots: buffers per tensor at the receiving and at the sending chip.
        stream_bytes_per_s: rate at which each chip reads weights that do not fit from off-package
            memory; 0 where what does not fit is an error.
        stream_latency_s: delay of such a read.
        support: what chips of some kind can run; None where they run everything.
        energy: joules of what an inference does; None where the description does not say.
        area: square millimetres of the parts; None where the description does not say.
        kinds: kinds of chips, the first of which is that of `reference`, and which `support`,
            `energy` and `area` are about; empty where all chips are of one kind.
        kind_of: `[num_chips]`, index of the kind of each chip; empty likewise.
    """

    summary: str
    reference: ChipSpec
    chips: tuple[ChipSpec, ...]
    physical: tuple[int, ...]
    host_bytes_per_s: float
    host_latency_s: float
    channel_slots: int
    stream_bytes_per_s: float = 0.0
    stream_latency_s: float = 0.0
    support: OpSupport | None = None
    energy: EnergyCosts | None = None
    area: AreaCosts | None = None
    kinds: tuple[KindOfChip, ...] = ()
    kind_of: tuple[int, ...] = ()

    @property
    def num_chips(self) -> int:
        """Usable chips."""
        return len(self.chips)
