"""The bottleneck: the busiest resource, what fills it, and what it would take to relieve it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Literal

import onnx_ir as ir

from mcm_compiler.contracts.program import (
    ChipActivity,
    ChipProgram,
    LinkActivity,
    LoweredProgram,
    SimulationResult,
)
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.diagnostics import quote
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE, OFF_PACKAGE_ROOT, Machine
from mcm_compiler.report import shared_channels
from mcm_compiler.report.activity import heaviest_ops, heaviest_tensors, share
from mcm_compiler.report.advice.moves import Moves, find_moves, move_row, pin_of, pinned_row
from mcm_compiler.report.sentences import resource_name
from mcm_compiler.text.units import bytes_text, count_text, percent_text, seconds_text

if TYPE_CHECKING:
    from mcm_compiler.certificate.claims import Certificate
    from mcm_compiler.report.records.activity import Bottleneck, MoveRow, OpRow, PinnedMoveRow

LISTED = 3
"""Ops or tensors that the bottleneck names."""

ALWAYS_BUSY = 0.995
"""From this share of the period on a resource sets the rate by itself."""

_WAITS = {"input": "for inputs", "link": "for links", "buffer": "for room in buffers"}

_CYCLES = {
    "step": "the wait of a step for the step before of its sequence",
    "buffer": "a cycle of waits for buffers, for which there is no memory,",
    "channel": "the order in which links serve",
    "": "a cycle of waits",
}
"""Causes of the period where no resource sets it, by the kinds of waits on its cycle."""


def find_bottleneck(
    simulation: SimulationResult,
    program: LoweredProgram | None,
    limits: PackageLimits | None = None,
    graphs: Mapping[int, ir.Graph] | None = None,
    machine: Machine | None = None,
    certificate: Certificate | None = None,
) -> Bottleneck | None:
    """The busiest chip or link with its heaviest ops or tensors; None where nothing was busy.

    Chips come before links where both are equally busy, and lower numbers before higher ones.

    Args:
        simulation: tells who was busy.
        program: tells with what.
        limits: numbers of the package.
        graphs: the chips' models by chip. With `limits`, `program` and `certificate` they tell
            which moves of ops would help, and what they take.
        machine: tells routes.
        certificate: what was placed and where, for one pipeline.
    """
    resources: list[ChipActivity | LinkActivity] = [*simulation.chips, *simulation.links]
    if not resources:
        return None
    ranked = sorted(resources, key=lambda resource: -resource.busy_s)
    worst = ranked[0]
    found: Bottleneck = {
        "kind": _kind(worst),
        "chip": None,
        "source": None,
        "destination": None,
        "busy_s": worst.busy_s,
        "share_of_period": share(worst.busy_s, simulation),
        "sets_period": worst.busy_s >= ALWAYS_BUSY * simulation.period_s,
        "heaviest_ops": [],
        "heaviest_tensors": [],
        "moves": [],
        "text": "",
    }
    if isinstance(worst, ChipActivity):
        found["chip"] = worst.chip
        chips = {chip.chip: chip for chip in program.chips} if program else {}
        found["heaviest_ops"] = heaviest_ops(chips.get(worst.chip), LISTED)
    else:
        found["source"], found["destination"] = worst.source, worst.destination
        if program is not None and shared_channels.is_shared(worst.source, worst.destination):
            found["heaviest_tensors"] = shared_channels.shared_tensors(worst, program)[:LISTED]
        else:
            found["heaviest_tensors"] = heaviest_tensors(
                program, worst.source, worst.destination, LISTED, machine
            )
    moves: Moves | None = None
    if program is not None and limits is not None and graphs and certificate is not None:
        moves = find_moves(certificate)
        rows = (
            move_row(move, certificate, program, simulation, limits, graphs)
            for move in moves.helpful
        )
        # Only what surely fits is advice: the problem model leaves out what no plan needs.
        fitting = (row for row in rows if row["need_bytes"] <= row["free_bytes"])
        found["moves"] = list(islice(fitting, LISTED))
        if moves.pinned:
            pinned = moves.pinned[:LISTED]
            found["pinned_moves"] = [pinned_row(move, certificate) for move in pinned]
    advice = _advice(found, worst, moves, certificate, program)
    found["text"] = _sentence(found, worst, ranked[1:], simulation, program, advice)
    return found


def channel_kind(source: int, destination: int) -> Literal["link", "host", "memory"]:
    """What a channel connects: chips, a chip and the host, or a chip and off-package memory."""
    if source in (OFF_PACKAGE, OFF_PACKAGE_ROOT):
        return "memory"
    return "host" if HOST in (source, destination) else "link"


def _kind(resource: ChipActivity | LinkActivity) -> Literal["chip", "link", "host", "memory"]:
    if isinstance(resource, ChipActivity):
        return "chip"
    return channel_kind(resource.source, resource.destination)


def _name(resource: ChipActivity | LinkActivity) -> str:
    if isinstance(resource, ChipActivity):
        return f"chip {resource.chip}"
    return resource_name(resource.source, resource.destination)


def _heaviest(program: ChipProgram) -> int:
    return max(range(len(program.kernels)), key=lambda i: (program.kernels[i].duration_s, -i))


def _op_name(op: OpRow) -> str:
    """A fused group has the name of its last op, which need not be the one that takes long."""
    if op["ops"] > 1:
        return f"{op['ops']} fused ops up to {quote(op['name'])}"
    return quote(op["name"])


def _sentence(
    found: Bottleneck,
    worst: ChipActivity | LinkActivity,
    others: list[ChipActivity | LinkActivity],
    simulation: SimulationResult,
    program: LoweredProgram | None,
    advice: list[str],
) -> str:
    text = f"{_name(worst)} is busy {seconds_text(worst.busy_s)}"
    text += f" of every {seconds_text(simulation.period_s)}"
    if (part := found["share_of_period"]) is not None:
        text += f" ({percent_text(part)})"
    text += _filling(found, worst, program)
    parts = [text]
    if isinstance(worst, ChipActivity) and not found["sets_period"]:
        reason, waited = max(worst.stall_s.items(), key=lambda item: item[1], default=("", 0.0))
        if waited > 0:
            parts.append(f"it waits {seconds_text(waited)} {_WAITS.get(reason, 'for ' + reason)}")
    if not found["sets_period"]:
        cause = next((c for c in _CYCLES if c in simulation.cycle_waits), "")
        parts.append(f"as nothing is busy all the time, {_CYCLES[cause]} sets the period")
    elif isinstance(worst, LinkActivity) and shared_channels.is_shared(
        worst.source, worst.destination
    ):
        parts.append(shared_channels.shared_levers(worst, program))
    elif len(found["heaviest_ops"]) == 1:
        parts.append(_only_levers(worst, program))
    parts += advice
    if others:
        parts.append(
            f"the next busiest is {_name(others[0])} with {seconds_text(others[0].busy_s)}"
        )
    return "; ".join(parts)


def _only_levers(worst: ChipActivity | LinkActivity, program: LoweredProgram | None) -> str:
    """What relieves a chip on which one kernel runs."""
    if _mapped(worst, program):
        return "a faster mapping of its ops, fewer ops on it, or a faster chip would help"
    helps = "a chip that can run it" if _on_host(worst, program) else "a faster chip"
    return f"nothing else runs there, so that only splitting it or {helps} would help"


def _mapped(worst: ChipActivity | LinkActivity, program: LoweredProgram | None) -> bool:
    """Whether the kernel of a chip is a pipeline of units that a mapper has placed."""
    own = (
        [c for c in program.chips if isinstance(worst, ChipActivity) and c.chip == worst.chip]
        if program
        else []
    )
    return any(kernel.latency_s > 0 for chip in own for kernel in chip.kernels)


def _filling(
    found: Bottleneck, worst: ChipActivity | LinkActivity, program: LoweredProgram | None
) -> str:
    """What takes most of a resource's time."""
    ops, tensors = found["heaviest_ops"], found["heaviest_tensors"]
    if ops and worst.busy_s > 0:
        part = percent_text(ops[0]["seconds"] / worst.busy_s)
        waits = ", for which it waits for the host" if _on_host(worst, program) else ""
        return f", {part} of it in {_op_name(ops[0])}{waits}"
    if tensors and isinstance(worst, LinkActivity) and worst.bytes_per_inference > 0:
        load = worst.bytes_per_inference
        if program is not None and shared_channels.is_shared(worst.source, worst.destination):
            return shared_channels.shared_filling(worst, program, tensors[0])
        part = percent_text(tensors[0]["bytes"] / load)
        return f", {part} of its {bytes_text(load)} is {quote(tensors[0]['name'])}"
    return ""


def _on_host(worst: ChipActivity | LinkActivity, program: LoweredProgram | None) -> bool:
    """Whether the host runs the heaviest kernel of a chip."""
    if program is None or not isinstance(worst, ChipActivity):
        return False
    own = [chip for chip in program.chips if chip.chip == worst.chip and chip.kernels]
    return any(chip.kernels[_heaviest(chip)].engine == "host" for chip in own)


def _advice(
    found: Bottleneck,
    worst: ChipActivity | LinkActivity,
    moves: Moves | None,
    certificate: Certificate | None,
    program: LoweredProgram | None,
) -> list[str]:
    """What moving ops would bring, and which pins are in the way."""
    if moves is None or certificate is None:
        return []
    parts: list[str] = []
    heaviest = found["heaviest_ops"][0]["name"] if found["heaviest_ops"] else None
    if isinstance(worst, ChipActivity) and (pin := _pin_of_heaviest(worst, certificate, program)):
        parts.append(f"the pin {quote(pin)} holds it there")
    if found["moves"]:
        parts.append(_move_text(found["moves"][0], heaviest))
    elif not moves.optimal and (text := _no_move_text(moves)):
        parts.append(text)
    if pinned := found.get("pinned_moves"):
        parts.append(_pinned_text(pinned[0], heaviest))
    return parts


def _no_move_text(moves: Moves) -> str | None:
    """Why no move is advised, where the bound alone does not say it."""
    if moves.helpful:
        return "moves of ops that would make it faster may not fit the SRAM where they go"
    if moves.elsewhere and moves.complete:
        return "under the cost model no move of a single op to another chip makes it faster"
    if moves.elsewhere:
        return "under the cost model none of the most promising moves of an op makes it faster"
    return None


def _pin_of_heaviest(
    worst: ChipActivity, certificate: Certificate, program: LoweredProgram | None
) -> str | None:
    """The pin of the op that takes most of a chip's time."""
    own = [c for c in program.chips if c.chip == worst.chip and c.kernels] if program else []
    if not own or not certificate.pins:
        return None
    kernel = own[0].kernels[_heaviest(own[0])]
    for unit, members in enumerate(certificate.problem.members):
        if set(members).intersection(kernel.nodes):
            return pin_of(certificate, unit)
    return None


def _what(move: MoveRow | PinnedMoveRow, heaviest: str | None) -> str:
    """What goes, in words."""
    name, ops = quote(move["name"]), move.get("ops", 1)
    if move["name"] == heaviest:
        text = "it" if ops == 1 else "them"
    else:
        text = name if ops == 1 else f"the {ops} ops up to {name}"
    if move["along"]:
        text += f", with {count_text(move['along'], 'other')} that must go along,"
    return text


def _faster_text(move: MoveRow | PinnedMoveRow) -> str:
    return (
        f"shorten the period under the cost model by {percent_text(move.get('gain', 0.0))} to "
        f"{seconds_text(move.get('period_s'))}"
    )


def _move_text(move: MoveRow, heaviest: str | None) -> str:
    need, free = bytes_text(move["need_bytes"]), bytes_text(move["free_bytes"])
    return (
        f"moving {_what(move, heaviest)} from chip {move.get('from_chip')} to chip "
        f"{move['to_chip']} would {_faster_text(move)}; it needs up to {need} there, where {free} "
        "are free"
    )


def _pinned_text(move: PinnedMoveRow, heaviest: str | None) -> str:
    by = f"the pin {quote(move['pin'])}" if move["pin"] is not None else "a pin"
    which = "" if move["pinned"] == move["name"] else f" of {quote(move['pinned'])}"
    return (
        f"without {by}{which}, moving {_what(move, heaviest)} from chip {move['from_chip']} to "
        f"chip {move['to_chip']} would {_faster_text(move)}"
    )
