"""The contract of lowering: what each chip executes, with times, addresses and transfers.

A simulator runs a `LoweredProgram`, never a graph. It is plain data with a JSON form
(`program.json` in the output folder), so a compiled folder can be simulated without its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mcm_compiler.ir.annotations import AnnotationKey

BufferKind = Literal["weight", "activation", "receive", "send", "stream"]


@dataclass(frozen=True)
class Kernel:
    """One launch on a chip's compute engine: an op, or a fused group.

    Attributes:
        name: the op's or group's name.
        nodes: names of the ONNX nodes that it computes, in order.
        duration_s: time on the engine, launch overhead included.
        reads: indices into `LoweredProgram.transfers` that must have arrived.
        writes: indices into `LoweredProgram.transfers` that it makes ready to send.
        engine: what sets its pace: `array`, `vector`, `memory` or `none`.
        launch_s: the part of `duration_s` that is launch overhead.
    """

    name: str
    nodes: tuple[str, ...]
    duration_s: float
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    engine: str = "none"
    launch_s: float = 0.0


@dataclass(frozen=True)
class Buffer:
    """A range of a chip's SRAM and the kernels during which it is taken.

    Attributes:
        name: tensor name, with the slot where a channel has several.
        kind: weights and channel buffers are taken all the time, activations from `first` to
            `last`; `stream` buffers hold weights that come from off-package memory every time.
        address: offset in SRAM, bytes.
        size_bytes: length, alignment included.
        first: index of the kernel from whose start the buffer is taken.
        last: index of the kernel after whose end it is free.
    """

    name: str
    kind: BufferKind
    address: int
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Transfer:
    """One tensor on its way, once per inference and receiving chip.

    Attributes:
        tensor: its name.
        source: sending chip, -1 for the host, -2 for off-package memory (streamed weights).
        destination: receiving chip, or -1 for the host.
        size_bytes: bytes on the wire.
        slots: receive buffers at the destination; the sender waits while all are full. The
            kernel that makes the tensor has as many send buffers.
        after: index of the transfer that this one passes on from the receive buffer of its
            `source`, or -1 where a kernel made the tensor.
        reuses: index of the transfer whose receive buffer this one fills as soon as its last
            reader has ended, or -1 where it has `slots` buffers of its own. If that transfer does
            not come before this one, the buffer is that of the inference before.
    """

    tensor: str
    source: int
    destination: int
    size_bytes: int
    slots: int
    after: int = -1
    reuses: int = -1


@dataclass(frozen=True)
class ChipProgram:
    """What one chip does for one inference.

    Attributes:
        chip: index on the ring.
        kernels: in execution order.
        buffers: the memory plan; no two that are taken at once overlap.
        high_water_bytes: end of the highest buffer, that is, the SRAM that the plan needs.
        weight_bytes: SRAM held by weights.
    """

    chip: int
    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...]
    high_water_bytes: int
    weight_bytes: int


@dataclass(frozen=True)
class Lever:
    """A change by which a chip would need less SRAM.

    Attributes:
        action: what to do, in words with numbers; names of the model in it are quoted.
        frees_bytes: by how much less.
    """

    action: str
    frees_bytes: int


@dataclass(frozen=True)
class MemoryOverflow:
    """A chip whose program does not fit.

    Attributes:
        chip: which one.
        demand_bytes: SRAM that its plan needs.
        limit_bytes: SRAM that it has.
        largest: its largest buffers, `(name, bytes)`, descending, at most five.
        weight_bytes: the part of the demand that weights take.
        channel_bytes: the part that receive and send buffers take.
        activation_bytes: the part that activations take, the gaps between them included.
        levers: changes that make it fit each on its own; where there is none, those that help.
    """

    chip: int
    demand_bytes: int
    limit_bytes: int
    largest: tuple[tuple[str, int], ...]
    weight_bytes: int = 0
    channel_bytes: int = 0
    activation_bytes: int = 0
    levers: tuple[Lever, ...] = ()


@dataclass(frozen=True)
class LoweredProgram:
    """The programs of all used chips.

    Attributes:
        target: name of the package.
        chips: one program per used chip, ascending.
        transfers: all transfers; kernels refer to them by index.
        overflows: chips that need more SRAM than they have; empty where everything fits.
    """

    target: str
    chips: tuple[ChipProgram, ...]
    transfers: tuple[Transfer, ...]
    overflows: tuple[MemoryOverflow, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LoweredProgram:
        """Reads the JSON form back.

        Raises:
            KeyError, TypeError, ValueError: where a field is missing or of another kind; the
                reader of the output folder turns these into a diagnostic.
        """
        return cls(
            target=str(data["target"]),
            chips=tuple(_chip_from(chip) for chip in data["chips"]),
            transfers=tuple(
                Transfer(
                    str(t["tensor"]),
                    int(t["source"]),
                    int(t["destination"]),
                    int(t["size_bytes"]),
                    int(t["slots"]),
                    int(t.get("after", -1)),
                    int(t.get("reuses", -1)),
                )
                for t in data["transfers"]
            ),
            overflows=tuple(
                MemoryOverflow(
                    int(o["chip"]),
                    int(o["demand_bytes"]),
                    int(o["limit_bytes"]),
                    tuple((str(name), int(size)) for name, size in o["largest"]),
                    int(o.get("weight_bytes", 0)),
                    int(o.get("channel_bytes", 0)),
                    int(o.get("activation_bytes", 0)),
                    tuple(
                        Lever(str(lever["action"]), int(lever["frees_bytes"]))
                        for lever in o.get("levers", ())
                    ),
                )
                for o in data["overflows"]
            ),
        )


def _chip_from(data: Mapping[str, Any]) -> ChipProgram:
    return ChipProgram(
        chip=int(data["chip"]),
        kernels=tuple(
            Kernel(
                str(k["name"]),
                tuple(map(str, k["nodes"])),
                float(k["duration_s"]),
                tuple(map(int, k["reads"])),
                tuple(map(int, k["writes"])),
                str(k.get("engine", "none")),
                float(k.get("launch_s", 0.0)),
            )
            for k in data["kernels"]
        ),
        buffers=tuple(
            Buffer(
                str(b["name"]),
                b["kind"],
                int(b["address"]),
                int(b["size_bytes"]),
                int(b["first"]),
                int(b["last"]),
            )
            for b in data["buffers"]
        ),
        high_water_bytes=int(data["high_water_bytes"]),
        weight_bytes=int(data["weight_bytes"]),
    )


PROGRAM: AnnotationKey[LoweredProgram] = AnnotationKey(
    "lowered_program", derived_from=("chip_models", "wires")
)
"""The lowered program of the model."""
