"""Channels that all chips share, in words: what fills them, and what would relieve them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mcm_compiler.diagnostics import quote
from mcm_compiler.machine import HOST, HOST_ROOT, OFF_PACKAGE, OFF_PACKAGE_ROOT
from mcm_compiler.program import LoweredProgram, Transfer
from mcm_compiler.simulation import LinkActivity
from mcm_compiler.units import bytes_text, count_text, percent_text


def is_shared(source: int, destination: int) -> bool:
    """Whether a channel between these places is one that all chips share."""
    return not {source, destination}.isdisjoint((HOST_ROOT, OFF_PACKAGE_ROOT))


def shared_tensors(channel: LinkActivity, program: LoweredProgram) -> list[dict[str, Any]]:
    """`name` and `bytes` of what one pipeline sends over the channel, largest sum first.

    A tensor that several chips read crosses the channel once for each of them.
    """
    total: Counter[str] = Counter()
    for transfer in _crossing(channel, program):
        total[transfer.tensor] += transfer.size_bytes
    ranked = sorted(total.items(), key=lambda item: -item[1])
    return [{"name": name, "bytes": size} for name, size in ranked]


def shared_filling(channel: LinkActivity, program: LoweredProgram, largest: dict[str, Any]) -> str:
    """The part of the channel's bytes that the largest tensor takes."""
    load = channel.bytes_per_inference
    one = sum(t.size_bytes for t in _crossing(channel, program))
    pipelines = load // one if one else 1
    of = f" for {pipelines} pipelines" if pipelines > 1 else ""
    part = percent_text(largest["bytes"] * pipelines / load)
    return f", {part} of its {bytes_text(load)}{of} is {quote(largest['name'])}"


def shared_levers(channel: LinkActivity, program: LoweredProgram | None) -> str:
    """What would give more throughput where this channel sets the pace."""
    crossing = _crossing(channel, program) if program is not None else []
    copies = sum(t.size_bytes for t in crossing)
    copies -= sum({t.tensor: t.size_bytes for t in crossing}.values())
    levers: list[str] = []
    if channel.source == OFF_PACKAGE_ROOT:
        levers.append("weights that fit the chips' memory")
    elif copies:
        tensors = count_text(len(crossing), "transfer")
        levers.append(
            f"each input on one chip alone ({bytes_text(copies)} of the {tensors} of an inference "
            "are copies for further chips)"
        )
    if channel.source != OFF_PACKAGE_ROOT:
        what = "inputs" if channel.source == HOST_ROOT else "outputs"
        levers.append(f"smaller {what}")
    levers.append("a faster channel")
    return (
        f"neither more pipelines nor more chips help, only {', '.join(levers[:-1])} or "
        + (levers[-1])
    )


def _crossing(channel: LinkActivity, program: LoweredProgram) -> list[Transfer]:
    place = {HOST_ROOT: HOST, OFF_PACKAGE_ROOT: OFF_PACKAGE}.get(channel.source)
    if place is not None:
        return [t for t in program.transfers if t.source == place]
    return [t for t in program.transfers if t.destination == HOST]
