"""Opens the folder of a placement in onnxruntime and compares what runs where with the plan.

    python tools/read_back_placement.py FOLDER --library NAME=FILE --provider gpu:0=NAME

A library is a plug-in of onnxruntime with an execution provider, which a device of the box gets
with `--provider`; a device without one gets onnxruntime's own for CPUs. A build of onnxruntime with
a provider in it, such as `onnxruntime-openvino` in an environment of its own, needs no library.

Each segment is opened with the provider of its device, the nodes that the provider took are read
back, and all segments run one after another on one random input, if the provider can. With
`--one-session` the annotated model is opened once, with rules that send nodes to providers. A
machine without GPUs can try it with a plug-in that runs on CPUs under another name, such as that of
`onnxruntime-ggml`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime as ort

from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.execution.runner import max_abs_error, run_model
from mcm_compiler.placed.folder_reading import OpenedPlacement, open_placement
from mcm_compiler.placed.records import Schedule
from mcm_compiler.placed.runtime_wishes import (
    CPU_PROVIDER,
    RECORD,
    ReadBack,
    assignment_of,
    onnxruntime_settings,
    read_back,
)


def open_with(model: Path, provider: str, options: Mapping[str, str], **config: str) -> Any:
    """A session with one provider, and the CPU's for what that does not take."""
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in {RECORD: "1", **config}.items():
        settings.add_session_config_entry(key, value)
    if provider == CPU_PROVIDER:
        return ort.InferenceSession(str(model), settings)
    if provider in ort.get_available_providers():
        chosen = [(provider, dict(options)), CPU_PROVIDER]
        return ort.InferenceSession(str(model), settings, providers=chosen)
    devices = [d for d in ort.get_ep_devices() if d.ep_name == provider]
    settings.add_provider_for_devices(devices[:1], dict(options))
    return ort.InferenceSession(str(model), settings)


def read_segments(
    opened: OpenedPlacement, schedule: Schedule, provider_of: Mapping[str, str], options: Any
) -> ReadBack:
    """Which provider has each node, segment by segment.

    Args:
        opened: the folder.
        schedule: of it.
        provider_of: the provider of each device.
        options: of providers other than the CPU's.
    """
    actual: dict[str, str] = {}
    for entry in schedule.segments:
        path = opened.path / entry.file
        actual |= assignment_of(open_with(path, provider_of[entry.device], options))
    planned = {n: opened.record.device_of[n] for n in actual if n in opened.record.device_of}
    return read_back(planned, provider_of, actual)


def run_segments(
    opened: OpenedPlacement, schedule: Schedule, provider_of: Mapping[str, str], options: Any
) -> float | str:
    """The largest difference of an output from the model's on the CPU, or why none was made."""
    feeds = random_inputs(opened.annotated, 0)
    names = [entry.name for entry in schedule.outputs]
    expected = run_model(opened.path / "annotated.onnx", feeds, names)
    values = dict(feeds)
    for entry in schedule.segments:
        session = open_with(opened.path / entry.file, provider_of[entry.device], options)
        try:
            made = session.run(list(entry.outputs), {name: values[name] for name in entry.inputs})
        except Exception as error:  # a type of the runtime's own per status code
            return f"segment {entry.segment}: {' '.join(str(error).split())[-160:]}"
        values |= dict(zip(entry.outputs, made, strict=True))
    return max(max_abs_error(expected[name], values[name]) for name in names)


def one_session(opened: OpenedPlacement, provider_of: Mapping[str, str], options: Any) -> ReadBack:
    """What ran where in one session of the annotated model."""
    box = opened.target.box
    used = range(box.num_devices)
    config = onnxruntime_settings(box, used, provider_of)["session_config"]
    others = {p for p in provider_of.values() if p != CPU_PROVIDER}
    session = open_with(
        opened.path / "annotated.onnx", others.pop() if others else CPU_PROVIDER, options, **config
    )
    actual = assignment_of(session)
    planned = {n: opened.record.device_of[n] for n in actual if n in opened.record.device_of}
    return read_back(planned, provider_of, actual)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what was found as JSON; 1 where something ran elsewhere."""
    parser = argparse.ArgumentParser(description="Reads back where a placement runs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--library", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--provider", action="append", default=[], metavar="DEVICE=NAME")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--one-session", action="store_true")
    asked = parser.parse_args(arguments)
    for name, _, path in (text.partition("=") for text in asked.library):
        ort.register_execution_provider_library(name, path)
    given = {device: name for device, _, name in (text.partition("=") for text in asked.provider)}
    options = {key: value for key, _, value in (text.partition("=") for text in asked.option)}
    opened = open_placement(asked.folder)
    provider_of = {d: given.get(d, CPU_PROVIDER) for d in opened.target.box.devices}
    schedule = opened.schedule
    error: float | str | None = None
    if asked.one_session or schedule is None:
        found = one_session(opened, provider_of, options)
    else:
        found = read_segments(opened, schedule, provider_of, options)
        error = run_segments(opened, schedule, provider_of, options)
    counts: dict[str, int] = {}
    for _, planned, actual in found.elsewhere:
        counts[f"{planned} -> {actual}"] = counts.get(f"{planned} -> {actual}", 0) + 1
    print(
        json.dumps(
            {
                "onnxruntime": ort.__version__,
                "as_planned": found.as_planned,
                "elsewhere": counts,
                "unknown": len(found.unknown),
                "first_elsewhere": found.elsewhere[:5],
                "max_abs_error": error,
            },
            indent=2,
        )
    )
    return 0 if found.holds else 1


if __name__ == "__main__":
    sys.exit(main())
