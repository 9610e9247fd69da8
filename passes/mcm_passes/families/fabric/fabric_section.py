"""The section of a report about chips that are fabrics, with their floor plans."""

from __future__ import annotations

import html
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

CELL = 26
"""Pixels from one switch to the next."""

MARGIN = 34
"""Pixels around the grid, where input and output lie."""

_COMPUTE, _MEMORY = 0, 1
_LEGEND_ROW, _LEGEND_COLUMN = 16, 230
_STEPS = ((1, 0), (-1, 0), (0, -1), (0, 1))
"""East, west, north, south, as x and y."""

_MOST_STAGES = 400
"""Stages of which the legend has the names; a fabric has no more compute units by far."""

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def floor_plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """Lines of Markdown: the drawing as inline SVG without blank lines, then the text.

    Args:
        plan: a `FloorPlan`; names in it may be hostile and are escaped.
    """
    return [*_svg(plan), "", *_text(plan)]


def stage_colour(stage: int, stages: int) -> str:
    """Colour of a stage: hues along the rainbow, of two shades so that neighbours differ."""
    hue = 300 * stage // max(stages - 1, 1)
    return f"hsl({hue},65%,{62 if stage % 2 else 48}%)"


def _svg(plan: Mapping[str, Any]) -> list[str]:
    rows, cols, names = plan["rows"], plan["cols"], plan["stages"]
    grid_width, grid_height = cols * CELL + 2 * MARGIN, rows * CELL + 2 * MARGIN
    columns = max(grid_width // _LEGEND_COLUMN, 1)
    shown = names[:_MOST_STAGES]
    height = grid_height + (-(-len(shown) // columns) + 1) * _LEGEND_ROW + 8
    width = max(grid_width, _LEGEND_COLUMN)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="10" role="img">',
        f"<title>{rows} x {cols} switches, {len(plan['units'])} units of {len(names)} stages"
        "</title>",
    ]
    most = max((flits for _, flits in plan["links"]), default=1)
    for link, flits in plan["links"]:
        switch, direction = divmod(link, 4)
        row, col = divmod(switch, cols)
        dx, dy = _STEPS[direction]
        x, y = _centre(row, col)
        # Links of both directions lie side by side.
        x, y = x - 2.5 * dy, y + 2.5 * dx
        share = flits / most
        lines.append(
            f'<line x1="{x:g}" y1="{y:g}" x2="{x + dx * CELL:g}" y2="{y + dy * CELL:g}" '
            f'stroke="{_load_colour(share)}" stroke-width="{0.6 + 2.4 * share:.2f}">'
            f"<title>{flits} flits</title></line>"
        )
    for row, col, kind, stage in plan["units"]:
        x, y = _centre(row, col)
        name = html.escape(names[stage]) if stage < len(names) else "?"
        fill = stage_colour(stage, len(names))
        title = f"<title>{name}</title>"
        if kind == _COMPUTE:
            lines.append(
                f'<rect x="{x - 8:g}" y="{y - 8:g}" width="16" height="16" fill="{fill}">'
                f"{title}</rect>"
            )
        elif kind == _MEMORY:
            lines.append(
                f'<circle cx="{x:g}" cy="{y:g}" r="7" fill="white" stroke="{fill}" '
                f'stroke-width="3">{title}</circle>'
            )
        else:
            lines.append(
                f'<path d="M{x:g} {y - 8:g}L{x + 8:g} {y:g}L{x:g} {y + 8:g}L{x - 8:g} {y:g}Z" '
                f'fill="{fill}">{title}</path>'
            )
    y = grid_height
    lines.append(
        f'<text x="{MARGIN}" y="{y}">squares compute, rings hold, diamonds are input and output; '
        f"the widest link carries {most} flits</text>"
    )
    for stage, name in enumerate(shown):
        x = 8 + stage % columns * _LEGEND_COLUMN
        y = grid_height + (stage // columns + 1) * _LEGEND_ROW
        lines.append(
            f'<rect x="{x}" y="{y - 9}" width="10" height="10" '
            f'fill="{stage_colour(stage, len(names))}"/>'
            f'<text x="{x + 14}" y="{y}">{html.escape(_short(name))}</text>'
        )
    return [*lines, "</svg>"]


def _text(plan: Mapping[str, Any]) -> list[str]:
    """The same with a mark for each site: letters by stage, upper and lower case in turn."""
    rows, cols = plan["rows"], plan["cols"]
    marks = [[" . "] * (cols + 2) for _ in range(rows)]
    for line in marks:
        line[0] = line[-1] = "   "
    for row, col, kind, stage in plan["units"]:
        letter = _LETTERS[stage % len(_LETTERS)]
        around = {_COMPUTE: f"[{letter}]", _MEMORY: f"({letter})"}.get(kind, f"<{letter}>")
        marks[row][col + 1] = around
    letters = [
        f"{_LETTERS[stage % len(_LETTERS)]} {_short(name)}"
        for stage, name in enumerate(plan["stages"][:_MOST_STAGES])
    ]
    text = [f"    {''.join(line).rstrip()}" for line in marks]
    return [
        "As text: `[A]` computes for stage A, `(A)` holds for it, `<A>` is its input or output.",
        "",
        *text,
        "",
        *(f"    {line}" for line in letters),
    ]


def _centre(row: int, col: int) -> tuple[float, float]:
    return MARGIN + (col + 0.5) * CELL, MARGIN + (row + 0.5) * CELL


def _load_colour(share: float) -> str:
    """From light grey where there is little to red where there is most."""
    level = round(200 * (1 - share))
    return f"rgb({max(level, 200)},{level},{level})"


def _short(name: str) -> str:
    name = name.replace("\n", " ").replace("`", "'")
    return name if len(name) <= 36 else f"{name[:17]}...{name[-16:]}"


DRAWN = 12
"""Floor plans in `report.md`; `report.json` has all."""


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
        lines += ["", f"### Floor plan of chip {plan_chips(row, facts['chips'])}", ""]
        lines += floor_plan_lines(row["plan"])
    if len(own) > DRAWN:
        lines += ["", f"{len(own) - DRAWN} more floor plans are in `report.json`."]
    return lines


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


def _cells(row: Mapping[str, Any], sites: Mapping[str, int]) -> tuple[str, ...]:
    used = ", ".join(f"{row['units'][kind]} of {sites[kind]} {kind}" for kind in sites)
    wrong = f" (within {percent_text(row['error'])})" if row["error"] else ""
    chip, period, *rest = chip_figures(row)
    by = escaped(row["method"]) if row["like"] is None else f"as chip {row['like']}"
    return (chip, period + wrong, *rest, used, str(row["stages"]), by)


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
