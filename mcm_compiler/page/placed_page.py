"""The page of a step that is placed on the CPUs and GPUs of one machine."""

from __future__ import annotations

from mcm_compiler.page.contents import Answer, Page, linked
from mcm_compiler.page.placed_views import (
    devices_section,
    placed_graph_section,
    search_section,
    segments_section,
    step_section,
)
from mcm_compiler.placed import file_names
from mcm_compiler.placed.placement_checks import ReadPlacement
from mcm_compiler.placed.records import PlacementRecord
from mcm_compiler.text.units import bytes_text, count_text, percent_text, seconds_text

_NEAR = 0.05
"""A gap of which one need not look for more."""


def placed_page(read: ReadPlacement) -> Page:
    """The page of a placement, whose step is simulated for it.

    Raises:
        CompileError: for a folder that cannot be used; see `ReadPlacement`.
    """
    record = read.opened.record
    found = (
        devices_section(read),
        step_section(read),
        search_section(read),
        placed_graph_section(read),
        segments_section(read),
    )
    sections = tuple(section for section in found if section is not None)
    answers = (_fits(record), _speed(record), _bottleneck(read), _gap(record), _deploy(read))
    facts = (
        count_text(len(record.device_of), "op"),
        *(["a training step"] if record.model.training else []),
        *(["placeholders for weights"] if record.model.shape_only else []),
        f"placer {record.search.placer}",
        f"seed {record.search.seed}",
    )
    return Page(
        f"{record.model.name} in {record.target}",
        facts,
        linked(answers, sections),
        sections,
        (
            "All times are computed from the target's description and given profiles; no device "
            "has been measured for this page.",
            f"Model SHA-256 {record.model.sha256}.",
            f"Made with mcm-compiler {record.compiler}.",
        ),
    )


def _fits(record: PlacementRecord) -> Answer:
    held = [d for d in record.devices if d.memory_bytes]
    if not held:
        return Answer("Does it fit?", "not known", (), "warn")
    fullest = max(held, key=lambda d: d.peak_bytes / d.memory_bytes)
    share = fullest.peak_bytes / fullest.memory_bytes
    used = sum(1 for d in record.devices if d.ops)
    details = (
        f"the fullest, {fullest.device}, holds {bytes_text(fullest.peak_bytes)} of "
        f"{bytes_text(fullest.memory_bytes)} ({percent_text(share)})",
        f"{used} of {count_text(len(record.devices), 'device')} used",
    )
    fits = share <= 1
    return Answer(
        "Does it fit?", "yes" if fits else "no", details, "good" if fits else "bad", "devices"
    )


def _speed(record: PlacementRecord) -> Answer:
    seconds = record.step.seconds
    detail = f"for one step, which is {1 / seconds:,.1f} steps per second" if seconds else ""
    details = (detail,) if detail else ()
    return Answer("How fast is it?", seconds_text(seconds), details, "plain", "timeline")


def _bottleneck(read: ReadPlacement) -> Answer:
    record, trace, problem = read.opened.record, read.trace, read.problem
    busiest = max(record.devices, key=lambda d: d.busy_s)
    seconds = record.step.seconds
    share = busiest.busy_s / seconds if seconds else None
    details = [f"busy {percent_text(share)} of the step with {count_text(busiest.ops, 'op')}"]
    chain = trace.critical_ops
    if chain.size and seconds:
        took = (trace.end_s - trace.start_s)[chain]
        waits = max(1 - float(took.sum()) / seconds, 0.0)
        longest = int(chain[int(took.argmax())])
        details += [
            f"the step is as long as a chain of {count_text(chain.size, 'op')}; copies and "
            f"waiting are {percent_text(waits)} of it",
            f"its longest op is '{problem.names[longest]}' with {seconds_text(float(took.max()))}",
        ]
    return Answer("What holds it back?", busiest.device, tuple(details), "warn", "timeline")


def _gap(record: PlacementRecord) -> Answer:
    step = record.step
    if step.gap is None:
        return Answer("How far from the optimum?", "not known", ("no bound was proven",), "warn")
    details = (
        f"above the proven bound: no placement in this box takes less than "
        f"{seconds_text(step.bound_s)} ({step.argument})",
    )
    tone = "good" if step.gap <= _NEAR else "plain"
    return Answer("How far from the optimum?", percent_text(step.gap), details, tone, "search")


def _deploy(read: ReadPlacement) -> Answer:
    schedule = read.opened.schedule
    details = [
        f"{file_names.ONNXRUNTIME} and {file_names.OPENVINO} are settings for these runtimes"
    ]
    shown = file_names.ANNOTATED
    if schedule is not None and schedule.segments:
        first, last = schedule.segments[0].file, schedule.segments[-1].file
        shown = first if len(schedule.segments) == 1 else f"{first} to {last}"
        details.insert(0, "plain ONNX models of one device each, which run in their order")
        details.append(f"{file_names.SCHEDULE} says which tensor goes from where to where")
    return Answer("What do I deploy?", shown, tuple(details), "plain", "files")
