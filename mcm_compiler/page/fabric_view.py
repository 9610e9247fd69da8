"""Floor plans of chips that are fabrics: where units lie and what their links carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcm_compiler.contracts.fabrics.target import FABRIC_SECTION
from mcm_compiler.page.contents import Section, Table, View
from mcm_compiler.page.sources import Compiled
from mcm_compiler.text.printable import printable
from mcm_compiler.text.units import percent_text, seconds_text


def fabric_section(compiled: Compiled) -> Section | None:
    """The floor plan of each chip that has one of its own; None where chips are no fabrics."""
    facts = compiled.report.get(FABRIC_SECTION)
    if facts is None:
        return None
    plans = [_plan(row, facts["chips"]) for row in facts["chips"] if row["plan"] is not None]
    lead = (
        "Each chip is a grid of units. Squares compute, rings hold, diamonds are input and output; "
        "a colour is a stage of the chip's own pipeline, and a link is the wider the more it "
        "carries.",
    )
    view = View("floor", {"plans": plans}, "Floor plans of the chips")
    return Section("fabrics", "Floor plans", lead, view, (_table(facts),), folded=True)


def _plan(row: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    alike = [other["chip"] for other in rows if other["like"] == row["chip"]]
    plan = row["plan"]
    return {
        "name": f"chip {', '.join(map(str, [row['chip'], *alike]))}",
        "rows": plan["rows"],
        "cols": plan["cols"],
        "stages": [printable(stage) for stage in plan["stages"]],
        "units": plan["units"],
        "links": plan["links"],
    }


def _table(facts: Mapping[str, Any]) -> Table:
    sites = facts["sites"]
    rows = tuple(
        (
            str(row["chip"]),
            seconds_text(row["period_s"]),
            seconds_text(row["bound_s"]),
            percent_text(row["period_s"] / row["bound_s"] - 1 if row["bound_s"] else None),
            seconds_text(row["latency_s"]),
            percent_text(row["utilisation"]),
            *(f"{row['units'][kind]} of {sites[kind]}" for kind in ("compute", "memory", "io")),
            row["method"] if row["like"] is None else f"as chip {row['like']}",
        )
        for row in facts["chips"]
    )
    heads = (
        "chip", "period", "bound", "above", "latency", "busy", "compute", "memory", "input, output",
        "found by",
    )  # fmt: skip
    return Table(heads, rows, frozenset(range(9)), "Chips as fabrics")
