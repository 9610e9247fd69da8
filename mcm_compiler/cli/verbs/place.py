"""`mcmc place`: which op of a model runs on which device of one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mcm_compiler.cli import show
from mcm_compiler.cli.show import show_diagnostics
from mcm_compiler.cli.verb import FORCE, FORMAT, HTML, MODEL, fields_of, verb
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.processes.interruption import expect_one_output
from mcm_compiler.text.option_fields import asked

TRAINING = "differentiate"
"""The pass that makes a training step of a model."""


@verb(
    (
        "place zoo:bert-tiny --target box-2gpu",
        "place model.onnx --training --pin 'embed*=cpu:0' -O3 --budget 60s",
        "place model.onnx --profile cpu=run.json -o placed --html",
    ),
    one_thread=True,
)
def command(
    model: str = MODEL,
    target: str = asked(
        "text", "Target", "Host with CPUs and GPUs, listed by mcmc targets, or a TOML file.",
        "box-2gpu", shown="box-2gpu", names="TARGETS FILE",
    ),
    training: bool = asked(
        "flag", "Input", "Place a training step: MODEL computes a loss; weights become inputs.",
    ),
    differentiate: str | None = asked(
        "text", "Input", "Like --training, with options of the pass differentiate, such as "
        "'{optimizer=sgd}'.", metavar="{...}",
    ),
    asked_for: dict[str, Any] = fields_of(PlaceOptions),
    output: Path | None = asked(
        "path", "", "Folder to write.", short="-o", shown="print the report only"
    ),
    html: bool = HTML,
    sensitivities: bool = asked(
        "flag", "", "Also show the effect of twice and half of each resource of the host.",
    ),
    timings: bool = asked("flag", "", "Print the time of each stage to stderr."),
    force: bool = FORCE,
    output_format: str = FORMAT,
) -> None:  # fmt: skip
    """Place the ops of a model on the CPUs and GPUs of one machine.

    MODEL is a file or zoo:NAME. Prints the time of a step and a proven lower bound. The output
    folder has the device of each op, settings for onnxruntime and OpenVINO, and a model for each
    segment of the step.
    """  # fmt: skip
    from mcm_compiler.artifact.layout import page_path
    from mcm_compiler.cli.output_files import refuse_existing
    from mcm_compiler.page.folder_page import write_page_beside
    from mcm_compiler.placed.placement_report import device_rows, placement_record, step_rows
    from mcm_compiler.placed.placing import place_model
    from mcm_compiler.variants.plan_changes import change_rows

    if html and output is None:
        raise click.UsageError("--html needs -o, the folder next to which the page is written")
    if "times" in asked_for:
        asked_for["times"] = _measured(asked_for["times"])
    made = f"{TRAINING}{differentiate or ''}" if training or differentiate else None
    options = PlaceOptions(training=made, **asked_for)
    if output is not None:
        if html:
            refuse_existing(page_path(output), force)
        expect_one_output()
    with show.progress_line() as progress:
        placed = place_model(
            model, target, options, output=output, force=force, progress=progress,
            sensitivities=sensitivities,
        )  # fmt: skip
    show_diagnostics(placed.diagnostics)
    record, times = placement_record(placed), placed.segment_times
    if output_format == "json":
        changes = {"sensitivities": [vars(one) for one in placed.changes]} if sensitivities else {}
        show.show_json({**record.to_dict(), "segments": times and vars(times), **changes})
    else:
        show.show_verdict(placed.headline, [step_rows(record), device_rows(record)])
        if placed.changes:
            click.echo()
            show.show_table(change_rows(placed.changes))
    if timings:
        show.show_timings(placed.timings)
    show.wrote(output)
    if html and output is not None:
        show.wrote(write_page_beside(output))


def _measured(profiles: tuple[tuple[str, Path], ...]) -> dict[str, dict[str, float]]:
    """Seconds of ops by kind of device."""
    from mcm_compiler.placed.profiles import profiled_seconds

    by_kind: dict[str, list[Path]] = {}
    for kind, path in profiles:
        by_kind.setdefault(kind, []).append(path)
    return {kind: profiled_seconds(paths) for kind, paths in by_kind.items()}
