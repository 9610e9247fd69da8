"""The report of a placement: its claims, rows for a terminal, and both as Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from mcm_compiler.placed.records import PlacementRecord, Schedule
from mcm_compiler.report.records.verdict import OptimalityClaim, VerdictLine
from mcm_compiler.report.verdict.words import line_of, line_text, optimality_line
from mcm_compiler.text.units import (
    bytes_text,
    count_text,
    number_text,
    percent_text,
    printable,
    seconds_text,
)

SIMULATOR = "step simulator"


class SegmentTimes(NamedTuple):
    """A step that is cut into segments of one device each.

    Attributes:
        number: of segments.
        dispatch_s: seconds that the start of one takes.
        seconds: of the step.
    """

    number: int
    dispatch_s: float
    seconds: float


def times_of(schedule: Schedule) -> SegmentTimes:
    """Those of a stored schedule."""
    return SegmentTimes(len(schedule.segments), schedule.dispatch_s, schedule.seconds)


def basis_of(record: PlacementRecord) -> str:
    """Where the times come from."""
    if not record.cost_models:
        return "simulated, no hardware measured"
    return f"simulated; given times for {', '.join(record.cost_models)}"


def placed_lines(record: PlacementRecord, segments: SegmentTimes | None) -> list[VerdictLine]:
    """The claims in words.

    Args:
        record: the placement.
        segments: how the step is delivered; None where it was not cut.
    """
    return [
        _fits(record),
        _step(record, segments),
        optimality_line(optimality_of(record)),
        _limit(record),
    ]


def optimality_of(record: PlacementRecord) -> OptimalityClaim:
    """The claim about the optimum, which is of the step run op by op."""
    step, proven = record.step, record.step.gap is not None
    scope = ["placements of whole ops on these devices", "each op started by itself"]
    asked = record.asked
    if asked.pins or asked.kinds or asked.together:
        scope.append("with the given constraints")
    return {
        "status": "proven" if proven else "none",
        "of": "step time",
        "unit": "s",
        "reached": step.seconds if proven else None,
        "bound": step.bound_s if proven else None,
        "gap": step.gap,
        "model": SIMULATOR if proven else None,
        "proof": step.argument if proven else None,
        "scope": scope if proven else [] if step.bound_s else [step.argument],
        "simulated_over_model": None,
    }


def _fits(record: PlacementRecord) -> VerdictLine:
    used = sum(1 for device in record.devices if device.ops)
    headline = f"{used} of {count_text(len(record.devices), 'device')}"
    held = [device for device in record.devices if device.memory_bytes]
    if not held:
        return line_of("fits", headline, ["memory unknown"], "warn")
    fullest = max(held, key=lambda device: device.peak_bytes / device.memory_bytes)
    need, have = bytes_text(fullest.peak_bytes), bytes_text(fullest.memory_bytes)
    fits = fullest.peak_bytes <= fullest.memory_bytes
    headline = headline if fits else f"does NOT fit {headline}"
    details = [f"fullest is {fullest.device}: {need} of {have}"]
    return line_of("fits", headline, details, "good" if fits else "bad")


def _step(record: PlacementRecord, segments: SegmentTimes | None) -> VerdictLine:
    """The time of the step as it is delivered comes first."""
    alone_s = record.step.seconds
    seconds = segments.seconds if segments is not None else alone_s
    details = [f"{number_text(1.0 / seconds)} steps/s"] if seconds else []
    if segments is not None:
        count = count_text(segments.number, "segment")
        details.append(f"as {count}, {seconds_text(segments.dispatch_s)} to start each")
        details.append(f"{seconds_text(alone_s)} if each op is started by itself")
    return line_of("step time", seconds_text(seconds), [*details, "one step, idle devices"])


def _limit(record: PlacementRecord) -> VerdictLine:
    busiest = max(record.devices, key=lambda device: device.busy_s)
    seconds = record.step.seconds
    share = percent_text(busiest.busy_s / seconds if seconds else None)
    details = [f"{count_text(busiest.ops, 'op')} (inputs and variables not counted)"]
    return line_of("limited by", f"{busiest.device} {share} busy", details)


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
