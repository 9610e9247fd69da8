"""What it would take to move an op that fills a chip's time to the chip beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.contracts.program import Buffer, ChipProgram, LoweredProgram
from mcm_compiler.contracts.simulation import SimulationResult
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.machines.machine import Machine

_SLOT = re.compile(r"\[\d+\]$")


@dataclass(frozen=True)
class Move:
    """A kernel on the chip beside its own, with all kernels that have to go along.

    Attributes:
        kernel: index of the kernel in its chip's program.
        moved: that one and those that go along: to a chip that it sends to all that depend on it,
            to one that sends to it all that it depends on. Ascending.
        to_chip: where they go.
        need_bytes: SRAM that they need there at most: weights that are not there yet, receive
            buffers for what they read, send buffers for what leaves them, and what passes between
            them.
        free_bytes: SRAM that the memory plan leaves free there.
        left_s: time per inference that their own chip is busy without them.
        there_s: time per inference that the other chip is busy with them. Relays that the move
            adds or saves are not counted.
    """

    kernel: int
    moved: tuple[int, ...]
    to_chip: int
    need_bytes: int
    free_bytes: int
    left_s: float
    there_s: float


def find_moves(
    kernel: int,
    chip: ChipProgram,
    graph: ir.Graph,
    program: LoweredProgram,
    simulation: SimulationResult,
    limits: PackageLimits,
    machine: Machine,
) -> list[Move]:
    """The moves of one kernel, the one that leaves the busier of both chips less busy first.

    Only memory and compute time are looked at; links and the rules of the ring are not. A move
    that would empty the chip is none.

    Args:
        kernel: index into `chip.kernels`.
        chip: the chip's program.
        graph: the chip's model.
        program: the programs of all chips.
        simulation: gives the busy times.
        limits: gives memory and speed of the chips.
        machine: tells which chips lie beside this one.
    """
    programs = {other.chip: other for other in program.chips}
    busy_s = {activity.chip: activity.busy_s for activity in simulation.chips}
    speeds = limits.chip_speed or (1.0,) * limits.num_chips
    kernel_of = {name: i for i, k in enumerate(chip.kernels) for name in k.nodes}
    nodes = [node for node in graph if (node.name or "") in kernel_of]
    before: list[set[int]] = [set() for _ in chip.kernels]
    after: list[set[int]] = [set() for _ in chip.kernels]
    for node in nodes:
        reader = kernel_of[node.name or ""]
        for value in consumed_values(node):
            maker = value.producer()
            writer = kernel_of.get(maker.name or "") if maker is not None else None
            if writer is not None and writer != reader:
                before[reader].add(writer)
                after[writer].add(reader)
    found: list[Move] = []
    beside = [(there, after) for there in machine.next_devices(chip.chip)]
    beside += [(there, before) for there in machine.previous_devices(chip.chip)]
    for to_chip, linked in beside:
        moved = _closure(kernel, linked)
        there = programs.get(to_chip)
        if to_chip >= limits.num_chips or len(moved) == len(chip.kernels):
            continue
        moving = [node for node in nodes if kernel_of[node.name or ""] in moved]
        seconds = sum(chip.kernels[i].duration_s for i in moved)
        taken = there.high_water_bytes if there is not None else 0
        found.append(
            Move(
                kernel=kernel,
                moved=tuple(sorted(moved)),
                to_chip=to_chip,
                need_bytes=_need_bytes(moving, chip, there, limits.channel_slots),
                free_bytes=limits.sram_bytes[to_chip] - taken,
                left_s=busy_s.get(chip.chip, 0.0) - seconds,
                there_s=busy_s.get(to_chip, 0.0) + seconds * speeds[chip.chip] / speeds[to_chip],
            )
        )
    return sorted(found, key=lambda move: max(move.left_s, move.there_s))


def _closure(start: int, linked: Sequence[Iterable[int]]) -> set[int]:
    found, waiting = {start}, [start]
    while waiting:
        for other in linked[waiting.pop()]:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


def _need_bytes(
    moving: Sequence[ir.Node], chip: ChipProgram, there: ChipProgram | None, slots: int
) -> int:
    """See `Move.need_bytes`; sizes are those of the buffers on the chip that they leave."""
    sizes = _sizes(chip.buffers)
    held = _sizes(there.buffers) if there is not None else {}
    made = {value: None for node in moving for value in node.outputs}
    inside = set(moving)
    need = 0
    for value in made:
        leaves = value.is_graph_output() or any(n not in inside for n in value.consumers())
        need += sizes.get(value.name or "", 0) * (slots if leaves else 1)
    weights = {b.name for b in chip.buffers if b.kind in ("weight", "stream", "state")}
    read: dict[str, None] = {}
    for node in moving:
        for value in consumed_values(node):
            if value not in made:
                read.update(dict.fromkeys(_stored(value, sizes)))
    for name in read:
        if name not in held:
            need += sizes[name] * (1 if name in weights else slots)
    return need


def _stored(value: ir.Value, sizes: Mapping[str, int]) -> list[str]:
    """The buffers that hold what a kernel reads: a view shares that of its operand."""
    found: list[str] = []
    waiting, seen = [value], {value}
    while waiting:
        value = waiting.pop()
        if (value.name or "") in sizes:
            found.append(value.name or "")
        elif (maker := value.producer()) is not None:
            further = [v for v in consumed_values(maker) if v not in seen]
            seen.update(further)
            waiting += further
    return found


def _sizes(buffers: Iterable[Buffer]) -> dict[str, int]:
    """Bytes of one buffer by tensor."""
    return {
        _SLOT.sub("", b.name) if b.kind in ("receive", "send") else b.name: b.size_bytes
        for b in buffers
    }
