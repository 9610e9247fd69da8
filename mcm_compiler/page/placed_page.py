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
from mcm_compiler.placed.placed_verdict import basis_of, placed_lines, times_of
from mcm_compiler.placed.placement_checks import ReadPlacement
from mcm_compiler.report.records.verdict import VerdictLine
from mcm_compiler.text.units import count_text

_SECTIONS = {
    "fits": "devices",
    "step time": "timeline",
    "optimality": "search",
    "limited by": "timeline",
}
"""The section that tells more, by the label of a line."""


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
    answers = (*(_answer(line) for line in lines), _deploy(read))
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


def _answer(line: VerdictLine) -> Answer:
    section = _SECTIONS[line["label"]]
    return Answer(line["label"], line["headline"], tuple(line["details"]), line["tone"], section)


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
    return Answer("to deploy", shown, tuple(details), "plain", "files")
