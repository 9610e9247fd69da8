"""What the report says of chips that are fabrics: figures, and where their units lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO, MEMORY, Fabric, link_loads
from mcm_compiler.contracts.fabrics.target import FABRIC_SECTION, MappedChip, MapsChips
from mcm_compiler.contracts.target import Target
from mcm_compiler.report.floor_plan import floor_plan_lines
from mcm_compiler.report.records.fabrics import FabricFacts, FabricRow, FloorPlan, UnitCounts
from mcm_compiler.text.units import escaped, percent_text, seconds_text

DRAWN = 12
"""Floor plans in `report.md`; `report.json` has all."""


def fabric_facts(target: Target, mapped: Sequence[MappedChip]) -> FabricFacts | None:
    """How chips are laid out; None where they are no fabrics, or none is mapped.

    Args:
        target: the package.
        mapped: all used chips of the first pipeline, ascending.
    """
    if not isinstance(target, MapsChips) or not mapped:
        return None
    fabric = target.fabric
    return {"sites": _counts(fabric.kind), "chips": [_row(one, fabric) for one in mapped]}


def fabric_lines(report: Mapping[str, Any]) -> list[str]:
    """The section of `report.md`, with a floor plan for each chip of its own.

    Args:
        report: as from `build_report`, made printable; names in it may be hostile.
    """
    facts = report[FABRIC_SECTION]
    lines = ["", "## Fabrics", ""]
    heads = ("chip", "period", "bound", "above", "latency", "busy", "units", "stages", "found by")
    lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    sites = facts["sites"]
    lines += ["| " + " | ".join(_cells(row, sites)) + " |" for row in facts["chips"]]
    own = [row for row in facts["chips"] if row["plan"] is not None]
    for row in own[:DRAWN]:
        alike = [other["chip"] for other in facts["chips"] if other["like"] == row["chip"]]
        chips = ", ".join(map(str, [row["chip"], *alike]))
        lines += ["", f"### Floor plan of chip {chips}", ""]
        lines += floor_plan_lines(row["plan"])
    if len(own) > DRAWN:
        lines += ["", f"{len(own) - DRAWN} more floor plans are in `report.json`."]
    return lines


def _cells(row: Mapping[str, Any], sites: Mapping[str, int]) -> tuple[str, ...]:
    used = ", ".join(f"{row['units'][kind]} of {sites[kind]} {kind}" for kind in sites)
    like = row["like"]
    wrong = f" (within {percent_text(row['error'])})" if row["error"] else ""
    return (
        str(row["chip"]),
        seconds_text(row["period_s"]) + wrong,
        seconds_text(row["bound_s"]),
        percent_text(row["period_s"] / row["bound_s"] - 1) if row["bound_s"] else "-",
        seconds_text(row["latency_s"]),
        percent_text(row["utilisation"]),
        used,
        str(row["stages"]),
        escaped(row["method"]) if like is None else f"as chip {like}",
    )


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
