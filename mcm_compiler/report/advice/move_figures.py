"""What a move of ops takes: memory where they go, and time on both chips."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from mcm_compiler.contracts.program import Buffer, ChipProgram, LoweredProgram, SimulationResult
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.report.advice.moves import Move, pin_of

if TYPE_CHECKING:
    from mcm_compiler.certificate.claims import Certificate
    from mcm_compiler.report.records.activity import MoveRow, PinnedMoveRow

_SLOT = re.compile(r"\[\d+\]$")


def move_row(
    move: Move,
    certificate: Certificate,
    program: LoweredProgram,
    simulation: SimulationResult,
    limits: PackageLimits,
    graphs: Mapping[int, ir.Graph],
) -> MoveRow:
    """A move as the report has it.

    Args:
        move: from `find_moves`.
        certificate: that it was found for.
        program: the programs of all chips of one pipeline.
        simulation: gives the busy times.
        limits: gives memory and speed of the chips.
        graphs: the chips' models by chip.
    """
    problem = certificate.problem
    programs = {chip.chip: chip for chip in program.chips}
    busy_s = {activity.chip: activity.busy_s for activity in simulation.chips}
    speeds = limits.chip_speed or (1.0,) * limits.num_chips
    own, there = programs.get(move.from_chip), programs.get(move.to_chip)
    names = {name for unit in move.units for name in problem.members[unit]}
    kernels = [k for k in own.kernels if names.intersection(k.nodes)] if own else []
    seconds = sum(kernel.duration_s for kernel in kernels)
    graph = graphs.get(move.from_chip)
    moving = [node for node in graph or () if (node.name or "") in names]
    need = _need_bytes(moving, own, there, limits.channel_slots) if own else 0
    taken = there.high_water_bytes if there is not None else 0
    ratio = speeds[move.from_chip] / speeds[move.to_chip]
    return {
        "name": problem.names[move.unit],
        "ops": len(problem.members[move.unit]),
        "along": len(move.units) - 1,
        "from_chip": move.from_chip,
        "to_chip": move.to_chip,
        "need_bytes": need,
        "free_bytes": limits.sram_bytes[move.to_chip] - taken,
        "busy_without_s": busy_s.get(move.from_chip, 0.0) - seconds,
        "busy_there_s": busy_s.get(move.to_chip, 0.0) + seconds * ratio,
        "period_s": move.period_s,
        "gain": move.gain,
    }


def pinned_row(move: Move, certificate: Certificate) -> PinnedMoveRow:
    """A move that a pin is in the way of, as the report has it."""
    problem = certificate.problem
    held = next(unit for unit in move.units if problem.pinned_chip[unit] >= 0)
    return {
        "name": problem.names[move.unit],
        "ops": len(problem.members[move.unit]),
        "along": len(move.units) - 1,
        "from_chip": move.from_chip,
        "to_chip": move.to_chip,
        "pinned": problem.names[held],
        "pin": pin_of(certificate, held),
        "period_s": move.period_s,
        "gain": move.gain,
    }


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
