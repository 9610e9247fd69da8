"""The bottleneck: the resource that is busiest per inference, and what fills it."""

from __future__ import annotations

from typing import Any

from mcm_compiler.diagnostics import quote
from mcm_compiler.program import LoweredProgram
from mcm_compiler.report.activity import Row, heaviest_ops, heaviest_tensors, share
from mcm_compiler.simulation import ChipActivity, LinkActivity, SimulationResult
from mcm_compiler.target import HOST
from mcm_compiler.units import bytes_text, percent_text, seconds_text

LISTED = 3
"""Ops or tensors that the bottleneck names."""

NEARLY_FULL = 0.95
"""Above this share of the period a resource sets the rate by itself."""


def find_bottleneck(
    simulation: SimulationResult, program: LoweredProgram | None
) -> dict[str, Any] | None:
    """The busiest chip or link with its heaviest ops or tensors; None where nothing was busy.

    Chips come before links where both are equally busy, and lower numbers before higher ones.
    """
    resources: list[ChipActivity | LinkActivity] = [*simulation.chips, *simulation.links]
    if not resources:
        return None
    ranked = sorted(resources, key=lambda resource: -resource.busy_s)
    worst = ranked[0]
    found: dict[str, Any] = {
        "kind": _kind(worst),
        "chip": None,
        "source": None,
        "destination": None,
        "busy_s": worst.busy_s,
        "share_of_period": share(worst.busy_s, simulation),
        "heaviest_ops": [],
        "heaviest_tensors": [],
    }
    if isinstance(worst, ChipActivity):
        found["chip"] = worst.chip
        chips = {chip.chip: chip for chip in program.chips} if program else {}
        found["heaviest_ops"] = heaviest_ops(chips.get(worst.chip), LISTED)
    else:
        found["source"], found["destination"] = worst.source, worst.destination
        found["heaviest_tensors"] = heaviest_tensors(
            program, worst.source, worst.destination, LISTED
        )
    found["text"] = _sentence(found, worst, ranked[1:], simulation)
    return found


def resource_name(source: int, destination: int) -> str:
    """A link in words."""
    if source == HOST:
        return f"the host's link into chip {destination}"
    if destination == HOST:
        return f"the link of chip {source} to the host"
    return f"the link from chip {source} to chip {destination}"


def _kind(resource: ChipActivity | LinkActivity) -> str:
    if isinstance(resource, ChipActivity):
        return "chip"
    return "host" if HOST in (resource.source, resource.destination) else "link"


def _name(resource: ChipActivity | LinkActivity) -> str:
    if isinstance(resource, ChipActivity):
        return f"chip {resource.chip}"
    return resource_name(resource.source, resource.destination)


def _op_name(op: Row) -> str:
    """A fused group has the name of its last op, which need not be the one that takes long."""
    if op["ops"] > 1:
        return f"{op['ops']} fused ops up to {quote(op['name'])}"
    return quote(op["name"])


def _sentence(
    found: dict[str, Any],
    worst: ChipActivity | LinkActivity,
    others: list[ChipActivity | LinkActivity],
    simulation: SimulationResult,
) -> str:
    text = f"{_name(worst)} is busy {seconds_text(worst.busy_s)}"
    text += f" of every {seconds_text(simulation.period_s)}"
    if (part := found["share_of_period"]) is not None:
        text += f" ({percent_text(part)})"
    ops: list[Row] = found["heaviest_ops"]
    tensors: list[Row] = found["heaviest_tensors"]
    if ops:
        text += f", {seconds_text(ops[0]['seconds'])} of it in {_op_name(ops[0])}"
    if tensors:
        text += f", {bytes_text(tensors[0]['bytes'])} of its load is {quote(tensors[0]['name'])}"
    if part is not None and part < NEARLY_FULL and isinstance(worst, ChipActivity):
        reason, waited = max(worst.stall_s.items(), key=lambda item: item[1], default=("", 0.0))
        if waited > 0:
            text += f"; it waits {seconds_text(waited)} for {reason}"
    if others:
        text += f"; the next busiest is {_name(others[0])} with {seconds_text(others[0].busy_s)}"
    return text
