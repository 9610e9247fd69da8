"""A model that can be run segment by segment, and one that shows each op's device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from mcm_compiler.artifact.emit import tensor_entry
from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.chips import CHIP_PROPERTY
from mcm_compiler.contracts.target import ChipModel, Wire
from mcm_compiler.graph.annotations import AnnotationKey
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.ir.rewriting.device_stages import MULTI_DEVICE_IR_VERSION, free_name
from mcm_compiler.ir.rewriting.splitter import split
from mcm_compiler.ir.rewriting.writer import DataLocation, write_with_data
from mcm_compiler.placed import records
from mcm_compiler.placed.placed_model import PlacedModel
from mcm_compiler.placed.records import Schedule, SegmentEntry
from mcm_compiler.placed.runtime_wishes import ANNOTATION, annotation_names
from mcm_compiler.placed.segments import Segments

DEVICE_PROPERTY = "mcm.device"
SEGMENT_PROPERTY = "mcm.segment"
CONFIGURATION = "mcm"

_SEGMENT: AnnotationKey[int] = AnnotationKey("placed segment", on="node")


def annotated_model(model: ir.Model, box: Box, device_of_node: Mapping[str, str]) -> ir.Model:
    """A copy of the model that says on which device each op runs.

    It stands in ONNX's multi-device fields (a model configuration with the devices of the box, and
    the device of a node as its pipeline stage), in the annotation that onnxruntime reads, and in
    `mcm.device`. Weights are shared with the model.

    Args:
        model: what was placed.
        box: the devices.
        device_of_node: a device's name for each op that runs.
    """
    copy = model.clone()
    copy.ir_version = max(copy.ir_version, MULTI_DEVICE_IR_VERSION)
    configuration = copy.add_device_configuration(
        free_name(CONFIGURATION, [c.name for c in copy.device_configurations]),
        device_names=list(box.devices),
    )
    index = {name: d for d, name in enumerate(box.devices)}
    marks = annotation_names(box.num_devices)
    for node in copy.graph:
        device = device_of_node.get(node.name or "")
        if device is None:
            continue
        node.metadata_props[DEVICE_PROPERTY] = device
        node.metadata_props[ANNOTATION] = marks[index[device]]
        node.set_pipeline_stage(configuration, index[device])
    return copy


def segment_models(
    annotated: ir.Model, names: Sequence[str], segments: Segments
) -> tuple[tuple[ChipModel, ...], tuple[Wire, ...]]:
    """A model for each segment, and the tensors that travel between them.

    Args:
        annotated: of `annotated_model`; unchanged but for facts about its nodes.
        names: of the ops of the problem.
        segments: of the problem.

    Raises:
        CompileError: MCM-P012 where a value that travels has no type.
    """
    of_name = {name: s for name, s in zip(names, segments.of_op.tolist(), strict=True) if s >= 0}
    for node in annotated.graph:
        segment = of_name.get(node.name or "")
        if segment is not None:
            _SEGMENT.set(node, segment)
    parts, wires = split(annotated, _SEGMENT)
    for part in parts:
        part.model.graph.name = f"segment {part.chip}"
        for node in part.model.graph:
            node.metadata_props[SEGMENT_PROPERTY] = node.metadata_props.pop(CHIP_PROPERTY)
    return parts, wires


def write_models(folder: Path, placed: PlacedModel, *, segments: bool = True) -> Schedule | None:
    """Writes `annotated.onnx` with all weights, and the segments, which refer to them.

    Args:
        folder: where to write.
        placed: how the model is placed and cut.
        segments: whether to write them.

    Returns:
        What runs when; None where the step was not cut.

    Raises:
        CompileError: as `segment_models`.
    """
    box = placed.target.box
    annotated = annotated_model(placed.model, box, placed.device_of_node)
    written = write_with_data(annotated, folder / records.ANNOTATED, records.ANNOTATED_DATA)
    return write_segments(folder, placed, annotated, written) if segments else None


def write_segments(
    folder: Path, placed: PlacedModel, annotated: ir.Model, written: dict[int, DataLocation]
) -> Schedule | None:
    """Writes the segments, which refer to weights of `annotated.onnx`.

    Args:
        folder: where to write.
        placed: how the model is placed and cut.
        annotated: of `annotated_model`; unchanged but for facts about its nodes.
        written: where each of its tensors (by `id`) is that is outside of its file.

    Returns:
        As `write_models`.

    Raises:
        CompileError: as `segment_models`.
    """
    if placed.segments is None:
        return None
    box = placed.target.box
    parts, wires = segment_models(annotated, placed.problem.names, placed.segments)
    for part in parts:
        path = folder / records.segment_file(part.chip)
        write_with_data(part.model, path, None, written)
    return Schedule(
        dispatch_s=placed.options.dispatch_s,
        windows=placed.segments.windows,
        seconds=placed.segments.seconds or 0.0,
        inputs=tuple(map(tensor_entry, free_inputs(annotated))),
        outputs=tuple(map(tensor_entry, annotated.graph.outputs)),
        segments=tuple(segment_entry(part, placed.segments, box) for part in parts),
        wires=wires,
    )


def segment_entry(part: ChipModel, segments: Segments, box: Box) -> SegmentEntry:
    """Entry of a segment in the schedule.

    Args:
        part: its model.
        segments: of the step.
        box: the devices.
    """
    return SegmentEntry(
        segment=part.chip,
        file=records.segment_file(part.chip),
        device=box.devices[int(segments.device[part.chip])],
        inputs=part.inputs,
        outputs=part.outputs,
        ops=int(np.count_nonzero(segments.of_op == part.chip)),
    )


def stage_of(node: ir.Node, box: Box) -> int | None:
    """The device of a node of an annotated model, as ONNX's multi-device fields have it."""
    for found in node.device_configurations:
        known = found.configuration
        if known is not None and tuple(known.device_names) == box.devices:
            return found.pipeline_stage
    return None
