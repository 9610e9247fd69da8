"""The verdict of a placed step: its claims in the form that every surface renders."""

from __future__ import annotations

from typing import NamedTuple

from mcm_compiler.placed.records import PlacementRecord, Schedule
from mcm_compiler.report.records.verdict import OptimalityClaim, VerdictLine
from mcm_compiler.report.verdict.words import line_of, optimality_line
from mcm_compiler.text.units import bytes_text, count_text, number_text, percent_text, seconds_text

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
