"""The report of a placement: rows for a terminal, and the same as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from mcm_compiler.placed.records import PlacementRecord, Schedule
from mcm_compiler.text.printable import printable
from mcm_compiler.text.units import bytes_text, count_text, percent_text, seconds_text

Rows = list[list[str]]


def step_rows(record: PlacementRecord) -> Rows:
    """What the step takes and why not less, a fact a row."""
    step, search = record.step, record.search
    gap = "nothing is proven" if step.gap is None else f"{percent_text(step.gap)} above the bound"
    how = f"{search.method}, {count_text(search.evaluations, 'placement')} simulated"
    return [
        ["step", seconds_text(step.seconds), gap],
        ["bound", seconds_text(step.bound_s), step.argument],
        ["placer", search.placer, how],
        *(["cost model", text, f"of {kind}"] for kind, text in record.cost_models.items()),
    ]


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


def segments_text(segments: int, dispatch_s: float, seconds: float, step_s: float) -> str:
    """What segments cost, in a sentence.

    Args:
        segments: how many.
        dispatch_s: time that the start of one takes.
        seconds: time of a step that runs them.
        step_s: time of the step, op by op.
    """
    if step_s:
        word = "more" if seconds >= step_s else "less"
        compared = f"{percent_text(abs(seconds / step_s - 1.0))} {word}"
    else:
        compared = f"and op by op {seconds_text(step_s)}"
    return (
        f"As {count_text(segments, 'segment')} of one device each, dispatched in "
        f"{seconds_text(dispatch_s)}, the step takes {seconds_text(seconds)}, {compared}."
    )


def markdown(record: PlacementRecord, schedule: Schedule | None) -> str:
    """`report.md`."""
    model = record.model
    name = f"{model.name} (a training step)" if model.training else model.name
    lines = [f"# {printable(name)} in {printable(record.target)}", ""]
    lines += _table([["", "", "why"], *step_rows(record)])
    lines += ["", "## Devices", "", *_table(device_rows(record))]
    lines += ["", "## Segments", ""]
    if schedule is None:
        lines.append("The step was not cut into segments.")
    else:
        count, step_s = len(schedule.segments), record.step.seconds
        lines += [segments_text(count, schedule.dispatch_s, schedule.seconds, step_s), ""]
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
