"""The memory map: which addresses of each chip hold what, and during which kernels."""

from __future__ import annotations

import numpy as np

from mcm_compiler.page.contents import Section, Table, View
from mcm_compiler.page.packed import pack_sizes, pack_texts, pack_whole
from mcm_compiler.page.sources import Compiled
from mcm_compiler.text.units import bytes_text, percent_text

KINDS = ("weight", "state", "activation", "receive", "send", "stream")
"""Kinds of buffers, in the order of the page's colours."""


def memory_section(compiled: Compiled) -> Section | None:
    """The memory plan of each chip; None where nothing was lowered."""
    program, target = compiled.program, compiled.target
    if program is None or target is None or not program.chips:
        return None
    limits = target.limits.sram_bytes
    buffers = [buffer for chip in program.chips for buffer in chip.buffers]
    data = {
        "kinds": list(KINDS),
        "chips": [
            {
                "chip": chip.chip,
                "name": f"chip {chip.chip}",
                "limit": limits[chip.chip],
                "need": chip.high_water_bytes,
                "kernels": len(chip.kernels),
            }
            for chip in program.chips
        ],
        "ptr": pack_whole(np.cumsum([0, *(len(chip.buffers) for chip in program.chips)])),
        "address": pack_sizes([b.address for b in buffers]),
        "size": pack_sizes([b.size_bytes for b in buffers]),
        "first": pack_whole([b.first for b in buffers]),
        "last": pack_whole([b.last for b in buffers]),
        "kind": pack_whole([KINDS.index(b.kind) for b in buffers]),
        "names": pack_texts([b.name for b in buffers]),
        "kernels": pack_texts([k.name for chip in program.chips for k in chip.kernels]),
    }
    lead = (
        "Addresses of a chip's SRAM upwards, its kernels in their order to the right: a box is a "
        "buffer while it is taken. Weights and what channels need are taken all the time.",
    )
    view = View("memory", data, "Memory map of a chip")
    return Section("memory", "Memory", lead, view, (_table(compiled),), folded=True)


def _table(compiled: Compiled) -> Table:
    assert compiled.program is not None
    assert compiled.target is not None
    rows: list[tuple[str, ...]] = []
    for chip in compiled.program.chips:
        by_kind = dict.fromkeys(KINDS, 0)
        for buffer in chip.buffers:
            if buffer.kind in ("weight", "receive", "send", "state", "stream"):
                by_kind[buffer.kind] += buffer.size_bytes
        limit = compiled.target.limits.sram_bytes[chip.chip]
        rows.append(
            (
                str(chip.chip),
                bytes_text(chip.high_water_bytes),
                bytes_text(limit),
                percent_text(chip.high_water_bytes / limit if limit else None),
                bytes_text(by_kind["weight"]),
                bytes_text(by_kind["receive"] + by_kind["send"]),
                bytes_text(chip.high_water_bytes - sum(by_kind.values())),
            )
        )
    heads = ("chip", "needs", "of", "share", "weights", "channels", "activations and gaps")
    return Table(heads, tuple(rows), frozenset(range(7)), "SRAM of each chip")
