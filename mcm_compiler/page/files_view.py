"""The files to deploy, what else lies in the folder, and what the outcome depends on."""

from __future__ import annotations

from mcm_compiler.artifact.manifest import ChipEntry
from mcm_compiler.page.contents import Section, Table
from mcm_compiler.page.sources import Compiled
from mcm_compiler.text.units import bytes_text

PLACES = 12
"""Chips that are listed in a cell."""


def files_section(compiled: Compiled) -> Section | None:
    """Which file runs where; None without a folder."""
    if compiled.folder is None or not compiled.folder.manifest.chips:
        return None
    manifest = compiled.folder.manifest
    places: dict[int, list[int]] = {}
    for chip, _, runs in compiled.roles:
        places.setdefault(runs, []).append(chip)
    held = {row["chip"]: row["weight_bytes"] for row in compiled.report["chips"] or ()}
    rows = tuple(
        _row(entry, places.get(entry.chip, [entry.chip]), held.get(entry.chip))
        for entry in manifest.chips
    )
    heads = ("file", "runs on chip", "inputs", "outputs", "weights", "of them on the chip", "ops")
    lead = (
        "Run the files in their order in any onnxruntime: feed each what manifest.json lists under "
        "receives, and hand on what it lists under sends. Weights lie in the .data file beside "
        "each model; on the chip they may have narrower types than there, or stay outside of its "
        "SRAM.",
    )
    return Section(
        "files", "Files to deploy", lead, None,
        (Table(heads, rows, frozenset(range(2, 7)), "One model per chip"),),
    )  # fmt: skip


def _row(entry: ChipEntry, places: list[int], held: int | None) -> tuple[str, ...]:
    shown = ", ".join(map(str, places[:PLACES]))
    if len(places) > PLACES:
        shown += f", ... {places[-1]}"
    return (
        entry.file,
        shown,
        f"{len(entry.inputs):,}",
        f"{len(entry.outputs):,}",
        bytes_text(sum(weight.bytes for weight in entry.weights)),
        "-" if held is None else bytes_text(held),
        f"{len(entry.order):,}",
    )


def diagnostics_section(compiled: Compiled) -> Section | None:
    """Warnings and notes of the compile."""
    rows = tuple(
        (d["severity"], d["code"], d["message"], d["at"] or "-", d["hint"] or "-")
        for d in compiled.report["diagnostics"]
    )
    if not rows:
        return None
    heads = ("", "code", "what", "where", "what to do")
    return Section(
        "diagnostics", "Diagnostics", (), None, (Table(heads, rows, words=frozenset({0, 1})),)
    )
