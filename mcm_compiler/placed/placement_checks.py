"""The steps of the check of a placement, from what its files say to what they mean.

Everything that follows from model, box and placement is derived again and compared leaf by leaf
with what the folder has. What does not, such as who searched, is compared with `report.md`.
"""

from __future__ import annotations

import filecmp
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.arrays.types import Ints
from mcm_compiler.artifact.manifest import read_json
from mcm_compiler.checking.shapes_check import check_shapes
from mcm_compiler.checking.structure_step import original_faults, read_raw
from mcm_compiler.contracts.boxes import bounds
from mcm_compiler.contracts.boxes.box import BoxTarget, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator, StepTrace
from mcm_compiler.contracts.boxes.placers import PlacerAnswer
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.equivalence.structure_proof import prove_chips
from mcm_compiler.graph.source import SOURCE, SourceModel
from mcm_compiler.graph.states import STATES
from mcm_compiler.ir.rewriting.writer import DataLocation, initializers_of
from mcm_compiler.placed import records, segment_models
from mcm_compiler.placed.constraints import constrained
from mcm_compiler.placed.folder_reading import OpenedPlacement, open_placement
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placed_model import PlacedModel, device_names_of_nodes, runs_of
from mcm_compiler.placed.placement_report import placement_record, report_text
from mcm_compiler.placed.records import Schedule
from mcm_compiler.placed.runtime_wishes import ANNOTATION, annotation_names, runtime_files
from mcm_compiler.placed.segments import best_segments
from mcm_compiler.text import json_text
from mcm_compiler.text.json_text import leaf_differences
from mcm_compiler.text.units import count_text, percent_text, seconds_text

MAX_NAMED = 5
"""Ops that are listed one by one."""


StepOfModel = Callable[[BoxTarget, PlaceOptions], ir.Model]
"""Makes what is placed of a model that is at hand: in a box, as options say."""


@dataclass(frozen=True, eq=False)
class ReadPlacement:
    """A placement as its folder gives it, with what follows from it, each made once.

    Attributes:
        opened: the folder; its hashes hold.
        step_of: makes the step of the user's own model; None takes the folder's copy.
    """

    opened: OpenedPlacement
    step_of: StepOfModel | None = None

    @cached_property
    def step(self) -> ir.Model | None:
        """The step of the user's own model, with its source and states."""
        make = self.step_of
        return None if make is None else make(self.opened.target, self.options)

    @cached_property
    def options(self) -> PlaceOptions:
        """Options of the placement, as its folder has them."""
        return recorded_options(self.opened)

    @cached_property
    def problem(self) -> StepProblem:
        """The step that the model is, with the constraints that it was placed under."""
        target = self.opened.target
        problem = target.step_problem(self.model, self.states)
        return constrained(problem, target.box, self.options)

    @property
    def model(self) -> ir.Model:
        """Placed model."""
        return self.opened.annotated if self.step is None else self.step

    @cached_property
    def states(self) -> tuple[Any, ...]:
        """Inputs that are outputs of the step before."""
        if self.step is None:
            return self.opened.record.model.states
        found = STATES.find(self.step)
        return found.pairs if found is not None else ()

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
            raise CompileError.of(
                "MCM-D080",
                f"the placement has devices for {len(said):,} ops, the model has "
                f"{self.problem.num_ops:,}: {quote(what[0])} is on one side alone",
                at=f"op {quote(what[0])}",
            )
        for name, device in said.items():
            if device not in devices:
                message = f"op {quote(name)} is on {quote(device)}, which the host does not have"
                raise CompileError.of("MCM-D080", message, at=f"op {quote(name)}")
        return np.array([devices[said[name]] for name in self.problem.names], np.int32)

    @cached_property
    def evaluator(self) -> StepEvaluator:
        """The simulator, as the placement was made with it."""
        conditions = StepConditions(order=self.opened.record.asked.order)
        return self.opened.target.step_evaluator(self.problem, conditions)

    @cached_property
    def trace(self) -> StepTrace:
        """Trace of the step."""
        return self.evaluator.trace(self.device_of)

    @cached_property
    def device_of_node(self) -> dict[str, str]:
        """The name of the device of each node."""
        devices = self.opened.target.box.devices
        return device_names_of_nodes(self.problem, self.device_of, devices)

    @cached_property
    def placed(self) -> PlacedModel:
        """Data that the folder is written from; searcher and search time are taken from it."""
        record, target = self.opened.record, self.opened.target
        said, search = record.model, record.search
        source = None if self.step is None else SOURCE.get(self.step)
        source = source or SourceModel(
            said.name, None, said.sha256, self.model, {}, shape_only=said.shape_only
        )
        answer = PlacerAnswer(
            self.device_of,
            search.method,
            search.evaluations,
            search.history,
            tuple(search.figures.items()),
        )
        results = self.evaluator.evaluate(self.device_of[None, :])
        bound = bounds.bound_step(self.problem, target.box)
        if (every := bounds.every_placement(self.problem, self.evaluator)) is not None:
            bound = every.bound(bound)
        bound = bounds.claimed_bound(bound, self.model.graph)
        return PlacedModel(
            source, self.model, self.states, target, self.options, self.problem, answer, results,
            self.trace, bound, None,
        )  # fmt: skip

    @cached_property
    def record_differences(self) -> Mapping[str, list[str]]:
        """Fields of `placement.json` that do not follow, by the step of the check."""
        found: dict[str, list[str]] = {}
        path = self.opened.path / records.PLACEMENT
        derived = _as_json({**placement_record(self.placed).to_dict()})
        derived["compiler"] = self.opened.record.compiler
        said, stated = read_json(path), self.opened.manifest.stated
        faults = [*leaf_differences("", said, derived)]
        # Sections of the request are derived from themselves, but for the user's own model.
        faults += leaf_differences("", {name: said[name] for name in stated}, stated)
        for fault in faults:
            name = fault.removeprefix(".")
            is_bound = name.startswith("step.") and not name.startswith("step.seconds")
            is_step = name.startswith(("step", "devices"))
            found.setdefault("bound" if is_bound else "step" if is_step else "", []).append(name)
        return found


def recorded_options(opened: OpenedPlacement) -> PlaceOptions:
    """Options of a placement, as far as its folder has them."""
    record = opened.record
    model, asked = record.model, record.asked
    return PlaceOptions(
        placer=record.search.placer,
        training=model.training or None,
        pins=asked.pins,
        kinds=asked.kinds,
        together=asked.together,
        seed=record.search.seed,
        order=asked.order,
        dims=model.dims,
        shapes=model.shapes,
        trip_counts=model.trip_counts,
        state=tuple((pair.past, pair.present) for pair in model.states),
    )


def checked_placement(folder: Path) -> ReadPlacement:
    """Opens the folder of a placement whose hashes, devices and figures hold.

    Files that the manifest does not list may be there; nothing reads them.

    Raises:
        CompileError: as `open_placement`, `check_placement` and `check_step`.
    """
    read = ReadPlacement(open_placement(folder, further=True))
    check_placement(read)
    check_step(read)
    return read


def check_placement(read: ReadPlacement) -> str:
    """Check that the placement is of this model on this host, and that all files agree.

    Raises:
        CompileError: MCM-D080 where it is not, MCM-V052 where the model declares other types or
            shapes than its ops make.
    """
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
    faults = faults or list(_marks(read))[:MAX_NAMED]
    files = runtime_files(read.opened.target.box, read.device_of_node)
    others = _differences(read.opened.path, files)
    faults = faults or [*read.record_differences.get("", ()), *others][:MAX_NAMED]
    if faults:
        raise CompileError(
            [Diagnostic("MCM-D080", fault, at=str(read.opened.path)) for fault in faults]
        )
    return f"{count_text(len(read.device_of_node), 'op')} on {len(set(device_of.tolist()))} devices"


def _check_declared(read: ReadPlacement) -> None:
    """Check that the annotated model declares its true types and shapes, from which times follow.

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
        if segment_models.DEVICE_PROPERTY in marks or ANNOTATION in marks:
            stage = segment_models.stage_of(node, box)
            found = (marks.get(segment_models.DEVICE_PROPERTY), marks.get(ANNOTATION), stage)
        if found != wanted:
            yield f"op {quote(node.name or '')} is marked {found}, the placement says {wanted}"


def _differences(folder: Path, files: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Leaves of JSON files that are not what follows."""
    for name, derived in files.items():
        yield from leaf_differences(name, read_json(folder / name), _as_json(derived))


def _as_json(data: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json_text.encoded(data))


def check_model(read: ReadPlacement) -> str:
    """Return whether `annotated.onnx` is the user's model with the marks of the placement.

    Args:
        read: with the step of the user's model.

    Raises:
        CompileError: MCM-V066 for another hash, MCM-V062 for another model.
    """
    opened, source = read.opened, SOURCE.get(read.model)
    name, sha256 = Path(source.name).name, source.sha256
    if opened.record.model.sha256 != sha256:
        raise CompileError.of(
            "MCM-V066",
            f"the placement is of a model with the hash {opened.record.model.sha256[:12]}..., that "
            f"of {quote(name)} is {sha256[:12]}...",
            at=records.PLACEMENT,
        )
    path = source.path
    raw = None if path is None or read.options.training else read_raw(path)
    if raw is not None and (
        faults := original_faults(raw, opened.annotated, name, source.original)
    ):
        raise CompileError(faults)
    with tempfile.TemporaryDirectory(prefix="mcm-check-") as folder:
        segment_models.write_models(Path(folder), read.placed, segments=False)
        fault = next(_unlike(opened.path, Path(folder)), None)
    if fault is not None:
        message = f"{fault}, by the model {quote(name)}"
        raise CompileError.of("MCM-V062", message, at=records.ANNOTATED)
    return f"{records.ANNOTATED} is {quote(name)} with the devices of its ops"


def _unlike(folder: Path, derived: Path) -> Iterator[str]:
    """Models and their data that are not what follows."""
    for path in sorted(derived.iterdir()):
        stored = folder / path.name
        if path.suffix != ".onnx":
            if not filecmp.cmp(stored, path, shallow=False):
                yield f"{quote(path.name)} has other bytes than follow"
            continue
        left, right = (onnx.load(one, load_external_data=False) for one in (stored, path))
        if left != right:
            yield f"{quote(path.name)} {_first_difference(left, right)}"


def _first_difference(stored: onnx.ModelProto, derived: onnx.ModelProto) -> str:
    """Where two models differ, in words."""
    nodes = zip(stored.graph.node, derived.graph.node, strict=False)
    for left, right in nodes:
        if left != right:
            return f"has another op {quote(left.name)} than follows"
    for of, left, right in (("", stored, derived), (" of its graph", stored.graph, derived.graph)):
        for field, _ in [*left.ListFields(), *right.ListFields()]:
            if field.name != "graph" and _field(left, field.name) != _field(right, field.name):
                return f"has another {field.name}{of} than follows"
    return "is another model than follows"


def _field(message: Any, name: str) -> Any:
    return getattr(message, name)


def check_step(read: ReadPlacement) -> str:
    """Return whether the simulator gives the figures again.

    Raises:
        CompileError: MCM-D081 where it gives others, or where the placement does not fit.
    """
    record = read.opened.record
    if faults := read.record_differences.get("step"):
        raise CompileError.of(
            "MCM-D081", f"a figure is not what the simulator gives: {faults[0]}", at=faults[0]
        )
    if not read.placed.results.fits[0]:
        message = "the placement does not fit into the memories"
        raise CompileError.of("MCM-D081", message, at="memory")
    return f"{seconds_text(record.step.seconds)} for {count_text(read.problem.num_ops, 'op')}"


def check_step_bound(read: ReadPlacement) -> str:
    """Return whether the bound follows from the model and the box.

    Raises:
        CompileError: MCM-D082 where another one does.
    """
    step = read.opened.record.step
    if faults := read.record_differences.get("bound"):
        message = f"the bound is not what follows from model and host: {faults[0]}"
        raise CompileError.of("MCM-D082", message, at=records.PLACEMENT)
    bounds.refuse_refuted(read.problem, read.opened.target.box, read.placed.bound, step.seconds)
    if step.gap is None:
        return "nothing is proven"
    return f"{seconds_text(step.bound_s)}, the step is {percent_text(step.gap)} above it"


def check_segments(read: ReadPlacement, schedule: Schedule) -> str:
    """Return whether the segments together are the model, each on the device of its ops.

    Raises:
        CompileError: MCM-D083 for ops and wires that are not the model's, MCM-D084 where schedule
            and segments are not those of the placement, MCM-D081 for another time.
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
        )
        for op in proof.unproven[:MAX_NAMED]
    ]
    faults += [
        Diagnostic(
            "MCM-D083",
            f"what arrives as output {quote(name)} is not what the model computes for it",
            at=f"output {quote(name)}",
        )
        for name in proof.outputs[:MAX_NAMED]
    ]
    CompileError.raise_any(faults)
    _check_schedule(read, schedule)
    return (
        f"{count_text(proof.ops, 'op')} in {count_text(len(schedule.segments), 'segment')} "
        f"proven, {seconds_text(schedule.seconds)} with dispatches"
    )


def _check_schedule(read: ReadPlacement, said: Schedule) -> None:
    """Cuts the step again, into as many windows as are best or fewest, and compares all of it."""
    opened = read.opened
    cut = best_segments(
        opened.target,
        read.problem,
        read.trace,
        runs_of(read.problem),
        "fewest" if said.windows == 1 else "fastest",
        said.dispatch_s,
        StepConditions(order=read.options.order),
    )
    options = replace(read.options, dispatch_s=said.dispatch_s)
    placed = replace(read.placed, options=options, segments=cut)
    annotated = opened.annotated
    known = {
        id(tensor): DataLocation(records.ANNOTATED_DATA, tensor.offset or 0, tensor.nbytes)
        for value in initializers_of(annotated)
        if isinstance(tensor := value.const_value, ir.ExternalTensor)
    }
    with tempfile.TemporaryDirectory(prefix="mcm-check-") as folder:
        schedule = segment_models.write_segments(Path(folder), placed, annotated, known)
        assert schedule is not None
        faults = [*_differences(opened.path, {records.SCHEDULE: schedule.to_dict()})]
        listed = {entry.file for entry in schedule.segments}
        extra = [n for n in opened.manifest.files if records.is_segment(n) and n not in listed]
        faults += [f"{quote(name)} is no segment of the placement" for name in extra]
        faults = faults or [*_unlike(opened.path, Path(folder))]
    if faults:
        is_time = faults[0].startswith(f"{records.SCHEDULE}.seconds")
        code = "MCM-D081" if is_time else "MCM-D084"
        raise CompileError.of(code, faults[0], at=records.SCHEDULE)


def check_report_text(read: ReadPlacement) -> str:
    """Return whether `report.md` is what the placement says.

    Raises:
        CompileError: MCM-D081 where it is not.
    """
    path = read.opened.path / records.REPORT_TEXT
    if path.read_bytes() != report_text(read.opened.record, read.opened.schedule):
        raise CompileError.of("MCM-D081", "the report is not what the placement says", at=str(path))
    return "as rendered from the placement"
