"""Writing the folder of a placement: whole, in a staging folder, hashes last."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mcm_compiler.artifact.manifest import sha256_file
from mcm_compiler.placed import file_names
from mcm_compiler.placed.placed_model import PlacedModel, runs_of
from mcm_compiler.placed.placement_report import markdown
from mcm_compiler.placed.records import (
    Asked,
    DeviceFigures,
    PlacedSource,
    PlacementManifest,
    PlacementRecord,
    Schedule,
    Search,
    StepFigures,
)
from mcm_compiler.placed.runtime_wishes import onnxruntime_settings, openvino_affinities
from mcm_compiler.placed.segment_models import write_models
from mcm_compiler.report.versions import versions
from mcm_compiler.text import json_text


def write_folder(folder: Path, placed: PlacedModel) -> None:
    """Writes all files of a placement into an empty folder.

    Raises:
        CompileError: as `write_models`.
    """
    schedule = write_models(folder, placed)
    record = placement_record(placed)
    box = placed.target.box
    nodes = placed.device_of_node
    used = sorted({box.devices.index(device) for device in nodes.values()})
    json_text.write(folder / file_names.PLACEMENT, record.to_dict())
    if schedule is not None:
        json_text.write(folder / file_names.SCHEDULE, schedule.to_dict())
    json_text.write(folder / file_names.ONNXRUNTIME, onnxruntime_settings(box, used))
    json_text.write(folder / file_names.OPENVINO, openvino_affinities(box, nodes))
    (folder / file_names.TARGET).write_bytes(placed.target.source_text.encode())
    text = report_text(record, schedule)
    (folder / file_names.REPORT_TEXT).write_bytes(text)
    names = sorted(path.name for path in folder.iterdir())
    hashes = {name: sha256_file(folder / name) for name in names}
    manifest = PlacementManifest(file_names.KIND, hashes)
    json_text.write(folder / file_names.MANIFEST, manifest.to_dict())


def report_text(record: PlacementRecord, schedule: Schedule | None) -> bytes:
    """`report.md`."""
    return markdown(record, schedule).encode("utf-8", "backslashreplace")


def placement_record(placed: PlacedModel) -> PlacementRecord:
    """`placement.json`."""
    options, answer, source = placed.options, placed.answer, placed.source
    devices = placed.target.box.devices
    return PlacementRecord(
        compiler=versions()["mcm-compiler"] or "",
        model=PlacedSource(
            name=Path(source.name).name if source.path is not None else source.name,
            sha256=source.sha256,
            training=options.training or "",
            shape_only=source.shape_only,
            dims=dict(sorted(options.dims.items())),
            shapes={name: tuple(shape) for name, shape in sorted(options.shapes.items())},
            states=placed.states,
        ),
        target=placed.target.name,
        asked=Asked(options.order, options.pins, options.kinds, options.together),
        search=Search(
            placer=options.placer_text,
            method=answer.method,
            evaluations=answer.evaluations,
            seed=options.seed,
            history=tuple((int(n), float(score)) for n, score in answer.history),
            figures={name: float(value) for name, value in answer.figures if np.isfinite(value)},
        ),
        step=step_figures(placed),
        devices=device_figures(placed),
        device_of={
            name: devices[device]
            for name, device in zip(placed.problem.names, placed.device_of.tolist(), strict=True)
        },
    )


def step_figures(placed: PlacedModel) -> StepFigures:
    """What is claimed of the step."""
    bound = placed.bound
    return StepFigures(
        seconds=placed.seconds,
        bound_s=bound.seconds,
        argument=bound.argument,
        gap=placed.gap,
        critical_path_s=bound.critical_path_s,
        work_s=bound.work_s,
    )


def device_figures(placed: PlacedModel) -> tuple[DeviceFigures, ...]:
    """What each device does in the step."""
    box, results = placed.target.box, placed.results
    ops = np.bincount(placed.device_of[runs_of(placed.problem)], minlength=box.num_devices)
    return tuple(
        DeviceFigures(
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
