"""The record of a placement and its report: claims, rows for a terminal, and both as Markdown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box, BoxTarget, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepResults
from mcm_compiler.graph.trip_counts import stated_counts
from mcm_compiler.placed import records
from mcm_compiler.placed.device_costs import device_choices
from mcm_compiler.placed.placed_model import PlacedModel, SegmentTimes, runs_of
from mcm_compiler.placed.records import PlacementRecord, Schedule
from mcm_compiler.report.records.verdict import OptimalityClaim, VerdictLine
from mcm_compiler.report.verdict.words import line_of, optimality_line
from mcm_compiler.report.versions import versions
from mcm_compiler.text.headline import Headline, line_text
from mcm_compiler.text.toml_description import parse_description
from mcm_compiler.text.units import (
    bytes_text,
    count_text,
    number_text,
    percent_text,
    printable,
    seconds_text,
)

SIMULATOR = "step simulator"


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
        "model_kind": "simulator" if proven else None,
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
        count = count_text(segments.count, "segment")
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
    """Rows below the verdict: the argument of the bound, and how the placement was found."""
    step, search = record.step, record.search
    how = f"{search.method}, {count_text(search.evaluations, 'placement')} simulated"
    return [
        ["lower bound", seconds_text(step.bound_s), step.argument],
        ["placer", search.placer, how],
        *(["cost model", text, f"of {kind}"] for kind, text in record.cost_models.items()),
    ]


def request_rows(record: PlacementRecord) -> Rows:
    """Rows of the request and of the search, as `placement.json` has them."""
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


def placed_headline(record: PlacementRecord, segments: SegmentTimes | None) -> Headline:
    """The verdict of a placement; segments as for `placed_lines`."""
    kind = " (training step)" if record.model.training else ""
    lines = placed_lines(record, segments)
    good = all(line["tone"] != "bad" for line in lines)
    return Headline((record.model.name + kind, record.target, basis_of(record)), lines, good)


def report_text(record: PlacementRecord, schedule: Schedule | None) -> bytes:
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
        rows = segment_rows(schedule, MAX_ROWS)
        lines += _table(rows)
        if len(schedule.segments) > MAX_ROWS:
            lines += ["", f"and {len(schedule.segments) - MAX_ROWS:,} more in `schedule.json`."]
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def segment_rows(schedule: Schedule, most: int) -> Rows:
    """Rows of the first segments below a head.

    Args:
        schedule: with the segments.
        most: segments that are listed.
    """
    return [
        ["segment", "device", "ops", "inputs", "outputs"],
        *(
            [e.file, e.device, f"{e.ops:,}", f"{len(e.inputs):,}", f"{len(e.outputs):,}"]
            for e in schedule.segments[:most]
        ),
    ]


MAX_ROWS = 40
"""Segments that the report lists."""


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = [[printable(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(line)} |" for line in lines]


def placement_record(placed: PlacedModel) -> records.PlacementRecord:
    """`placement.json`."""
    options, answer, source, bound = placed.options, placed.answer, placed.source, placed.bound
    box, chosen = placed.target.box, device_choices(placed.target)
    return records.PlacementRecord(
        compiler=versions()["mcm-compiler"] or "",
        model=records.PlacedSource(
            name=Path(source.name).name if source.path is not None else source.name,
            sha256=source.sha256,
            training=options.training or "",
            shape_only=source.shape_only,
            dims=dict(sorted(options.dims.items())),
            shapes={name: tuple(shape) for name, shape in sorted(options.shapes.items())},
            trip_counts=stated_counts(placed.model.graph),
            states=placed.states,
        ),
        target=placed.target.name,
        asked=records.Asked(options.order, options.pins, options.kinds, options.together),
        search=records.Search(
            placer=options.placer or options.placer_text,
            method=answer.method,
            evaluations=answer.evaluations,
            seed=options.seed,
            history=tuple((int(n), float(score)) for n, score in answer.history),
            figures={name: float(value) for name, value in answer.figures if np.isfinite(value)},
        ),
        step=records.StepFigures(
            seconds=placed.seconds,
            bound_s=bound.seconds,
            argument=bound.argument,
            gap=placed.gap,
            critical_path_s=bound.critical_path_s,
            work_s=bound.work_s,
        ),
        devices=device_figures(placed.problem, box, placed.device_of, placed.results),
        device_of={
            name: box.devices[device]
            for name, device in zip(placed.problem.names, placed.device_of.tolist(), strict=True)
        },
        cost_models={kind: chosen[kind].text for kind in box.kinds if kind in chosen},
        sources=source_hashes(placed.target),
    )


def source_files(target: BoxTarget) -> dict[str, bytes]:
    """The description of a box, and files of its cost models, by their names in a folder."""
    files = {records.TARGET: target.source_text.encode()}
    for choice in device_choices(target).values():
        files |= choice.stored
    return files


def source_hashes(target: BoxTarget) -> dict[str, str]:
    """SHA-256 of what `source_files` gives; of the description, of its content without its form."""
    files = source_files(target)
    content = parse_description(target.name, target.source_text).data
    files[records.TARGET] = json.dumps(content, sort_keys=True, default=str).encode()
    return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}


def device_figures(
    problem: StepProblem, box: Box, device_of: Ints, results: StepResults
) -> tuple[records.DeviceFigures, ...]:
    """Figures of each device in the step.

    Args:
        problem: what was placed.
        box: where.
        device_of: `[N]`.
        results: of this placement, B = 1.
    """
    ops = np.bincount(device_of[runs_of(problem)], minlength=box.num_devices)
    return tuple(
        records.DeviceFigures(
            device=name,
            kind=box.kinds[int(box.kind_of[d])],
            ops=int(ops[d]),
            busy_s=float(results.busy_s[0, d]),
            copy_s=float(results.copy_s[0, d]),
            peak_bytes=int(results.peak_bytes[0, d]),
            memory_bytes=int(box.memory_bytes[d]),
        )
        for d, name in enumerate(box.devices)
    )
