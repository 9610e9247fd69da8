"""Channels that all chips share, in words: what fills them, and what would relieve them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mcm_compiler.contracts.program import LinkActivity, LoweredProgram, Transfer
from mcm_compiler.diagnostics import quote
from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE, OFF_PACKAGE_ROOT
from mcm_compiler.text.units import bytes_text, count_text, percent_text

if TYPE_CHECKING:
    from mcm_compiler.report.records.activity import LoadedTensor


def is_shared(source: int, destination: int) -> bool:
    """Whether a channel between these places is one that all chips share."""
    return not {source, destination}.isdisjoint((HOST_ROOT, OFF_PACKAGE_ROOT))


def shared_tensors(channel: LinkActivity, program: LoweredProgram) -> list[LoadedTensor]:
    """`name` and `bytes` of what one pipeline sends over the channel, largest sum first.

    A tensor that several chips read crosses the channel once for each of them.
    """
    total: Counter[str] = Counter()
    for transfer in _crossing(channel, program):
        total[transfer.tensor] += transfer.size_bytes
    ranked = sorted(total.items(), key=lambda item: -item[1])
    return [{"name": name, "bytes": size} for name, size in ranked]


def shared_filling(channel: LinkActivity, program: LoweredProgram, largest: LoadedTensor) -> str:
    """The part of the channel's bytes that the largest tensor takes."""
    load = channel.bytes_per_inference
    one = sum(t.size_bytes for t in _crossing(channel, program))
    pipelines = load // one if one else 1
    of = f" for {pipelines} pipelines" if pipelines > 1 else ""
    part = percent_text(largest["bytes"] * pipelines / load)
    return f", {part} of its {bytes_text(load)}{of} is {quote(largest['name'])}"


def shared_levers(channel: LinkActivity, program: LoweredProgram | None) -> str:
    """What would give more throughput where this channel sets the pace."""
    if channel.source == OFF_PACKAGE_ROOT:
        return (
            "more pipelines do not help, only memory for more of the weights, as on more chips of "
            "each pipeline, or a faster channel"
        )
    crossing = _crossing(channel, program) if program is not None else []
    copies = sum(t.size_bytes for t in crossing)
    copies -= sum({t.tensor: t.size_bytes for t in crossing}.values())
    levers = ["smaller inputs" if channel.source == HOST_ROOT else "smaller outputs"]
    if copies:
        transfers = count_text(len(crossing), "transfer")
        levers.append(
            f"fewer chips that read the same input ({bytes_text(copies)} of the {transfers} of an "
            "inference are copies)"
        )
    return (
        f"neither more pipelines nor more chips help, only {', '.join(levers)} or a faster channel"
    )


def _crossing(channel: LinkActivity, program: LoweredProgram) -> list[Transfer]:
    place = {HOST_ROOT: HOST, OFF_PACKAGE_ROOT: OFF_PACKAGE}.get(channel.source)
    if place is not None:
        return [t for t in program.transfers if t.source == place]
    return [t for t in program.transfers if t.destination == HOST]
