"""The section of a report about chips that are fabrics, with their floor plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcm_compiler.additions import Optimum
from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO, MEMORY, Fabric, link_loads
from mcm_compiler.contracts.fabrics.target import FABRIC_SECTION, MappedChip, MapsChips
from mcm_compiler.page.contents import Section, Table, View
from mcm_compiler.report.records.sections import FabricFacts, FabricRow, FloorPlan, UnitCounts
from mcm_compiler.text.units import escaped, percent_text, printable, seconds_text

FLIT_SIMULATOR = "flit simulator"

LISTED = 8
"""Chips in `report.md`; `report.json` has all."""


def fabric_facts(target: MapsChips, mapped: Sequence[MappedChip]) -> FabricFacts | None:
    """How chips are laid out; None where none is mapped.

    Args:
        target: the package.
        mapped: all used chips of the first pipeline, ascending.
    """
    if not mapped:
        return None
    fabric = target.fabric
    return {"sites": _counts(fabric.kind), "chips": [_row(one, fabric) for one in mapped]}


def fabric_lines(report: Mapping[str, Any]) -> list[str]:
    """The section of `report.md`: a row for each chip that is laid out by itself.

    Args:
        report: as from `build_report`, made printable; names in it may be hostile.
    """
    facts = report[FABRIC_SECTION]
    lines = ["", "## Fabrics", ""]
    heads = ("chip", "period", "bound", "above", "latency", "busy", "units", "stages", "found by")
    lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    own = [row for row in facts["chips"] if row["like"] is None]
    lines += ["| " + " | ".join(_cells(row, facts)) + " |" for row in own[:LISTED]]
    more = f"{len(own) - LISTED} more in `report.json`. " if len(own) > LISTED else ""
    return [*lines, "", f"{more}`mcmc report --html` draws the floor plans."]


def page_section(report: Mapping[str, Any]) -> Section:
    """The floor plan of each chip that has one of its own."""
    facts = report[FABRIC_SECTION]
    sites, chips = facts["sites"], facts["chips"]
    plans = [
        {
            "name": f"chip {plan_chips(row, chips)}",
            **row["plan"],
            "stages": [printable(stage) for stage in row["plan"]["stages"]],
        }
        for row in chips
        if row["plan"] is not None
    ]
    rows = tuple(
        (
            *chip_figures(row),
            *(f"{row['units'][kind]} of {sites[kind]}" for kind in ("compute", "memory", "io")),
            row["method"] if row["like"] is None else f"as chip {row['like']}",
        )
        for row in chips
    )
    heads = (
        "chip", "period", "bound", "above", "latency", "busy", "compute", "memory", "input, output",
        "found by",
    )  # fmt: skip
    table = Table(heads, rows, frozenset(range(9)), "Chips as fabrics")
    lead = (
        "Each chip is a grid of units. Squares compute, rings hold, diamonds are input and output; "
        "a colour is a stage of the chip's own pipeline, and a link is the wider the more it "
        "carries.",
    )
    view = View("floor", {"plans": plans}, "Floor plans of the chips")
    return Section("fabrics", "Floor plans", lead, view, (table,), folded=True)


def optimum(report: Mapping[str, Any]) -> Optimum:
    """The mapping of the slowest chip: the cost model knows no places and routes."""
    chips = report[FABRIC_SECTION]["chips"]
    return Optimum(
        "period of the slowest chip",
        # A period that may be wrong by some share is taken at its longest.
        max(row["period_s"] * (1.0 + row["error"]) for row in chips),
        max(row["bound_s"] for row in chips),
        FLIT_SIMULATOR,
        "simulator",
        "units_and_channels",
        ("mappings of these units", "with this partition and these shares of units"),
    )


def busy_with(report: Mapping[str, Any], chip: int) -> tuple[str, list[str]]:
    """How much of the time the compute units of a mapped chip work."""
    rows = [row for row in report[FABRIC_SECTION]["chips"] if row["chip"] == chip]
    work = [f"its compute units work {percent_text(row['utilisation'])} of it" for row in rows]
    return "fabric", work


def chip_figures(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A mapped chip, its period, bound, distance of both, latency and share of busy units."""
    return (
        str(row["chip"]),
        seconds_text(row["period_s"]),
        seconds_text(row["bound_s"]),
        percent_text(row["period_s"] / row["bound_s"] - 1 if row["bound_s"] else None),
        seconds_text(row["latency_s"]),
        percent_text(row["utilisation"]),
    )


def plan_chips(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """The chips that the floor plan of a row is of."""
    alike = [other["chip"] for other in rows if other["like"] == row["chip"]]
    return ", ".join(map(str, [row["chip"], *alike]))


def _cells(row: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[str, ...]:
    sites = facts["sites"]
    used = ", ".join(f"{row['units'][kind]} of {sites[kind]} {kind}" for kind in sites)
    wrong = f" (within {percent_text(row['error'])})" if row["error"] else ""
    _, period, *rest = chip_figures(row)
    places = plan_chips(row, facts["chips"])
    return (places, period + wrong, *rest, used, str(row["stages"]), escaped(row["method"]))


def _row(one: MappedChip, fabric: Fabric) -> FabricRow:
    problem = one.problem
    work = float(np.sum(problem.firings * problem.cycles))
    units = len(fabric.of_kind(COMPUTE))
    return {
        "chip": one.chip,
        "like": one.like if one.like >= 0 else None,
        "method": one.method,
        "stages": problem.num_stages,
        "units": _counts(problem.kind),
        "streams": problem.num_streams,
        "period_s": one.period_cycles / fabric.clock_hz,
        "bound_s": one.bound_cycles / fabric.clock_hz,
        "latency_s": one.latency_cycles / fabric.clock_hz,
        "error": one.error,
        "utilisation": work / (units * one.period_cycles) if one.period_cycles > 0 else 0.0,
        "plan": _plan(one, fabric) if one.like < 0 else None,
    }


def _plan(one: MappedChip, fabric: Fabric) -> FloorPlan:
    problem, site = one.problem, one.mapping.site[0]
    row, col = np.divmod(fabric.switch[site], fabric.cols)
    outside = np.where(col == 0, -1, fabric.cols)
    col = np.where(problem.kind == IO, outside, col)
    loads = link_loads(problem, fabric, one.mapping)
    used = np.flatnonzero(loads)
    columns = (row.tolist(), col.tolist(), problem.kind.tolist(), problem.stage.tolist())
    return {
        "rows": fabric.rows,
        "cols": fabric.cols,
        "stages": list(problem.stages),
        "units": list(zip(*columns, strict=True)),
        "links": list(zip(used.tolist(), loads[used].tolist(), strict=True)),
    }


def _counts(kind: Ints) -> UnitCounts:
    return {
        "compute": int(np.sum(kind == COMPUTE)),
        "memory": int(np.sum(kind == MEMORY)),
        "io": int(np.sum(kind == IO)),
    }
