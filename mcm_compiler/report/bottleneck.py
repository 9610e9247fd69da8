"""The bottleneck: the busiest resource, what fills it, and what it would take to relieve it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Literal

import onnx_ir as ir

from mcm_compiler.contracts.program import (
    ChipActivity,
    Kernel,
    LinkActivity,
    LoweredProgram,
    SimulationResult,
)
from mcm_compiler.contracts.target import PackageLimits, Target
from mcm_compiler.diagnostics import quote
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE, OFF_PACKAGE_ROOT, Machine
from mcm_compiler.report import activity
from mcm_compiler.report.advice.moves import Moves, find_moves, move_row, pin_of, pinned_row
from mcm_compiler.report.sentences import kernel_phrase, resource_name
from mcm_compiler.text.units import bytes_text, count_text, percent_text, seconds_text

if TYPE_CHECKING:
    from mcm_compiler.certificate.claims import Certificate
    from mcm_compiler.report.records.activity import Bottleneck, MoveRow, PinnedMoveRow

LISTED = 3
"""Moves or tensors that the bottleneck names."""

KERNELS_LISTED = 8
"""Kernels of the limiting chip that it names."""

ALWAYS_BUSY = 0.995
"""From this share of the period on a resource sets the rate by itself."""

_WAITS = {"input": "for inputs", "link": "for links", "buffer": "for buffer space"}

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
    machine: Machine,
    limits: PackageLimits | None = None,
    graphs: Mapping[int, ir.Graph] | None = None,
    certificate: Certificate | None = None,
    target: Target | None = None,
) -> Bottleneck | None:
    """The busiest chip or link with its heaviest ops or tensors; None where nothing was busy.

    Chips come before links where both are equally busy, and lower numbers before higher ones.

    Args:
        simulation: says which was busy.
        program: says with what.
        machine: has the routes.
        limits: numbers of the package.
        graphs: the chips' models by chip. With `limits`, `program` and `certificate` they say
            which moves of ops would help, and what they take.
        certificate: what was placed and where, for one pipeline.
        target: the package, which knows the engines.
    """
    resources: list[ChipActivity | LinkActivity] = [*simulation.chips, *simulation.links]
    if not resources:
        return None
    worst, *others = sorted(resources, key=lambda resource: -resource.busy_s)
    heaviest: Kernel | None = None
    found: Bottleneck = {
        "kind": _kind(worst),
        "chip": None,
        "source": None,
        "destination": None,
        "busy_s": worst.busy_s,
        "share_of_period": activity.share(worst.busy_s, simulation),
        "sets_period": worst.busy_s >= ALWAYS_BUSY * simulation.period_s,
        "heaviest_ops": [],
        "heaviest_tensors": [],
        "moves": [],
        "text": "",
    }
    if isinstance(worst, ChipActivity):
        found["chip"] = worst.chip
        chips = {chip.chip: chip for chip in program.chips} if program else {}
        own, graph = chips.get(worst.chip), (graphs or {}).get(worst.chip)
        found["heaviest_ops"] = activity.heaviest_ops(own, KERNELS_LISTED, graph, target)
        heaviest = max(own.kernels if own else (), key=lambda k: k.duration_s, default=None)
    else:
        found["source"], found["destination"] = worst.source, worst.destination
        if program is not None and activity.is_shared(worst.source, worst.destination):
            found["heaviest_tensors"] = activity.shared_tensors(worst, program)[:LISTED]
        else:
            found["heaviest_tensors"] = activity.heaviest_tensors(
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
    parts = [
        f"{_name(worst)} is busy {seconds_text(worst.busy_s)} of every "
        f"{_period_text(found, simulation)}{_filling(found, worst, heaviest, program)}",
        *_cause(found, worst, heaviest, simulation, program),
        *(_advice(found, heaviest, moves, certificate) if moves and certificate else ()),
    ]
    if others:
        busy = seconds_text(others[0].busy_s)
        parts.append(f"the next busiest is {_name(others[0])} with {busy}")
    found["text"] = "; ".join(parts)
    return found


def channel_kind(source: int, destination: int) -> Literal["link", "host", "memory"]:
    """Ends of a channel: chips, a chip and the host, or a chip and off-package memory."""
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


def _period_text(found: Bottleneck, simulation: SimulationResult) -> str:
    text = seconds_text(simulation.period_s)
    part = found["share_of_period"]
    return text if part is None else f"{text} ({percent_text(part)})"


def _cause(
    found: Bottleneck,
    worst: ChipActivity | LinkActivity,
    heaviest: Kernel | None,
    simulation: SimulationResult,
    program: LoweredProgram | None,
) -> Iterator[str]:
    """Bottleneck, and remedies other than moves of ops."""
    if not found["sets_period"]:
        stalls = worst.stall_s if isinstance(worst, ChipActivity) else {}
        reason, waited = max(stalls.items(), key=lambda item: item[1], default=("", 0.0))
        if waited > 0:
            yield f"it waits {seconds_text(waited)} {_WAITS.get(reason, 'for ' + reason)}"
        cause = next((c for c in _CYCLES if c in simulation.cycle_waits), "")
        yield f"as nothing is busy all the time, {_CYCLES[cause]} sets the period"
    elif isinstance(worst, LinkActivity):
        if activity.is_shared(worst.source, worst.destination):
            yield activity.shared_levers(worst, program)
    elif len(found["heaviest_ops"]) == 1 and heaviest is not None:
        if heaviest.latency_s > 0:  # a pipeline of units that a mapper has placed
            yield "a faster mapping of its ops, fewer ops on it, or a faster chip would help"
        else:
            helps = "a chip that can run it" if heaviest.engine == "host" else "a faster chip"
            yield f"nothing else runs there, so that only splitting it or {helps} would help"


def _filling(
    found: Bottleneck,
    worst: ChipActivity | LinkActivity,
    heaviest: Kernel | None,
    program: LoweredProgram | None,
) -> str:
    """Largest part of a resource's time."""
    ops, tensors = found["heaviest_ops"], found["heaviest_tensors"]
    if ops and worst.busy_s > 0:
        part = percent_text(ops[0]["seconds"] / worst.busy_s)
        on_host = heaviest is not None and heaviest.engine == "host"
        waits = ", for which it waits for the host" if on_host else ""
        return f", {part} of it in {kernel_phrase(ops[0])}{waits}"
    if tensors and isinstance(worst, LinkActivity) and worst.bytes_per_inference > 0:
        load = worst.bytes_per_inference
        if program is not None and activity.is_shared(worst.source, worst.destination):
            return activity.shared_filling(worst, program, tensors[0])
        part = percent_text(tensors[0]["bytes"] / load)
        return f", {part} of its {bytes_text(load)} is {quote(tensors[0]['name'])}"
    return ""


def _advice(
    found: Bottleneck, heaviest: Kernel | None, moves: Moves, certificate: Certificate
) -> Iterator[str]:
    """Gains of moving ops, and the pins in the way."""
    name = found["heaviest_ops"][0]["name"] if found["heaviest_ops"] else None
    if heaviest is not None and (pin := _pin_of(heaviest, certificate)):
        yield f"the pin {quote(pin)} holds it there"
    if found["moves"]:
        yield _move_text(found["moves"][0], name)
    elif not moves.optimal and (text := _no_move_text(moves)):
        yield text
    if pinned := found.get("pinned_moves"):
        yield _pinned_text(pinned[0], name)


def _no_move_text(moves: Moves) -> str | None:
    """Why no move is advised, where the bound alone does not say it."""
    if moves.helpful:
        return "moves of ops that would make it faster may not fit the SRAM where they go"
    if moves.elsewhere and moves.complete:
        return "under the cost model no move of a single op to another chip makes it faster"
    if moves.elsewhere:
        return "under the cost model none of the most promising moves of an op makes it faster"
    return None


def _pin_of(kernel: Kernel, certificate: Certificate) -> str | None:
    """The pin of the ops of a kernel."""
    for unit, members in enumerate(certificate.problem.members if certificate.pins else ()):
        if set(members).intersection(kernel.nodes):
            return pin_of(certificate, unit)
    return None


def _what(move: MoveRow | PinnedMoveRow, heaviest: str | None) -> str:
    """Description of the moved op."""
    name, ops = quote(move["name"]), move.get("ops", 1)
    if move["name"] == heaviest:
        text = "it" if ops == 1 else "them"
    else:
        text = name if ops == 1 else f"the {ops} ops up to {name}"
    if move["along"]:
        text += f", with {count_text(move['along'], 'other')} that must go along,"
    return text


def _moving(move: MoveRow | PinnedMoveRow, heaviest: str | None) -> str:
    """The move, and what it would bring."""
    return (
        f"moving {_what(move, heaviest)} from chip {move.get('from_chip')} to chip "
        f"{move['to_chip']} would shorten the period under the cost model by "
        f"{percent_text(move.get('gain', 0.0))} to {seconds_text(move.get('period_s'))}"
    )


def _move_text(move: MoveRow, heaviest: str | None) -> str:
    need, free = bytes_text(move["need_bytes"]), bytes_text(move["free_bytes"])
    return f"{_moving(move, heaviest)}; it needs up to {need} there, where {free} are free"


def _pinned_text(move: PinnedMoveRow, heaviest: str | None) -> str:
    by = f"the pin {quote(move['pin'])}" if move["pin"] is not None else "a pin"
    which = "" if move["pinned"] == move["name"] else f" of {quote(move['pinned'])}"
    return f"without {by}{which}, {_moving(move, heaviest)}"
