"""The steps of the check of a placement, from what its files say to what they mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.checking.shapes_check import check_shapes
from mcm_compiler.contracts.boxes.bounds import bound_step, refuse_refuted
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator, StepTrace
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.equivalence.structure_proof import prove_chips
from mcm_compiler.placed import file_names
from mcm_compiler.placed.constraints import constrained
from mcm_compiler.placed.folder_reading import OpenedPlacement
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placed_model import device_names_of_nodes, gap_of, runs_of
from mcm_compiler.placed.placement_figures import cost_model_texts, device_figures, report_text
from mcm_compiler.placed.records import Schedule, SegmentEntry
from mcm_compiler.placed.runtime_wishes import (
    ANNOTATION,
    annotation_names,
    onnxruntime_settings,
    openvino_affinities,
)
from mcm_compiler.placed.segment_models import DEVICE_PROPERTY, stage_of
from mcm_compiler.placed.segments import Segments, segment_step
from mcm_compiler.text import json_text
from mcm_compiler.text.units import count_text, percent_text, seconds_text

MAX_NAMED = 5
"""Ops that are told one by one."""

HINT = "the folder was changed, or written by another release; place the model again"


@dataclass(frozen=True, eq=False)
class ReadPlacement:
    """A placement as its folder gives it, with what follows from it, each made once.

    Attributes:
        opened: the folder; its hashes hold.
    """

    opened: OpenedPlacement

    @cached_property
    def problem(self) -> StepProblem:
        """The step that the annotated model is, with the constraints that it was placed under."""
        record = self.opened.record
        target = self.opened.target
        asked = record.asked
        options = PlaceOptions(pins=asked.pins, kinds=asked.kinds, together=asked.together)
        problem = target.step_problem(self.opened.annotated, record.model.states)
        return constrained(problem, target.box, options)

    @cached_property
    def device_of(self) -> Ints:
        """`[N]`, the placement.

        Raises:
            CompileError: MCM-D080 where it is not one of the ops of the model.
        """
        devices = {name: d for d, name in enumerate(self.opened.target.box.devices)}
        said = self.opened.record.device_of
        lacking = [name for name in self.problem.names if name not in said]
        if lacking or len(said) != self.problem.num_ops:
            known = set(self.problem.names)
            what = lacking or [name for name in said if name not in known]
            raise _fault(
                "MCM-D080",
                f"the placement has devices for {len(said):,} ops, the model has "
                f"{self.problem.num_ops:,}: {quote(what[0])} is on one side alone",
                f"op {quote(what[0])}",
            )
        for name, device in said.items():
            if device not in devices:
                message = f"op {quote(name)} is on {quote(device)}, which the box does not have"
                raise _fault("MCM-D080", message, f"op {quote(name)}")
        return np.array([devices[said[name]] for name in self.problem.names], np.int32)

    @cached_property
    def evaluator(self) -> StepEvaluator:
        """The simulator, as the placement was made with it."""
        conditions = StepConditions(order=self.opened.record.asked.order)
        return self.opened.target.step_evaluator(self.problem, conditions)

    @cached_property
    def trace(self) -> StepTrace:
        """What happens when in the step."""
        return self.evaluator.trace(self.device_of)

    @cached_property
    def device_of_node(self) -> dict[str, str]:
        """The name of the device of each node."""
        devices = self.opened.target.box.devices
        return device_names_of_nodes(self.problem, self.device_of, devices)


def check_placement(read: ReadPlacement) -> str:
    """Whether the placement is one of this model in this box, and all files say the same of it.

    Raises:
        CompileError: MCM-D080 where it is not, MCM-V052 where the model declares other types or
            shapes than its ops make.
    """
    _check_cost_models(read)
    _check_declared(read)
    problem, device_of = read.problem, read.device_of
    wrong = np.flatnonzero(~problem.allowed[np.arange(problem.num_ops), device_of])
    devices = read.opened.target.box.devices
    faults = [
        f"op {quote(problem.names[op])} may not run on {quote(devices[device_of[op]])}"
        for op in wrong[:MAX_NAMED].tolist()
    ]
    home = np.zeros(problem.num_groups, np.int32)
    home[problem.together] = device_of
    apart = np.flatnonzero(home[problem.together] != device_of)
    faults += [
        f"op {quote(problem.names[op])} is on {quote(devices[device_of[op]])}, what it runs "
        f"together with on {quote(devices[home[problem.together[op]]])}"
        for op in apart[:MAX_NAMED].tolist()
    ]
    faults = faults or list(_marks(read))[:MAX_NAMED] or list(_wishes(read))
    if faults:
        raise CompileError(
            [Diagnostic("MCM-D080", fault, at=str(read.opened.path), hint=HINT) for fault in faults]
        )
    return f"{count_text(len(read.device_of_node), 'op')} on {len(set(device_of.tolist()))} devices"


def _check_declared(read: ReadPlacement) -> None:
    """Whether the annotated model declares types and shapes, from which times follow, as they are.

    Raises:
        CompileError: MCM-V052 where it does not.
    """
    model = read.opened.annotated
    graph = model.graph
    weights = graph.initializers
    inputs = tuple(v.name or "" for v in graph.inputs if v.name not in weights)
    outputs = tuple(v.name or "" for v in graph.outputs)
    wires = [Wire(name, HOST, (0,)) for name in inputs]
    wires += [Wire(name, 0, (HOST,)) for name in outputs]
    check_shapes([ChipModel(0, model, inputs, outputs)], wires, model)


def _check_cost_models(read: ReadPlacement) -> None:
    """Whether times come from where the placement says.

    Raises:
        CompileError: MCM-D080 where they do not.
    """
    said, found = read.opened.record.cost_models, cost_model_texts(read.opened.target)
    for kind in {**found, **said}:
        if said.get(kind) != found.get(kind):
            raise _fault(
                "MCM-D080",
                f"times of {quote(kind)} come from {_model_text(found.get(kind))}, the placement "
                f"says {_model_text(said.get(kind))}",
                f"cost model of {quote(kind)}",
            )


def _model_text(text: str | None) -> str:
    return "the box's own numbers" if text is None else quote(text)


def _marks(read: ReadPlacement) -> Iterable[str]:
    """Nodes of the annotated model whose marks are not the placement's."""
    box = read.opened.target.box
    index = {name: d for d, name in enumerate(box.devices)}
    names = annotation_names(box.num_devices)
    for node in read.opened.annotated.graph:
        device = read.device_of_node.get(node.name or "")
        wanted = None if device is None else (device, names[index[device]], index[device])
        marks = node.metadata_props
        found = None
        if DEVICE_PROPERTY in marks or ANNOTATION in marks:
            stage = stage_of(node, box)
            found = (marks.get(DEVICE_PROPERTY), marks.get(ANNOTATION), stage)
        if found != wanted:
            yield f"op {quote(node.name or '')} is marked {found}, the placement says {wanted}"


def _wishes(read: ReadPlacement) -> Iterable[str]:
    """Files for runtimes that say something else."""
    box = read.opened.target.box
    nodes = read.device_of_node
    used = sorted({box.devices.index(device) for device in nodes.values()})
    for name, data in (
        (file_names.ONNXRUNTIME, onnxruntime_settings(box, used)),
        (file_names.OPENVINO, openvino_affinities(box, nodes)),
    ):
        if (read.opened.path / name).read_bytes() != json_text.encoded(data):
            yield f"{quote(name)} does not say what the placement says"


def check_step(read: ReadPlacement) -> str:
    """Whether the simulator gives the figures again.

    Raises:
        CompileError: MCM-D081 where it gives others, or where the placement does not fit.
    """
    record, box = read.opened.record, read.opened.target.box
    results = read.evaluator.evaluate(read.device_of[None, :])
    said: dict[str, Any] = {"seconds": record.step.seconds}
    found: dict[str, Any] = {"seconds": float(results.seconds[0])}
    said |= {d.device: asdict(d) for d in record.devices}
    figures = device_figures(read.problem, box, read.device_of, results)
    found |= {d.device: asdict(d) for d in figures}
    for name in {**said, **found}:
        if said.get(name) != found.get(name):
            raise _fault(
                "MCM-D081",
                f"the simulator gives {found.get(name)}, the placement says {said.get(name)}",
                f"figure {quote(name)}",
            )
    if not results.fits[0]:
        raise _fault("MCM-D081", "the placement does not fit into the memories", "memory")
    return f"{seconds_text(record.step.seconds)} for {count_text(read.problem.num_ops, 'op')}"


def check_step_bound(read: ReadPlacement) -> str:
    """Whether the bound follows from the model and the box.

    Raises:
        CompileError: MCM-D082 where another one does.
    """
    step = read.opened.record.step
    found = bound_step(read.problem, read.opened.target.box)
    said = (step.bound_s, step.argument, step.critical_path_s, step.work_s, step.gap)
    derived = (found.seconds, found.argument, found.critical_path_s, found.work_s)
    if said != (*derived, gap_of(step.seconds, found.seconds)):
        raise _fault(
            "MCM-D082",
            f"the bound is {found.seconds!r} s ({found.argument}), the placement says "
            f"{step.bound_s!r} s ({step.argument})",
            file_names.PLACEMENT,
        )
    refuse_refuted(read.problem, read.opened.target.box, found, step.seconds)
    if step.gap is None:
        return "nothing is proven"
    return f"{seconds_text(step.bound_s)}, the step is {percent_text(step.gap)} above it"


def check_segments(read: ReadPlacement, schedule: Schedule) -> str:
    """Whether the segments together are the model, each on the device of its ops.

    Raises:
        CompileError: MCM-D083 for ops and wires that are not the model's, MCM-D084 where the
            schedule says something else than the segments, MCM-D081 for another time.
    """
    opened = read.opened
    proof = prove_chips(
        opened.annotated,
        opened.segments,
        schedule.wires,
        placeholders=opened.record.model.shape_only,
    )
    faults = [
        Diagnostic(
            "MCM-D083",
            f"op {quote(op.node)} of segment {op.chip} {op.what}",
            at=f"segment {op.chip}",
            hint=HINT,
        )
        for op in proof.unproven[:MAX_NAMED]
    ]
    faults += [
        Diagnostic(
            "MCM-D083",
            f"what arrives as output {quote(name)} is not what the model computes for it",
            at=f"output {quote(name)}",
            hint=HINT,
        )
        for name in proof.outputs[:MAX_NAMED]
    ]
    if faults:
        raise CompileError(faults)
    _check_schedule(read, schedule)
    return (
        f"{count_text(proof.ops, 'op')} in {count_text(len(schedule.segments), 'segment')} "
        f"proven, {seconds_text(schedule.seconds)} with dispatches"
    )


def _check_schedule(read: ReadPlacement, schedule: Schedule) -> None:
    opened, box = read.opened, read.opened.target.box
    index = {name: op for op, name in enumerate(read.problem.names)}
    of_op = np.full(read.problem.num_ops, -1, np.int32)
    runs = runs_of(read.problem)
    for entry, part in zip(schedule.segments, opened.segments, strict=True):
        own = [index[n.name] for n in part.model.graph if n.name in index and runs[index[n.name]]]
        of_op[own] = entry.segment
        graph = part.model.graph
        found = SegmentEntry(
            segment=part.chip,
            file=file_names.segment_file(part.chip),
            device=entry.device,
            inputs=tuple(v.name or "" for v in graph.inputs),
            outputs=tuple(v.name or "" for v in graph.outputs),
            ops=len(own),
        )
        elsewhere = [op for op in own if box.devices[read.device_of[op]] != entry.device]
        if found != entry or elsewhere:
            raise _fault(
                "MCM-D084",
                f"segment {entry.segment} is not the one that the schedule describes"
                + (
                    f": {quote(read.problem.names[elsewhere[0]])} is elsewhere" if elsewhere else ""
                ),
                f"segment {entry.segment}",
            )
    if (of_op[runs] < 0).any() or set(of_op[runs].tolist()) != set(range(len(schedule.segments))):
        raise _fault("MCM-D084", "the segments do not have each op once", file_names.SCHEDULE)
    backwards = [w for w in schedule.wires if any(0 <= to <= w.source for to in w.destinations)]
    if backwards:
        wire = backwards[0]
        message = f"{quote(wire.tensor)} goes back from segment {wire.source}"
        raise _fault("MCM-D084", message, file_names.SCHEDULE)
    devices = np.array([box.devices.index(e.device) for e in schedule.segments], np.int32)
    cut = Segments(of_op, devices, schedule.windows)
    step, placement = segment_step(read.problem, box, read.trace, cut, schedule.dispatch_s)
    evaluator = opened.target.step_evaluator(step, StepConditions(order=opened.record.asked.order))
    seconds = float(evaluator.evaluate(placement[None, :]).seconds[0])
    if seconds != schedule.seconds:
        raise _fault(
            "MCM-D081",
            f"a step of segments takes {seconds!r} s, the schedule says {schedule.seconds!r} s",
            file_names.SCHEDULE,
        )


def check_report_text(read: ReadPlacement) -> str:
    """Whether `report.md` is what the placement says.

    Raises:
        CompileError: MCM-D081 where it is not.
    """
    path = read.opened.path / file_names.REPORT_TEXT
    if path.read_bytes() != report_text(read.opened.record, read.opened.schedule):
        raise _fault("MCM-D081", "the report is not what the placement says", str(path))
    return "as rendered from the placement"


def _fault(code: str, message: str, place: str) -> CompileError:
    return CompileError(Diagnostic(code, message, at=place, hint=HINT))
