"""`mcmc place`: which op of a model runs on which device of one machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli import parameters
from mcm_compiler.cli.compile_options import progress_line, show_timings
from mcm_compiler.cli.completed_names import complete_models, names_of
from mcm_compiler.cli.failures import Verb, show_diagnostics
from mcm_compiler.cli.field_options import field_options, grouped_option, options_given
from mcm_compiler.cli.show import show_json
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.text.option_fields import options_of
from mcm_compiler.text.units import printable

if TYPE_CHECKING:
    from mcm_compiler.placed.placed_model import PlacedModel

TRAINING = "differentiate"
"""The pass that makes a training step of a model."""


@click.command(cls=Verb)
@click.argument("model", shell_complete=complete_models)
@grouped_option(
    "Target",
    "--target",
    default="box-2gpu",
    show_default=True,
    shell_complete=names_of("TARGETS", files=True),
    help="Name of a box, or a TOML file.",
)
@grouped_option(
    "Input",
    "--training",
    is_flag=True,
    help="Place a step of training: MODEL gives a loss, and weights become inputs.",
)
@grouped_option(
    "Input",
    "--differentiate",
    "differentiate",
    default=None,
    metavar="{...}",
    help="The same with options of the pass differentiate, such as '{optimizer=sgd}'.",
)
@field_options(PlaceOptions)
@click.option(
    "-o",
    "--output",
    type=parameters.FILE,
    default=None,
    help="The folder to write; without it the report alone is printed.",
)
@click.option(
    "--html", is_flag=True, help="Write a page to look at, too: OUTPUT.html, beside the folder."
)
@click.option("--timings", is_flag=True, help="Print seconds by stage.")
@parameters.force_option
@parameters.plugin_option
@parameters.format_option()
def command(
    model: str,
    target: str,
    training: bool,
    differentiate: str | None,
    output: Path | None,
    html: bool,
    timings: bool,
    force: bool,
    plugin: tuple[Path, ...],
    output_format: str,
    **given: Any,
) -> None:
    """Place the ops of MODEL, a file or zoo:NAME, on the CPUs and GPUs of one machine.

    Prints how long a step takes and what no placement can be faster than. OUTPUT gets the device of
    each op, settings for onnxruntime and OpenVINO, and a model for each segment of the step.
    """  # fmt: skip
    from mcm_compiler.processes.one_thread import use_one_thread

    # Before NumPy is imported: placers that learn do so reproducibly.
    use_one_thread()

    parameters.load_plugins(plugin)
    if html and output is None:
        raise click.UsageError("--html needs -o, the folder that the page stands beside")
    asked = options_given(options_of(PlaceOptions), given)
    if "times" in asked:
        asked["times"] = _measured(asked["times"])
    made = f"{TRAINING}{differentiate or ''}" if training or differentiate else None
    options = PlaceOptions(training=made, **asked)
    _place(model, target, options, output, html, force, timings, output_format)


def _measured(profiles: tuple[tuple[str, Path], ...]) -> dict[str, dict[str, float]]:
    """Seconds of ops by kind of device."""
    from mcm_compiler.placed.measured_times.profiles import profiled_seconds

    by_kind: dict[str, list[Path]] = {}
    for kind, path in profiles:
        by_kind.setdefault(kind, []).append(path)
    return {kind: profiled_seconds(paths) for kind, paths in by_kind.items()}


def _place(
    model: str,
    target: str,
    options: PlaceOptions,
    output: Path | None,
    html: bool,
    force: bool,
    timings: bool,
    output_format: str,
) -> None:
    from mcm_compiler.api import place_model
    from mcm_compiler.artifact.layout import page_path
    from mcm_compiler.cli.output_files import refuse_existing
    from mcm_compiler.page.folder_page import write_page_beside
    from mcm_compiler.processes.interruption import expect_one_output

    if output is not None:
        if html:
            refuse_existing(page_path(output), force)
        expect_one_output()
    with progress_line() as progress:
        placed = place_model(model, target, options, output=output, force=force, progress=progress)
    show_diagnostics(placed.diagnostics)
    _show(placed, output_format)
    if timings:
        show_timings(placed.timings)
    if output is not None:
        click.echo(f"wrote {printable(str(output))}", err=True)
        if html:
            click.echo(f"wrote {printable(str(write_page_beside(output)))}", err=True)


def _show(placed: PlacedModel, output_format: str) -> None:
    from mcm_compiler.cli.show import show_placement
    from mcm_compiler.placed.placed_verdict import SegmentTimes
    from mcm_compiler.placed.placement_figures import placement_record

    record = placement_record(placed)
    cut = placed.segments
    seconds = None if cut is None else cut.seconds
    if output_format == "json":
        delivered = None
        if cut is not None:
            dispatch_s = placed.options.dispatch_s
            delivered = {"count": cut.count, "dispatch_s": dispatch_s, "seconds": seconds}
        show_json({**record.to_dict(), "segments": delivered})
        return
    if cut is None or seconds is None:
        show_placement(record, None)
    else:
        show_placement(record, SegmentTimes(cut.count, placed.options.dispatch_s, seconds))
