"""The page of a step that is placed on the CPUs and GPUs of one machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from mcm_compiler.additions import OtherFolder
from mcm_compiler.arrays.types import Longs
from mcm_compiler.page.contents import Answer, Page, Section, Table, View, answer_of, linked
from mcm_compiler.page.graph_view import graph_data, graph_part
from mcm_compiler.page.package_view import layout_of
from mcm_compiler.page.timeline_view import Row, timeline_data
from mcm_compiler.placed import records
from mcm_compiler.placed.placement_checks import ReadPlacement
from mcm_compiler.placed.placement_report import (
    basis_of,
    device_rows,
    placed_headline,
    placed_lines,
    report_text,
    segment_rows,
    step_rows,
    times_of,
)
from mcm_compiler.placed.records import DeviceFigures
from mcm_compiler.placed.step_trace import chain_rows
from mcm_compiler.text.units import bytes_text, count_text, percent_text, seconds_text

_SECTIONS = {
    "fits": "devices",
    "step time": "timeline",
    "optimality": "search",
    "limited by": "timeline",
}
"""The section that says more, by the label of a line."""


def shown_placement(read: ReadPlacement) -> OtherFolder:
    """A placement as it is shown, whose step is simulated for its page.

    Raises:
        CompileError: for a folder that cannot be used; see `ReadPlacement`.
    """
    record, cut = read.opened.record, read.opened.schedule
    return OtherFolder(
        record.to_dict(),
        report_text(record, cut),
        placed_headline(record, None if cut is None else times_of(cut)),
        [step_rows(record), device_rows(record)],
        lambda: placed_page(read),
    )


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
    schedule = read.opened.schedule
    lines = placed_lines(record, None if schedule is None else times_of(schedule))
    answers = (*(answer_of(line, _SECTIONS) for line in lines), _deploy(read))
    facts = (
        basis_of(record),
        f"{count_text(len(record.device_of), 'op')}, inputs and variables included",
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
            f"{basis_of(record).capitalize()}.",
            f"Model SHA-256 {record.model.sha256}.",
            f"Made with mcm-compiler {record.compiler}.",
        ),
    )


def _deploy(read: ReadPlacement) -> Answer:
    schedule = read.opened.schedule
    details = [f"{records.ONNXRUNTIME} and {records.OPENVINO} are settings for these runtimes"]
    shown = records.ANNOTATED
    if schedule is not None and schedule.segments:
        first, last = schedule.segments[0].file, schedule.segments[-1].file
        shown = first if len(schedule.segments) == 1 else f"{first} to {last}"
        details.insert(0, "plain ONNX models of one device each, which run in their order")
        details.append(f"{records.SCHEDULE} says which tensor goes from where to where")
    return Answer("to deploy", shown, tuple(details), "plain", "files")


LISTED = 200
"""Segments that are listed."""


def devices_section(read: ReadPlacement) -> Section:
    """The box: its devices by how busy they are, and the copies between them."""
    record, trace, box = read.opened.record, read.trace, read.opened.target.box
    seconds = record.step.seconds
    pairs = trace.copy_from.astype(np.int64) * box.num_devices + trace.copy_to
    took = trace.copy_end_s - trace.copy_start_s
    carried = read.problem.value_bytes[trace.copy_value]
    links: list[dict[str, Any]] = []
    for pair in np.unique(pairs).tolist():
        a, b = divmod(pair, box.num_devices)
        own = pairs == pair
        links.append(
            {
                "from": a,
                "to": b,
                "busy": float(took[own].sum()) / seconds if seconds else None,
                "name": f"{box.devices[a]} to {box.devices[b]}",
                "load": f"{bytes_text(int(carried[own].sum()))} in "
                f"{count_text(int(own.sum()), 'copy', 'copies')}",
                "worst": False,
            }
        )
    every = [(a, b) for a in range(box.num_devices) for b in range(a)]
    data = {
        "shape": "free",
        "word": "device",
        "engines": ["runs ops"],
        "names": list(box.devices),
        "places": [
            [round(float(x), 4), round(float(y), 4)]
            for x, y in layout_of(box.num_devices, every).places * (1.6 if every else 1.0)
        ],
        "chips": [
            {
                "busy": device.busy_s / seconds if seconds and device.ops else None,
                "parts": [device.busy_s / seconds] if seconds and device.ops else [],
                "memory": device.peak_bytes / device.memory_bytes if device.memory_bytes else None,
                "pipeline": None,
                "runs": d,
                "worst": False,
            }
            for d, device in enumerate(record.devices)
        ],
        "details": {str(d): _details(device, seconds) for d, device in enumerate(record.devices)},
        "links": links,
        "pipelines": 1,
    }
    lead = (
        "Devices by the share of the step for which they run ops; arrows are copies, by the share "
        "of the step that they take.",
    )
    view = View("package", data, "Map of the devices by how busy they are")
    return Section("devices", "Devices", lead, view, (_table(device_rows(record)),))


def _details(device: DeviceFigures, seconds: float) -> list[list[str]]:
    share = device.busy_s / seconds if seconds else None
    memory = f"{bytes_text(device.peak_bytes)} of {bytes_text(device.memory_bytes)}"
    return [
        ["kind", device.kind],
        ["ops", f"{device.ops:,}"],
        ["runs ops", f"{percent_text(share)} ({seconds_text(device.busy_s)})"],
        ["sends copies", seconds_text(device.copy_s)],
        ["peak of memory", memory],
    ]


def step_section(read: ReadPlacement) -> Section:
    """The timeline of the step, and the chain of ops that its time is made of."""
    problem, trace, box = read.problem, read.trace, read.opened.target.box
    rows: list[Row] = []
    for d, device in enumerate(box.devices):
        ops = np.flatnonzero((trace.device_of == d) & (trace.end_s > trace.start_s))
        if ops.size:
            rows.append(_row(device, "chip", ops, trace.start_s, trace.end_s, 0))
        copies = np.flatnonzero((trace.copy_from == d) & (trace.copy_end_s > trace.copy_start_s))
        if copies.size:
            begin, end = trace.copy_start_s, trace.copy_end_s
            rows.append(_row(f"{device} sends", "link", copies, begin, end, problem.num_ops))
    labels = [*problem.names, *(problem.value_names[v] for v in trace.copy_value.tolist())]
    data = timeline_data(rows, labels, read.opened.record.step.seconds)
    data["links"] = "copies"
    chain = _table(chain_rows(problem, box, trace), {0, 1}, "The longest ops of the chain")
    lead = (
        f"The step takes {seconds_text(read.opened.record.step.seconds)}: the time of a chain of "
        f"{count_text(len(trace.critical_ops), 'op')}, with the copies and the waiting between "
        "them. Drag to move, turn the wheel or press + and - to zoom.",
    )
    view = View("timeline", data, "Timeline of the devices")
    return Section("timeline", "Timeline of a step", lead, view, (chain,))


def _row(name: str, kind: str, which: Longs, begin_s: Any, end_s: Any, first_label: int) -> Row:
    order = which[np.argsort(begin_s[which], kind="stable")]
    begin, labels = begin_s[order], order.astype(np.int64) + first_label
    # Neighbours alternate in colour, as there is one inference alone.
    return Row(name, kind, begin, end_s[order] - begin, labels, np.arange(len(order)))


def placed_graph_section(read: ReadPlacement) -> Section:
    """The ops of the step by device and by time."""
    problem, device_of, box = read.problem, read.device_of, read.opened.target.box
    ops = np.arange(problem.num_ops, dtype=np.int32)
    readers = np.repeat(ops, np.diff(problem.read_begin))
    makers = problem.producer[problem.reads]
    made = makers >= 0
    data = graph_data(
        names=problem.names,
        kinds=problem.op_types,
        seconds=read.trace.end_s - read.trace.start_s,
        places=device_of,
        sources=makers[made],
        destinations=readers[made],
    )
    data["place"] = "device"
    data["placeNames"] = list(box.devices)
    return graph_part(count_text(problem.num_ops, "op"), data)


def search_section(read: ReadPlacement) -> Section | None:
    """Placers that searched, and how the best score fell; None where there is no history."""
    search, step = read.opened.record.search, read.opened.record.step
    lead = (
        f"{search.placer} simulated {count_text(search.evaluations, 'placement')}; "
        f"{search.method} found the one that was taken.",
    )
    view = None
    if len(search.history) > 1:
        data = {
            "x": [float(tried) for tried, _ in search.history],
            "y": [float(score) for _, score in search.history],
            "xName": "placements simulated",
            "yName": "best score",
            "bound": step.bound_s or None,
        }
        view = View("curve", data, "Best score by the number of placements that were simulated")
    return Section("search", "Search", lead, view)


def segments_section(read: ReadPlacement) -> Section | None:
    """The files to deploy, where the step was cut into segments."""
    schedule = read.opened.schedule
    if schedule is None:
        return None
    count = len(schedule.segments)
    lead = [f"{count_text(count, 'segment')} of one device each, in the order in which they run."]
    if count > LISTED:
        lead.append(f"The first {LISTED} are listed; schedule.json has all.")
    rows = segment_rows(schedule, LISTED)
    return Section("files", "Files to deploy", tuple(lead), None, (_table(rows, {2, 3, 4}),))


def _table(rows: list[list[str]], numbers: set[int] | None = None, caption: str = "") -> Table:
    head, *body = rows
    aligned = frozenset(range(2, len(head))) if numbers is None else frozenset(numbers)
    return Table(tuple(head), tuple(map(tuple, body)), aligned, caption)
