"""`mcmc measure` and `calibrate`: times of kernels on a device, and a target with its numbers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcm_compiler.cli import show
from mcm_compiler.cli.show import show_diagnostics, show_json, show_table, wrote
from mcm_compiler.cli.verb import FILE, FORCE, FORMAT, argument, verb
from mcm_compiler.text.option_fields import asked
from mcm_compiler.text.units import count_text, percent_text, printable, seconds_text

if TYPE_CHECKING:
    from mcm_compiler.measuring.calibrated_target import CalibratedTarget
    from mcm_compiler.measuring.measurement import Measurement


SHOWN = 10
"""Kernels in the printed table."""


@verb(("measure out", "measure zoo:resnet50 --target cpu-ring -o resnet50.times.csv"))
def measure(
    model: str = argument("MODEL|FOLDER", names="MODELS"),
    target: str = asked(
        "text", "Target", "Target of an uncompiled MODEL, listed by mcmc targets, or a TOML file.",
        "cpu-ring", shown="cpu-ring", names="TARGETS FILE",
    ),
    device: str | None = asked(
        "text", "Target", "Device that runs the chips' models.", names="DEVICES",
        shown="that of the target",
    ),
    inputs: Path | None = asked(
        "path", "Input", "An .npz file with one array per model input.", flag="--input", short="-i",
        shown="2 random inputs",
    ),
    busy: tuple[Path, ...] = asked(
        "paths", "Input", "Busy times of the chips of FOLDER, from mcmc run --write-busy; updates "
        "kernel times without a run. Repeatable.", flag="--busy",
    ),
    most: int | None = asked(
        "whole", "Input", "Maximum number of distinct kernels timed per chip on a device without "
        "a profiler; the most informative first.", low=1, shown="all",
    ),
    known: Path | None = asked(
        "path", "Input", "Kernels of other models, from mcmc calibrate, to choose those of --most."
    ),
    scheduler: str | None = asked(
        "text", "", "Address of a Dask scheduler, such as tcp://10.0.0.1:8786; one of its workers, "
        "which needs the same files, measures its machine.",
    ),
    output: Path | None = asked(
        "path", "", "Table to write.", short="-o", shown="MODEL.TARGET.times.csv"
    ),
    force: bool = FORCE,
    output_format: str = FORMAT,
) -> None:  # fmt: skip
    """Measure the kernels of a compiled FOLDER, or of a MODEL, in place.

    Each chip's model runs in separate sessions, in child processes; the profile of a session
    gives the time of every kernel. Writes a table for --cost-model, and a description of the
    machine next to it. After a crash, the same command resumes with the remaining sessions.
    """
    from mcm_compiler.cli.output_files import refuse_existing, write_with_parents
    from mcm_compiler.cli.verbs.compile import default_folder
    from mcm_compiler.contracts.requests import silent
    from mcm_compiler.execution.workers import results_of_workers
    from mcm_compiler.measuring.measurement import MeasureOptions
    from mcm_compiler.measuring.measurement import measure as measured
    from mcm_compiler.measuring.times_files import SUFFIX, machine_file

    if known is not None and most is None:
        raise click.UsageError("--known needs --most")
    if busy and scheduler is not None:
        raise click.UsageError("--busy runs nothing that --scheduler could run elsewhere")
    folder = Path(model) if Path(model).is_dir() else None
    stem = default_folder(model, target).name if folder is None else folder.resolve().name
    table = output or Path(f"{stem}{SUFFIX}")
    for path in (table, machine_file(table)):
        refuse_existing(path, force)
    with show.progress_line() as progress:
        if busy and folder is None:
            raise click.UsageError("--busy needs the FOLDER whose chips ran")
        asked_for = MeasureOptions(device, inputs, busy, most, known)
        kept = table.with_name(f"{table.name}.sessions")
        work = partial(measured, model, target, asked_for, kept=kept)
        if scheduler is None:
            found = work(progress=progress or silent)
        else:
            (found,) = results_of_workers(scheduler, [work])
    show_diagnostics(found.result.diagnostics)
    write_with_parents(table, found.table_text.encode("utf-8"))
    write_with_parents(machine_file(table), found.machine_text.encode("utf-8"))
    if output_format == "json":
        show.show_json({"table": str(table), "machine": dict(found.machine), **found.figures})
    else:
        _show_measurement(found)
    show.wrote(table)
    show.wrote(machine_file(table))


def _show_measurement(found: Measurement) -> None:
    longest = sorted(found.kernels, key=lambda one: -one.seconds)[:SHOWN]
    rows = [
        (printable(one.kernel), seconds_text(one.seconds), f"± {percent_text(one.spread)}")
        for one in longest
    ]
    show_table([("kernel", "time", found.word), *rows])
    for line in found.headline.lines:
        click.echo("; ".join([line["headline"], *line["details"]]))


@verb(("calibrate out -o machine.toml", "calibrate bert resnet -o machine.toml"))
def calibrate(
    folders: tuple[Path, ...] = argument("FOLDER...", nargs=-1, required=True, type=FILE),
    times: Path | None = asked(
        "path", "Input", "Table of a single FOLDER.", shown="./FOLDER.times.csv"
    ),
    output: Path = asked(
        "new file", "", "Target description to write, for --target.", short="-o", required=True
    ),
    force: bool = FORCE,
    output_format: str = FORMAT,
) -> None:  # fmt: skip
    """Fit the target of FOLDER to the kernel times that mcmc measure wrote for it.

    Launch overhead, MAC array, vector unit and memory are fitted to the kernels of all folders, and
    links to the rate of copies. If one common factor predicts held-out kernels better than four
    parameters, the factor is used. If times learned from all kernels predict held-out models better
    than both, they are written next to the description.
    """
    from mcm_compiler.cli.output_files import refuse_existing, write_with_parents
    from mcm_compiler.measuring.calibrated_target import calibrated_target
    from mcm_compiler.measuring.times_files import SUFFIX

    if times is not None and len(folders) > 1:
        raise click.UsageError("--times is for a single folder")
    kernels = output.with_suffix(".kernels.json")
    refuse_existing(kernels, force)
    tables = [times or Path(f"{folder.resolve().name}{SUFFIX}") for folder in folders]
    found = calibrated_target(list(zip(folders, tables, strict=True)))
    show_diagnostics(found.diagnostics)
    write_with_parents(output, found.text.encode("utf-8"))
    learned = found.fit.learned
    if learned is not None and learned.is_better:
        write_with_parents(kernels, learned.content)
    if output_format == "json":
        fit = found.fit
        show_json(
            {
                "numbers": {key: list(pair) for key, pair in found.numbers.items()},
                "kernels": fit.kernels,
                "error": {"before": fit.before, "after": fit.after, "left_out": dict(fit.left_out)},
                "models_left_out": learned and learned.means,
            }
        )
    else:
        _show_calibration(found)
    wrote(output)
    if learned is not None and learned.is_better:
        wrote(kernels)


def _show_calibration(found: CalibratedTarget) -> None:
    rows = [(key, f"{old:.4g}", f"{new:.4g}") for key, (old, new) in found.numbers.items()]
    show_table([("number", "before", "after"), *rows])
    fit = found.fit
    click.echo(
        f"error of {count_text(fit.kernels, 'distinct kernel')}: {percent_text(fit.before)} of "
        f"their time before, {percent_text(fit.after)} after"
    )
    chosen, other = sorted(fit.left_out, key=lambda method: fit.left_out[method])
    click.echo(
        f"on kernels left out of a fit: {chosen} {percent_text(fit.left_out[chosen])} (chosen), "
        f"{other} {percent_text(fit.left_out[other])}"
    )
    if fit.learned is not None:
        means = fit.learned.means
        verdict = "written" if fit.learned.is_better else "not written: not clearly better"
        click.echo(
            f"on models left out, 3 kernels of each measured: learned times "
            f"{percent_text(means['learned'])} ({verdict}), calibrated ones "
            f"{percent_text(means['calibrated'])}"
        )
