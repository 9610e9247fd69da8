"""`mcmc place`: which op of a model runs on which device of one machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.compile_options import progress_line, show_timings
from mcm_compiler.cli.completed_names import complete_models, names_of
from mcm_compiler.cli.failures import Verb, show_diagnostics
from mcm_compiler.cli.field_options import field_option
from mcm_compiler.cli.parameters import (
    FILE,
    SEED,
    force_option,
    format_option,
    load_plugins,
    once_each,
    parse_device_costs,
    parse_duration,
    parse_level,
    parse_named_pin,
    parse_profile,
    parse_states,
    plugin_option,
)
from mcm_compiler.cli.show import show_json
from mcm_compiler.text.printable import printable

if TYPE_CHECKING:
    from mcm_compiler.placed.place_options import PlaceOptions
    from mcm_compiler.placed.placed_model import PlacedModel

TRAINING = "differentiate"
"""The pass that makes a training step of a model."""


@click.command(cls=Verb)
@click.argument("model", shell_complete=complete_models)
@click.option(
    "--target",
    default="box-2gpu",
    show_default=True,
    shell_complete=names_of("TARGETS", files=True),
    help="Name of a box, or a TOML file.",
)
@click.option(
    "--training",
    is_flag=True,
    help="Place a step of training: MODEL gives a loss, and weights become inputs.",
)
@click.option(
    "--differentiate",
    "differentiate",
    default=None,
    metavar="{...}",
    help="The same with options of the pass differentiate, such as '{optimizer=sgd}'.",
)
@click.option(
    "--placer",
    default=None,
    metavar="NAME{...}",
    shell_complete=names_of("PLACERS"),
    help="Who places, as listed by mcmc placers, with its options, such as "
    "'local_search{parts=4}' (as the level says).",
)
@click.option(
    "-O",
    "level",
    type=parse_level,
    default="2",
    show_default=True,
    metavar="LEVEL",
    shell_complete=names_of("PLACER_LEVELS"),
    help="Effort of the search: 0 first look, 1 short, 2 about a minute, 3 some minutes.",
)
@click.option(
    "--evaluations",
    type=click.IntRange(1, 10**9),
    default=None,
    help="Placements that may be simulated (as the level says).",
)
@click.option(
    "--budget",
    "budget_s",
    type=parse_duration,
    default=None,
    metavar="DURATION",
    help="Time limit of the search, such as 60s; results need not be reproducible.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of everything random.")
@click.option(
    "--pin",
    "pins",
    type=parse_named_pin,
    multiple=True,
    metavar="PATTERN=DEVICE",
    help="Device of the ops whose names fit; PATTERN may have * and ?. Repeatable.",
)
@click.option(
    "--kind",
    "kinds",
    type=parse_named_pin,
    multiple=True,
    metavar="PATTERN=KIND",
    help="Kind of device of these ops. Repeatable.",
)
@click.option(
    "--together",
    multiple=True,
    metavar="PATTERN",
    help="These ops run on one device, whichever it is. Repeatable.",
)
@click.option(
    "--order",
    type=click.Choice(["fifo", "critical_path"]),
    default="fifo",
    show_default=True,
    help="Which ready op a free device starts.",
)
@click.option(
    "--profile",
    "profiles",
    type=parse_profile,
    multiple=True,
    metavar="KIND=FILE",
    help="Times of ops on devices of a kind: a profile that onnxruntime wrote. Repeatable.",
)
@click.option(
    "--cost-model",
    "cost_models",
    type=parse_device_costs,
    multiple=True,
    metavar="KIND=MODEL",
    help="Where times of ops on devices of a kind come from, as listed by mcmc costs, such as "
    "'k40=table{file=times.csv}'. Repeatable.",
)
@click.option(
    "--segments",
    type=click.Choice(["fastest", "fewest", "none"]),
    default="fastest",
    show_default=True,
    help="How the step is cut into models of one device each.",
)
@click.option(
    "--dispatch",
    "dispatch_s",
    type=parse_duration,
    default="0.05ms",
    show_default=True,
    metavar="DURATION",
    help="Time that the start of a segment takes.",
)
@field_option("dims")
@field_option("shapes")
@field_option("trip_counts")
@click.option(
    "--state",
    multiple=True,
    metavar="PAST=PRESENT",
    help="An input and the output that the next step takes for it, such as a cache. "
    "Repeatable; none for none.",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=None,
    help="The folder to write; without it the report alone is printed.",
)
@click.option(
    "--html", is_flag=True, help="Write a page to look at, too: OUTPUT.html, beside the folder."
)
@click.option("--timings", is_flag=True, help="Print seconds by stage.")
@force_option
@plugin_option
@format_option()
def command(
    model: str,
    target: str,
    training: bool,
    differentiate: str | None,
    placer: str | None,
    level: int | str,
    evaluations: int | None,
    budget_s: float | None,
    seed: int,
    pins: tuple[tuple[str, str], ...],
    kinds: tuple[tuple[str, str], ...],
    together: tuple[str, ...],
    order: Any,
    profiles: tuple[tuple[str, Path], ...],
    cost_models: tuple[tuple[str, str], ...],
    segments: Any,
    dispatch_s: float,
    dims: tuple[tuple[str, int], ...],
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    trip_counts: tuple[tuple[str, int], ...],
    state: tuple[str, ...],
    output: Path | None,
    html: bool,
    timings: bool,
    force: bool,
    plugin: tuple[Path, ...],
    output_format: str,
) -> None:
    """Place the ops of MODEL, a file or zoo:NAME, on the CPUs and GPUs of one machine.

    Prints how long a step takes and what no placement can be faster than. OUTPUT gets the device of
    each op, settings for onnxruntime and OpenVINO, and a model for each segment of the step.
    """  # fmt: skip
    from mcm_compiler.processes.one_thread import use_one_thread

    # Before NumPy is imported: placers that learn do so reproducibly.
    use_one_thread()
    from mcm_compiler.placed.place_options import PlaceOptions

    load_plugins(plugin)
    if html and output is None:
        raise click.UsageError("--html needs -o, the folder that the page stands beside")
    options = PlaceOptions(
        placer=placer,
        level=level,
        training=f"{TRAINING}{differentiate or ''}" if training or differentiate else None,
        pins=pins,
        kinds=kinds,
        together=together,
        evaluations=evaluations,
        seed=seed,
        budget_s=budget_s,
        order=order,
        times=_measured(profiles),
        cost_models=once_each("--cost-model", cost_models),
        dims=once_each("--dim", dims),
        shapes=once_each("--shape", shapes),
        trip_counts=once_each("--trip-count", trip_counts),
        state=parse_states(state),
        segments=segments,
        dispatch_s=dispatch_s,
    )
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
