"""The report of a placement: rows for a terminal, and the same as Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mcm_compiler.placed.placed_verdict import basis_of, placed_lines, times_of
from mcm_compiler.placed.records import PlacementRecord, Schedule
from mcm_compiler.report.verdict.words import line_text
from mcm_compiler.text.units import bytes_text, count_text, percent_text, printable, seconds_text

Rows = list[list[str]]


def step_rows(record: PlacementRecord) -> Rows:
    """What the verdict leaves out: the argument of the bound, and how the placement was found."""
    step, search = record.step, record.search
    how = f"{search.method}, {count_text(search.evaluations, 'placement')} simulated"
    return [
        ["lower bound", seconds_text(step.bound_s), step.argument],
        ["placer", search.placer, how],
        *(["cost model", text, f"of {kind}"] for kind, text in record.cost_models.items()),
    ]


def request_rows(record: PlacementRecord) -> Rows:
    """What was asked, of what, and how it was searched, as `placement.json` has it."""
    data = record.to_dict()
    rows = [["compiler", record.compiler]]
    for section in ("model", "asked", "search"):
        rows += [
            [f"{section}.{name}", json.dumps(value, ensure_ascii=False)]
            for name, value in data[section].items()
        ]
    return rows


def device_rows(record: PlacementRecord) -> Rows:
    """A row per device below a head."""
    rows = [["device", "kind", "ops", "busy", "share", "copies", "memory", "of"]]
    for device in record.devices:
        share = device.busy_s / record.step.seconds if record.step.seconds else None
        rows.append(
            [
                device.device,
                device.kind,
                f"{device.ops:,}",
                seconds_text(device.busy_s),
                percent_text(share),
                seconds_text(device.copy_s),
                bytes_text(device.peak_bytes),
                bytes_text(device.memory_bytes),
            ]
        )
    return rows


def markdown(record: PlacementRecord, schedule: Schedule | None) -> str:
    """`report.md`."""
    model = record.model
    name = f"{model.name} (a training step)" if model.training else model.name
    lines = [f"# {printable(name)} in {printable(record.target)}", ""]
    times = None if schedule is None else times_of(schedule)
    lines += [basis_of(record), ""]
    rows = [[line["label"], line_text(line)] for line in placed_lines(record, times)]
    lines += [*_table([["", ""], *rows]), "", "## Details", ""]
    lines += _table([["", "", "why"], *step_rows(record)])
    lines += ["", "## Devices", "", *_table(device_rows(record))]
    lines += ["", "## Request and search", "", *_table([["", ""], *request_rows(record)])]
    lines += ["", "## Segments", ""]
    if schedule is None:
        lines.append("The step was not cut into segments.")
    else:
        rows = [["segment", "device", "ops", "inputs", "outputs"]]
        rows += [
            [e.file, e.device, f"{e.ops:,}", f"{len(e.inputs):,}", f"{len(e.outputs):,}"]
            for e in schedule.segments[:MAX_ROWS]
        ]
        lines += _table(rows)
        if len(schedule.segments) > MAX_ROWS:
            lines += ["", f"and {len(schedule.segments) - MAX_ROWS:,} more in `schedule.json`."]
    return "\n".join(lines) + "\n"


MAX_ROWS = 40
"""Segments that the report lists."""


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = [[printable(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(line)} |" for line in lines]
