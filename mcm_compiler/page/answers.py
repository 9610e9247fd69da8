"""The headline of a compiled model's page: the lines of its verdict, and what to deploy."""

from __future__ import annotations

from mcm_compiler.page.contents import Answer
from mcm_compiler.page.sources import Compiled
from mcm_compiler.report.hardware.sensitivity_section import SENSITIVITY_SECTION
from mcm_compiler.report.verdict.claims import verdict_of
from mcm_compiler.text.units import count_text

SECTIONS = {
    "fits": "memory",
    "throughput": "timeline",
    "optimality": "bound",
    "limited by": "bottleneck",
    "idle": "package",
    "next": SENSITIVITY_SECTION,
    "verified": "verification",
}
"""The section that tells more, by the label of a line."""

STALLS = {
    "input": "for its inputs to be computed",
    "link": "for its inputs to arrive",
    "buffer": "for full buffers (back-pressure)",
}
"""Why a chip waits, in words."""


def answers_of(compiled: Compiled) -> tuple[Answer, ...]:
    """The lines of the verdict as they are, and what to deploy."""
    found = [
        Answer(
            line["label"],
            line["headline"],
            tuple(line["details"]),
            line["tone"],
            SECTIONS.get(line["label"], ""),
        )
        for line in verdict_of(compiled.report)["lines"]
    ]
    if (deploy := _deploy(compiled)) is not None:
        found.append(deploy)
    return tuple(found)


def _deploy(compiled: Compiled) -> Answer | None:
    if compiled.folder is None:
        return None
    entries = compiled.folder.manifest.chips
    if not entries:
        return None
    first, last = entries[0].file, entries[-1].file
    shown = first if len(entries) == 1 else f"{first} to {last}"
    details = [
        f"{count_text(len(entries), 'plain ONNX model')}, with the .data files beside, that stock "
        "onnxruntime runs",
        "manifest.json says which tensor goes from where to where",
    ]
    if compiled.replicas > 1:
        details.insert(1, f"each runs on {compiled.replicas} chips, one of every pipeline")
    return Answer("to deploy", shown, tuple(details), "plain", "files")
