"""The report as Markdown: `report.md` in the output folder, or a comment on a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcm_compiler.additions import shown_by
from mcm_compiler.report.details import LINK_HEADS, added_cells, details_of, link_cells
from mcm_compiler.report.hardware import energy_section
from mcm_compiler.report.hardware.sensitivity_section import SENSITIVITY_HEADS, sensitivity_table
from mcm_compiler.report.host_section import HOST_HEADS, host_sentences, host_table
from mcm_compiler.report.sentences import replication_phrase, role_places
from mcm_compiler.report.state_section import SIZE_HEADS, SIZE_TITLE, size_table, state_rows
from mcm_compiler.report.verdict.claims import verdict_of
from mcm_compiler.text.units import (
    UNKNOWN,
    bytes_text,
    count_text,
    escaped,
    percent_text,
    printable_data,
    seconds_text,
)

LISTED = 50
"""Clones, relays and sharded operators that are listed; `report.json` has all."""

DETAILS = (
    "model", "simulation", "objective", "its bound", "one inference", "lower bound",
    "lower bound of the period", "over all divisions", "learned search", "energy", "area",
    "shared channels", "replicas", "found by", "options", "cost model", "passes", "added",
)  # fmt: skip
"""Labels of the details that are listed, in their order."""

CHANGES = {
    "clones": ("Cloned ops", ("op", "clone", "chip")),
    "relays": ("Relays", ("tensor", "relay", "chip")),
    "sharded_operators": ("Sharded operators", ("op", "weight", "size", "axis", "pieces")),
}
"""Title and heads of the tables of `added_cells`."""


def render_markdown(report: Mapping[str, Any]) -> str:
    """The report as GitHub-flavoured Markdown that ends in a newline.

    Args:
        report: as from `build_report`. Names in it may be hostile: what Markdown or HTML would
            act on is escaped.
    """
    report = printable_data(report)
    model, target = report["model"], report["target"]
    lines = [f"# {escaped(model['name'])} on {escaped(target['name'])}", ""]
    lines += [*_claims(report), "", "## Details", "", *_marked(("", ""), _summary(report))]
    if (bottleneck := report["bottleneck"]) is not None:
        lines += ["", "## Bottleneck", "", escaped(bottleneck["text"]), ""]
        ops = [(o["name"], seconds_text(o["seconds"])) for o in bottleneck["heaviest_ops"]]
        tensors = [(t["name"], bytes_text(t["bytes"])) for t in bottleneck["heaviest_tensors"]]
        lines += _table(("op", "time"), ops) + _table(("tensor", "size"), tensors)
        lines += _moves(bottleneck)
    first = " of the first replica" if replication_phrase(report) is not None else ""
    heads = ("chip", "busy", "time", "engines", "waits", "SRAM", "of", "ops", "heaviest op")
    lines += _section(f"Chips{first}", heads, [_chip(row) for row in report["chips"] or ()])
    lines += _section("States", ("chip", "of a sequence", "of all in flight"), state_rows(report))
    lines += _section(SIZE_TITLE, SIZE_HEADS, size_table(report))
    places = sorted(role_places(report).items())
    runs = [(str(chip), ", ".join(map(str, chips))) for chip, chips in places]
    lines += _section("Replicas", ("model of chip", "runs on chips"), runs)
    lines += _section("Links", LINK_HEADS, link_cells(report))
    if (added := shown_by(report)) is not None:
        lines += added.lines(report)
    if hosted := host_sentences(report):
        lines += ["", "## On the host", "", *(f"- {escaped(part)}" for part in hosted), ""]
        lines += _table(HOST_HEADS, host_table(report))
    changed = sensitivity_table(report)
    lines += _section("What if, with all else equal", SENSITIVITY_HEADS, changed)
    energy = energy_section.energy_rows(report)
    lines += _section("Energy of an inference", energy_section.ENERGY_HEADS, energy)
    lines += _changes(report)
    if report["diagnostics"]:
        lines += ["", "## Diagnostics", ""]
        lines += [_diagnostic(d) for d in report["diagnostics"]]
    versions = [(name, version or UNKNOWN) for name, version in report["versions"].items()]
    lines += ["", "## Made with", "", *_table(("", "version"), versions)]
    return "\n".join(lines) + "\n"


def _moves(bottleneck: dict[str, Any]) -> list[str]:
    """Moves that help, and those that pins are in the way of; earlier releases list others."""
    helpful = [move for move in bottleneck.get("moves", []) if "period_s" in move]
    rows = [
        (*_moved(move), bytes_text(move["need_bytes"]), bytes_text(move["free_bytes"]))
        for move in helpful
    ]
    pinned = [
        (*_moved(move), move["pin"] or UNKNOWN) for move in bottleneck.get("pinned_moves", [])
    ]
    heads = ("to move", "from chip", "to chip", "period then", "shorter by")
    lines = ["", *_table((*heads, "needs at most", "free there"), rows)] if rows else []
    return lines + (["", *_table((*heads, "but pinned by"), pinned)] if pinned else [])


def _moved(move: Mapping[str, Any]) -> tuple[str, ...]:
    along = f" and {count_text(move['along'], 'other')}" if move["along"] else ""
    return (
        move["name"] + along,
        str(move["from_chip"]),
        str(move["to_chip"]),
        seconds_text(move["period_s"]),
        percent_text(move["gain"]),
    )


def _claims(report: Mapping[str, Any]) -> list[str]:
    """The verdict: where figures come from, and its lines as a table."""
    verdict = verdict_of(report)
    rows = [
        (
            line["label"],
            "; ".join([f"**{escaped(line['headline'])}**", *map(escaped, line["details"])]),
        )
        for line in verdict["lines"]
    ]
    return [f"{escaped(verdict['basis'])}", "", *_marked(("", ""), rows)]


def _summary(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    details = {**details_of(report), "passes": report["pipeline"]}
    return [
        *((label, escaped(details[label])) for label in DETAILS if label in details),
        ("model SHA-256", f"`{report['model']['sha256']}`"),
        ("target SHA-256", f"`{report['target']['sha256']}`"),
    ]


def _chip(row: dict[str, Any]) -> tuple[str, ...]:
    stalls = row["stall_s"] or {}
    waits = ", ".join(f"{k} {seconds_text(v)}" for k, v in stalls.items() if v > 0)
    shares = row.get("engine_utilisation") or {}  # reports of the first release lack it
    engines = ", ".join(f"{k} {percent_text(v)}" for k, v in shares.items() if v)
    heaviest = row["heaviest_op"]
    return (
        str(row["chip"]),
        percent_text(row["utilisation"]),
        seconds_text(row["busy_s"]),
        engines or UNKNOWN,
        waits or UNKNOWN,
        bytes_text(row["sram_high_water_bytes"]),
        bytes_text(row["sram_bytes"]),
        UNKNOWN if row["ops"] is None else f"{row['ops']:,}",
        f"{heaviest['name']} {seconds_text(heaviest['seconds'])}" if heaviest else UNKNOWN,
    )


def _changes(report: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for kind, rows in added_cells(report).items():
        lines += _section(*CHANGES[kind], rows[:LISTED])
        if len(rows) > LISTED:
            lines += ["", f"{len(rows) - LISTED} more are in `report.json`."]
    return lines


def _diagnostic(diagnostic: dict[str, Any]) -> str:
    line = f"- {escaped(diagnostic['severity'])}\\[{escaped(diagnostic['code'])}\\]: "
    line += escaped(diagnostic["message"])
    if diagnostic["at"] is not None:
        line += f" At {escaped(diagnostic['at'])}."
    if diagnostic["hint"] is not None:
        line += f" Hint: {escaped(diagnostic['hint'])}."
    return line


def _section(title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A table below a title; nothing without rows."""
    return ["", f"## {title}", "", *_table(heads, rows)] if rows else []


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A table of texts; nothing without rows."""
    return _marked(heads, [tuple(map(escaped, row)) for row in rows])


def _marked(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A table of cells that are Markdown; nothing without rows."""
    if not rows:
        return []
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]
