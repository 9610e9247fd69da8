"""The page of a compiled model: its sections, in the order in which one asks."""

from __future__ import annotations

from collections.abc import Callable

from mcm_compiler.additions import shown_by
from mcm_compiler.artifact.manifest import ChipEntry
from mcm_compiler.checking.entry.ring_times import chip_table, ring_lines
from mcm_compiler.page import bound_view, graph_view, package_view, timeline_view
from mcm_compiler.page.contents import Compiled, Page, Section, Table, answers_of, linked
from mcm_compiler.page.scatter import Dot, scatter
from mcm_compiler.report.sentences import model_phrase, search_phrase
from mcm_compiler.report.verdict.claims import verdict_of
from mcm_compiler.text.units import bytes_text, seconds_text


def measured_section(compiled: Compiled) -> Section | None:
    """Period and chips of a ring of processes; None where the folder was not run as one."""
    data = compiled.measured
    if data is None:
        return None
    heads, *rows = chip_table(data["chips"])
    dots = [
        Dot(
            1e6 * data["level"] * row["predicted_s"],
            1e6 * (row["busy_s"] + row["overhead_s"]),
            None,
            True,
            f"chip {row['chip']}: {seconds_text(row['busy_s'] + row['overhead_s'])}",
        )
        for row in data["chips"]
        if row["predicted_s"]
    ]
    drawings: tuple[str, ...] = ()
    if dots:
        across = f"predicted microseconds, times {data['level']:.3g}"
        drawings = (scatter(dots, across, "measured microseconds of CPU time", equal=True),)
    return Section(
        "measured",
        "Predicted and measured",
        tuple(f"{label.capitalize()}: {text}." for label, text in ring_lines(data)),
        None,
        (Table(heads, tuple(rows), frozenset(range(1, len(heads))), "Chips, CPU time of a round"),),
        drawings=drawings,
    )


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
        "Run the files in their order in any onnxruntime: feed each the tensors that manifest.json "
        "lists under `receives`, and pass on those under `sends`. Weights are in the .data file "
        "next to each model; on the chip they may have narrower types, or stay outside its SRAM.",
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
    heads = ("severity", "code", "what", "where", "what to do")
    return Section(
        "diagnostics", "Diagnostics", (), None, (Table(heads, rows, words=frozenset({0, 1})),)
    )


def added_section(compiled: Compiled) -> Section | None:
    """The section of the target's addition; None where it has none."""
    added = shown_by(compiled.report)
    return None if added is None else added.page_section(compiled.report)


SECTIONS: tuple[Callable[[Compiled], Section | None], ...] = (
    package_view.package_section,
    bound_view.bottleneck_section,
    bound_view.sensitivity_section,
    measured_section,
    timeline_view.timeline_section,
    bound_view.bound_section,
    timeline_view.memory_section,
    graph_view.graph_section,
    added_section,
    bound_view.sharding_section,
    bound_view.state_section,
    bound_view.host_section,
    bound_view.additions_section,
    bound_view.verification_section,
    files_section,
    diagnostics_section,
)
"""Each gives its section, or None where the compile has nothing for it."""


def compiled_page(compiled: Compiled) -> Page:
    """The page of a compiled model.

    Raises:
        KeyError, TypeError, ValueError, AttributeError, IndexError: where a report that was not
            checked is not of the published schema.
    """
    report = compiled.report
    model, target = report["model"], report["target"]
    verdict = verdict_of(report)
    profile = "" if compiled.folder is None else compiled.folder.profile
    shown = [f"profile {profile}"] if profile else []
    facts = (verdict["basis"], *shown, model_phrase(report), search_phrase(report))
    found = (section(compiled) for section in SECTIONS)
    sections = tuple(section for section in found if section is not None)
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    return Page(
        f"{model['name']} on {target['name']}",
        facts,
        linked(answers_of(compiled), sections),
        sections,
        (
            f"{verdict['basis'].capitalize()}.",
            f"Model SHA-256 {model['sha256']}, target SHA-256 {target['sha256']}.",
            f"Made with {versions}.",
        ),
    )
