"""`placement.json` and `schedule.json`: what the folder of a placement says, as records.

They are read as untrusted input: numbers are bounded, names are text.

Names of the files in the folder of a placement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from mcm_compiler.artifact.layout import ANNOTATED, ANNOTATED_DATA, MANIFEST, REPORT_TEXT, TARGET
from mcm_compiler.artifact.manifest import TensorEntry
from mcm_compiler.contracts.target import Wire
from mcm_compiler.graph.states import StatePair
from mcm_compiler.text.json_text import Amount, Index, Seed, Size


@dataclass(frozen=True)
class _File:
    """Base of the records of files."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


@dataclass(frozen=True)
class PlacedSource:
    """The model that was placed.

    Attributes:
        name: of the source model.
        sha256: of the source model.
        training: text form of the pass that made a training step of it, or "".
        shape_only: whether weights are placeholders.
        dims: sizes of symbolic dimensions that the user gave.
        shapes: shapes of inputs that the user gave.
        trip_counts: stated trip counts of loops.
        states: inputs of a step that are outputs of the step before.
    """

    name: str
    sha256: str
    training: str = ""
    shape_only: bool = False
    dims: Mapping[str, Size] = field(default_factory=dict[str, int])
    shapes: Mapping[str, tuple[Size, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    trip_counts: Mapping[str, Size] = field(default_factory=dict[str, int])
    states: tuple[StatePair, ...] = ()


@dataclass(frozen=True)
class Asked:
    """Options that decide which placements are allowed, and how a step is simulated.

    Attributes:
        order: which ready op a free device starts.
        pins: patterns and devices.
        kinds: patterns and kinds of devices.
        together: patterns.
    """

    order: Literal["fifo", "critical_path"] = "fifo"
    pins: tuple[tuple[str, str], ...] = ()
    kinds: tuple[tuple[str, str], ...] = ()
    together: tuple[str, ...] = ()


@dataclass(frozen=True)
class Search:
    """Search of a placement.

    Attributes:
        placer: text form.
        method: what found the placement.
        evaluations: placements that were simulated.
        seed: of everything random.
        history: evaluations and the best score by then.
        figures: further numbers by name.
    """

    placer: str
    method: str
    evaluations: Index
    seed: Seed
    history: tuple[tuple[Index, Amount], ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class StepFigures:
    """Claims about the step.

    Attributes:
        seconds: that it takes.
        bound_s: that no placement beats; 0 where nothing is proven.
        argument: why.
        gap: by what share the time is above the bound, or None.
        critical_path_s: of the bound.
        work_s: of the bound.
    """

    seconds: Amount
    bound_s: Amount
    argument: str
    gap: float | None
    critical_path_s: Amount
    work_s: Amount


@dataclass(frozen=True)
class DeviceFigures:
    """Figures of a device in the step.

    Attributes:
        device: its name.
        kind: its kind.
        ops: that it runs; inputs and variables do not count.
        busy_s: time of its ops.
        copy_s: time of the copies that leave it.
        peak_bytes: most memory that is held at once.
        memory_bytes: what it has.
    """

    device: str
    kind: str
    ops: Index
    busy_s: Amount
    copy_s: Amount
    peak_bytes: Size
    memory_bytes: Size


@dataclass(frozen=True)
class PlacementRecord(_File):
    """`placement.json`.

    Attributes:
        compiler: version that wrote it.
        model: what was placed.
        target: name of the box; `target.toml` describes it.
        asked: constraints and conditions.
        search: who searched.
        step: what is claimed.
        devices: in the order of the box.
        device_of: the device of each op, inputs and variables included.
        cost_models: where times come from, by kind of device: text forms, whose files lie in the
            folder; kinds without one have those that the box computes.
        sources: SHA-256 of the description of the box and of files of its cost models, by name.
    """

    compiler: str
    model: PlacedSource
    target: str
    asked: Asked
    search: Search
    step: StepFigures
    devices: tuple[DeviceFigures, ...]
    device_of: Mapping[str, str]
    cost_models: Mapping[str, str] = field(default_factory=dict[str, str])
    sources: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class SegmentEntry:
    """One segment.

    Attributes:
        segment: its number; segments run in the order of their numbers.
        file: its ONNX file.
        device: that runs it.
        inputs: of the file.
        outputs: of the file.
        ops: how many it has.
    """

    segment: Index
    file: str
    device: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ops: Index


@dataclass(frozen=True)
class Schedule(_File):
    """`schedule.json`: which segment runs when, and which tensors go where.

    Attributes:
        dispatch_s: time that the start of a segment was taken to last.
        windows: that the step was cut into before.
        seconds: time of a step that runs segments.
        inputs: of the step.
        outputs: of the step.
        segments: in the order in which they run.
        wires: tensors that leave a segment, and inputs; -1 stands for who runs the step.
    """

    dispatch_s: Amount
    windows: Index
    seconds: Amount
    inputs: tuple[TensorEntry, ...]
    outputs: tuple[TensorEntry, ...]
    segments: tuple[SegmentEntry, ...]
    wires: tuple[Wire, ...]


STATED = ("compiler", "model", "target", "asked", "search")
"""Sections of `placement.json` that are the request, and how it was answered."""


@dataclass(frozen=True)
class PlacementManifest(_File):
    """`manifest.json` of a placement: what is in the folder.

    Attributes:
        kind: that it is one.
        files: sha256 of every other file by name.
        stated: sections of `placement.json` that follow from nothing else in the folder, by name;
            empty where an older release has not recorded them.
    """

    kind: Literal["placement"]
    files: dict[str, str]
    stated: Mapping[str, Any] = field(default_factory=dict[str, Any])


__all__ = ["ANNOTATED", "ANNOTATED_DATA", "MANIFEST", "REPORT_TEXT", "TARGET"]
"""Files that compiled folders have under the same names."""

PLACEMENT = "placement.json"
SCHEDULE = "schedule.json"
ONNXRUNTIME = "onnxruntime.json"
OPENVINO = "openvino.json"

SCHEMA_VERSION = 3
"""Of manifest, placement and schedule. Raised when a field changes its meaning or goes."""


def is_segment(name: str) -> bool:
    """Return whether a file has the name of a segment's model."""
    return name.startswith("segment_") and name.endswith(".onnx")


def segment_file(segment: int) -> str:
    """The model of one segment."""
    return f"segment_{segment:03d}.onnx"
