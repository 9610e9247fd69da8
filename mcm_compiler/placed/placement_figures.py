"""The figures of a placement: what its files say, made of what was found."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.components.device_costs import device_choices
from mcm_compiler.contracts.boxes.box import Box, BoxTarget, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepResults
from mcm_compiler.graph.trip_counts import stated_counts
from mcm_compiler.placed import file_names, records
from mcm_compiler.placed.placed_model import PlacedModel, runs_of
from mcm_compiler.placed.placement_report import markdown
from mcm_compiler.placed.step_placing import placer_text
from mcm_compiler.report.versions import versions
from mcm_compiler.text.toml_description import parse_description


def report_text(record: records.PlacementRecord, schedule: records.Schedule | None) -> bytes:
    """`report.md`."""
    return markdown(record, schedule).encode("utf-8", "backslashreplace")


def placement_record(placed: PlacedModel) -> records.PlacementRecord:
    """`placement.json`."""
    options, answer, source = placed.options, placed.answer, placed.source
    devices = placed.target.box.devices
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
            placer=placer_text(options),
            method=answer.method,
            evaluations=answer.evaluations,
            seed=options.seed,
            history=tuple((int(n), float(score)) for n, score in answer.history),
            figures={name: float(value) for name, value in answer.figures if np.isfinite(value)},
        ),
        step=step_figures(placed),
        devices=device_figures(placed.problem, placed.target.box, placed.device_of, placed.results),
        device_of={
            name: devices[device]
            for name, device in zip(placed.problem.names, placed.device_of.tolist(), strict=True)
        },
        cost_models=cost_model_texts(placed.target),
        sources=source_hashes(placed.target),
    )


def source_files(target: BoxTarget) -> dict[str, bytes]:
    """The description of a box, and files of its cost models, by their names in a folder."""
    files = {file_names.TARGET: target.source_text.encode()}
    for choice in device_choices(target).values():
        files |= choice.stored
    return files


def source_hashes(target: BoxTarget) -> dict[str, str]:
    """SHA-256 of what `source_files` gives; of the description, of its content without its form."""
    files = source_files(target)
    content = parse_description(target.name, target.source_text).data
    files[file_names.TARGET] = json.dumps(content, sort_keys=True, default=str).encode()
    return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}


def cost_model_texts(target: BoxTarget) -> dict[str, str]:
    """Text forms of the cost models that were chosen, by kind of device in the box's order."""
    choices = device_choices(target)
    return {kind: choices[kind].text for kind in target.box.kinds if kind in choices}


def step_figures(placed: PlacedModel) -> records.StepFigures:
    """What is claimed of the step."""
    bound = placed.bound
    return records.StepFigures(
        seconds=placed.seconds,
        bound_s=bound.seconds,
        argument=bound.argument,
        gap=placed.gap,
        critical_path_s=bound.critical_path_s,
        work_s=bound.work_s,
    )


def device_figures(
    problem: StepProblem, box: Box, device_of: Ints, results: StepResults
) -> tuple[records.DeviceFigures, ...]:
    """What each device does in the step.

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
