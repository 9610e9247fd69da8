"""The report as Markdown: `report.md` in the output folder, or a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcm_compiler.additions import shown_by
from mcm_compiler.report.details import (
    KERNEL_HEADS,
    LINK_HEADS,
    added_cells,
    details_of,
    kernel_cells,
    link_cells,
)
from mcm_compiler.report.hardware.sensitivity_section import (
    SENSITIVITY_HEADS,
    SENSITIVITY_SECTION,
    sensitivity_table,
)
from mcm_compiler.report.host_section import HOST_HEADS, host_sentences, host_table
from mcm_compiler.report.sentences import kernel_phrase, replication_phrase, role_sentence
from mcm_compiler.report.state_section import SIZE_HEADS, SIZE_TITLE, size_table, state_rows
from mcm_compiler.report.verdict.bottleneck_line import busy_parts
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

MOST_LINES = 80
"""Lines of the text; what goes beyond them is named at its end."""

LISTED = (8, 4, 2)
"""Rows of a table at most: the first number with which all sections fit."""

LEAST_LINK = 0.01
"""Share of the period from which on a link is listed."""

DETAILS = (
    "model", "simulation", "objective", "its bound", "one inference", "lower bound",
    "lower bound of the period", "over all divisions", "learned search", "energy", "area",
    "shared channels", "replicas", "pipelines", "found by", "options", "cost model", "added",
)  # fmt: skip
"""Labels of the details that are listed, in their order."""

CHANGES = {
    "clones": ("Cloned ops", ("op", "clone", "chip")),
    "relays": ("Relays", ("tensor", "relay", "chip")),
    "sharded_operators": ("Sharded operators", ("op", "weight", "size", "axis", "pieces")),
}
"""Title and heads of the tables of `added_cells`."""


def render_markdown(report: Mapping[str, Any]) -> str:
    """The report as GitHub-flavoured Markdown that ends in a newline, of at most `MOST_LINES`.

    Args:
        report: as from `build_report`. Names in it may be hostile: what Markdown or HTML would
            act on is escaped.
    """
    report = printable_data(report)
    model, target = report["model"], report["target"]
    lines = [f"# {escaped(model['name'])} on {escaped(target['name'])}", "", *_claims(report)]
    foot = ["", _made_with(report)]
    most = MOST_LINES - len(foot) - 2  # two lines name the sections that do not fit
    sections: list[list[str]] = []
    for listed in LISTED:
        sections = [lines_of for lines_of in _sections(report, listed) if lines_of]
        if sum(map(len, (lines, *sections))) <= most:
            break
    left_out: list[str] = []
    for section in sections:
        if len(lines) + len(section) <= most:
            lines += section
        else:
            left_out.append(section[1].removeprefix("## "))
    if left_out:
        lines += ["", f"Only in `report.json`: {', '.join(left_out)}."]
    return "\n".join([*lines, *foot]) + "\n"


def _sections(report: Mapping[str, Any], listed: int) -> Iterator[list[str]]:
    """Each section as lines from its blank line on, the most important ones first."""
    if (bottleneck := report["bottleneck"]) is not None:
        tensors = [(t["name"], bytes_text(t["bytes"])) for t in bottleneck["heaviest_tensors"]]
        lines = ["", "## Bottleneck", "", escaped(bottleneck["text"]), ""]
        lines += _listed(KERNEL_HEADS, kernel_cells(bottleneck), listed)
        lines += _table(("tensor", "size"), tensors)
        yield lines + _moves(bottleneck)
    more = [row for row in report.get(SENSITIVITY_SECTION) or () if row["factor"] > 1]
    changed = sensitivity_table({SENSITIVITY_SECTION: more})
    yield _section("What if, with all else equal", SENSITIVITY_HEADS, changed, listed)
    chips: list[Mapping[str, Any]] = report["chips"] or []
    if len(chips) > listed:
        chips = sorted(chips, key=lambda row: -(row["busy_s"] or 0.0))
    first = " of the first replica" if replication_phrase(report) is not None else ""
    heads = ("chip", "busy", "time", "of which", "waits", "SRAM", "ops", "heaviest op")
    yield _section(f"Chips{first}", heads, [_chip(row) for row in chips], listed)
    links = [row for row in report["links"] or () if (row["utilisation"] or 0.0) >= LEAST_LINK]
    if len(links) > listed:
        links.sort(key=lambda row: -row["utilisation"])
    yield _section("Links", LINK_HEADS, link_cells({"links": links}), listed)
    heads = ("chip", "of a sequence", "of all in flight")
    yield _section("States", heads, state_rows(report), listed)
    yield _section(SIZE_TITLE, SIZE_HEADS, size_table(report), listed)
    if hosted := host_sentences(report):
        lines = ["", "## On the host", "", *(f"- {escaped(part)}" for part in hosted), ""]
        yield lines + _listed(HOST_HEADS, host_table(report), listed)
    if (added := shown_by(report)) is not None:
        yield [*added.lines(report)]
    if found := report["diagnostics"]:
        shown = [_diagnostic(one) for one in found[:listed]]
        yield ["", "## Diagnostics", "", *shown, *_more(len(found) - listed)]
    yield ["", "## Details", "", *_marked(("", ""), _summary(report))]
    for kind, rows in added_cells(report).items():
        yield _section(*CHANGES[kind], rows, listed)


def _made_with(report: Mapping[str, Any]) -> str:
    versions = (f"{name} {version or UNKNOWN}" for name, version in report["versions"].items())
    hashes = (f"{name} SHA-256 `{report[name]['sha256']}`" for name in ("model", "target"))
    return f"Made with {escaped(', '.join(versions))}; {', '.join(hashes)}."


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
    details = {**details_of(report), "pipelines": role_sentence(report)}
    return [(label, escaped(text)) for label in DETAILS if (text := details.get(label))]


def _chip(row: Mapping[str, Any]) -> tuple[str, ...]:
    stalls = row["stall_s"] or {}
    waits = ", ".join(f"{k} {seconds_text(v)}" for k, v in stalls.items() if v > 0)
    heaviest = row["heaviest_op"]
    return (
        str(row["chip"]),
        percent_text(row["utilisation"]),
        seconds_text(row["busy_s"]),
        busy_parts(row) or UNKNOWN,
        waits or UNKNOWN,
        f"{bytes_text(row['sram_high_water_bytes'])} of {bytes_text(row['sram_bytes'])}",
        UNKNOWN if row["ops"] is None else f"{row['ops']:,}",
        f"{kernel_phrase(heaviest)} {seconds_text(heaviest['seconds'])}" if heaviest else UNKNOWN,
    )


def _diagnostic(diagnostic: dict[str, Any]) -> str:
    line = f"- {escaped(diagnostic['severity'])}\\[{escaped(diagnostic['code'])}\\]: "
    line += escaped(diagnostic["message"])
    if diagnostic["at"] is not None:
        line += f" At {escaped(diagnostic['at'])}."
    if diagnostic["hint"] is not None:
        line += f" Hint: {escaped(diagnostic['hint'])}."
    return line


def _section(
    title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], listed: int
) -> list[str]:
    """A table below a title; nothing without rows."""
    return ["", f"## {title}", "", *_listed(heads, rows, listed)] if rows else []


def _listed(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], listed: int) -> list[str]:
    """The first rows of a table, and how many more there are."""
    return [*_table(heads, rows[:listed]), *_more(len(rows) - listed)]


def _more(rows: int) -> list[str]:
    return ["", f"{rows} more in `report.json`."] if rows > 0 else []


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A table of texts; nothing without rows."""
    return _marked(heads, [tuple(map(escaped, row)) for row in rows])


def _marked(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A table of cells that are Markdown; nothing without rows."""
    if not rows:
        return []
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]
