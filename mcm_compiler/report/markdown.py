"""The report as Markdown: `report.md` in the output folder, or a comment on a pull request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcm_compiler.contracts.fabrics.target import FABRIC_SECTION
from mcm_compiler.report.advice.replica_limit import limit_sentence
from mcm_compiler.report.cost_section import cost_model_phrase
from mcm_compiler.report.hardware import energy_section
from mcm_compiler.report.hardware.sensitivity_section import SENSITIVITY_HEADS, sensitivity_table
from mcm_compiler.report.host_section import HOST_HEADS, host_sentences, host_table
from mcm_compiler.report.objective_section import objective_rows
from mcm_compiler.report.sentences import (
    bound_sentence,
    changes_sentence,
    learned_sentence,
    model_phrase,
    options_phrase,
    place_name,
    replication_phrase,
    role_sentence,
    search_phrase,
    shared_sentence,
    simulator_sentence,
)
from mcm_compiler.report.state_section import state_rows
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


def render_markdown(report: Mapping[str, Any]) -> str:
    """The report as GitHub-flavoured Markdown that ends in a newline.

    Args:
        report: as from `build_report`. Names in it may be hostile: what Markdown or HTML would
            act on is escaped.
    """
    report = printable_data(report)
    model, target = report["model"], report["target"]
    lines = [f"# {escaped(model['name'])} on {escaped(target['name'])}", ""]
    lines += [*_claims(report), "", "## Details", "", *_table(("", ""), _summary(report))]
    if (bottleneck := report["bottleneck"]) is not None:
        lines += ["", "## Bottleneck", "", escaped(bottleneck["text"]), ""]
        ops = [(escaped(o["name"]), seconds_text(o["seconds"])) for o in bottleneck["heaviest_ops"]]
        tensors = [
            (escaped(t["name"]), bytes_text(t["bytes"])) for t in bottleneck["heaviest_tensors"]
        ]
        lines += _table(("op", "time"), ops) + _table(("tensor", "size"), tensors)
        lines += _moves(bottleneck)
    if report["chips"]:
        side_by_side = replication_phrase(report) is not None
        lines += ["", "## Chips of the first replica" if side_by_side else "## Chips", ""]
        lines += _table(
            ("chip", "busy", "time", "engines", "waits", "SRAM", "of", "ops", "heaviest op"),
            [_chip(row) for row in report["chips"]],
        )
    if rows := state_rows(report):
        lines += ["", "## States", "", *_table(("chip", "of a sequence", "of all in flight"), rows)]
    lines += _roles(report)
    if report["links"]:
        lines += ["", "## Links", ""]
        rows = [
            (
                place_name(link["source"]),
                place_name(link["destination"]),
                percent_text(link["utilisation"]),
                seconds_text(link["busy_s"]),
                bytes_text(link["bytes_per_inference"]),
                seconds_text(link.get("queue_s")),
            )
            for link in report["links"]
        ]
        lines += _table(("from", "to", "busy", "time", "per inference", "queueing"), rows)
    if report.get(FABRIC_SECTION) is not None:
        from mcm_compiler.report.fabric_section import fabric_lines

        lines += fabric_lines(report)
    if hosted := host_sentences(report):
        lines += ["", "## On the host", "", *(f"- {escaped(part)}" for part in hosted), ""]
        cells = [tuple(escaped(cell) for cell in row) for row in host_table(report)]
        lines += _table(HOST_HEADS, cells)
    if rows := sensitivity_table(report):
        cells = [tuple(map(escaped, row)) for row in rows]
        lines += ["", "## What if, with all else equal", ""]
        lines += _table(SENSITIVITY_HEADS, cells)
    if rows := energy_section.energy_rows(report):
        lines += ["", "## Energy of an inference", "", *_table(energy_section.ENERGY_HEADS, rows)]
    lines += _changes(report)
    if report["diagnostics"]:
        lines += ["", "## Diagnostics", ""]
        lines += [_diagnostic(d) for d in report["diagnostics"]]
    lines += ["", "## Made with", ""]
    lines += _table(
        ("", "version"),
        [
            (escaped(name), escaped(version or UNKNOWN))
            for name, version in report["versions"].items()
        ],
    )
    return "\n".join(lines) + "\n"


def _roles(report: Mapping[str, Any]) -> list[str]:
    """Every chip of the package with the model that it runs, where pipelines share it."""
    if role_sentence(report) is None:
        return []
    places: dict[int, list[str]] = {}
    for role in report["replication"]["chips"]:
        places.setdefault(role["runs"], []).append(str(role["chip"]))
    rows = [(str(chip), ", ".join(chips)) for chip, chips in sorted(places.items())]
    heads = ("model of chip", "runs on chips")
    return ["", "## Replicas", "", *_table(heads, rows)]


def _moves(bottleneck: dict[str, Any]) -> list[str]:
    """Moves that help, and those that pins are in the way of; earlier releases list others."""
    rows = [
        (
            _moved(move),
            str(move["from_chip"]),
            str(move["to_chip"]),
            seconds_text(move["period_s"]),
            percent_text(move["gain"]),
            bytes_text(move["need_bytes"]),
            bytes_text(move["free_bytes"]),
        )
        for move in bottleneck.get("moves", [])
        if "period_s" in move
    ]
    pinned = [
        (
            _moved(move),
            str(move["from_chip"]),
            str(move["to_chip"]),
            seconds_text(move["period_s"]),
            percent_text(move["gain"]),
            escaped(move["pin"] or UNKNOWN),
        )
        for move in bottleneck.get("pinned_moves", [])
    ]
    heads = ("to move", "from chip", "to chip", "period then", "shorter by")
    lines = ["", *_table((*heads, "needs at most", "free there"), rows)] if rows else []
    if pinned:
        lines += ["", *_table((*heads, "but pinned by"), pinned)]
    return lines


def _moved(move: Mapping[str, Any]) -> str:
    name = escaped(move["name"])
    return f"{name} and {count_text(move['along'], 'other')}" if move["along"] else name


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
    return [f"{escaped(verdict['basis'])}", "", *_table(("", ""), rows)]


def _summary(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    model, target = report["model"], report["target"]
    asked = objective_rows(report)
    simulator = report["period_model"]
    return [
        ("model", model_phrase(report)),
        *([("simulation", escaped(simulator_sentence(simulator, report)))] if simulator else ()),
        *((label, escaped(text)) for label, text in asked),
        (f"lower bound{' of the period' if asked else ''}", escaped(bound_sentence(report))),
        *([("learned search", learned)] if (learned := learned_sentence(report)) else ()),
        *([("energy", energy)] if (energy := energy_section.energy_sentence(report)) else ()),
        *([("area", area)] if (area := energy_section.area_sentence(report)) else ()),
        *([("shared channels", line)] if (line := shared_sentence(report["links"])) else ()),
        *([("replicas", escaped(limit))] if (limit := limit_sentence(report)) else ()),
        ("found by", escaped(search_phrase(report))),
        *([("options", escaped(given))] if (given := options_phrase(report)) else ()),
        *([("cost model", escaped(costs))] if (costs := cost_model_phrase(report)) else ()),
        ("passes", escaped(report["pipeline"])),
        ("added", changes_sentence(report)),
        ("model SHA-256", f"`{model['sha256']}`"),
        ("target SHA-256", f"`{target['sha256']}`"),
    ]


def _chip(row: dict[str, Any]) -> tuple[str, ...]:
    stalls = row["stall_s"] or {}
    waits = ", ".join(f"{escaped(k)} {seconds_text(v)}" for k, v in stalls.items() if v > 0)
    shares = row.get("engine_utilisation") or {}  # reports of the first release lack it
    engines = ", ".join(f"{escaped(k)} {percent_text(v)}" for k, v in shares.items() if v)
    heaviest = row["heaviest_op"]
    return (
        str(row["chip"]),
        percent_text(row["utilisation"]),
        seconds_text(row["busy_s"]),
        engines or UNKNOWN,
        waits or UNKNOWN,
        bytes_text(row["sram_high_water_bytes"]),
        bytes_text(row["sram_bytes"]),
        _count(row["ops"]),
        f"{escaped(heaviest['name'])} {seconds_text(heaviest['seconds'])}" if heaviest else UNKNOWN,
    )


def _changes(report: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    if clones := report["clones"]:
        rows = [(escaped(c["node"]), escaped(c["clone"]), str(c["chip"])) for c in clones[:LISTED]]
        lines += ["", "## Cloned ops", "", *_table(("op", "clone", "chip"), rows)]
        lines += _more(len(clones))
    if relays := report["relays"]:
        rows = [
            (escaped(r["tensor"]), escaped(r["relay"]), str(r["chip"])) for r in relays[:LISTED]
        ]
        lines += ["", "## Relays", "", *_table(("tensor", "relay", "chip"), rows)]
        lines += _more(len(relays))
    if sharded := report["sharded_operators"]:
        rows = [
            (
                escaped(o["node"]),
                escaped(o["weight"]),
                bytes_text(o["weight_bytes"]),
                str(o["axis"]),
                str(len(o["pieces"])),
            )
            for o in sharded[:LISTED]
        ]
        heads = ("op", "weight", "size", "axis", "pieces")
        lines += ["", "## Sharded operators", "", *_table(heads, rows), *_more(len(sharded))]
    return lines


def _more(total: int) -> list[str]:
    return ["", f"{total - LISTED} more are in `report.json`."] if total > LISTED else []


def _diagnostic(diagnostic: dict[str, Any]) -> str:
    line = f"- {escaped(diagnostic['severity'])}\\[{escaped(diagnostic['code'])}\\]: "
    line += escaped(diagnostic["message"])
    if diagnostic["at"] is not None:
        line += f" At {escaped(diagnostic['at'])}."
    if diagnostic["hint"] is not None:
        line += f" Hint: {escaped(diagnostic['hint'])}."
    return line


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _count(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count:,}"
