"""`mcmc report`, `run` and `simulate`: what an output folder holds, and what its chips compute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli import show
from mcm_compiler.cli.verb import FOLDER, FORCE, FORMAT, FULL, PROFILE, form_of_result, verb
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.text.option_fields import asked

if TYPE_CHECKING:
    from mcm_compiler.additions import OtherFolder
    from mcm_compiler.checking.entry.gate import OpenedFolder
    from mcm_compiler.checking.entry.run_pipelined import PipelinedRun


@verb(("report out", "report out --full", "report out --html out.html"))
def report(
    folder: Path = FOLDER,
    html: Path | None = asked("new file", "", "Also write the report as a self-contained page."),
    full: bool = FULL,
    profile: str | None = PROFILE,
    force: bool = FORCE,
    output_format: str = form_of_result("markdown"),
) -> None:
    """Show the report of FOLDER after checking its hashes and figures, or of a report.json file."""
    from mcm_compiler.artifact import layout
    from mcm_compiler.artifact.manifest import other_folder
    from mcm_compiler.artifact.profiles import profile_folder
    from mcm_compiler.checking.entry.gate import fields_of
    from mcm_compiler.report.markdown import render_markdown

    if (other := other_folder(folder)) is not None:
        _show_other(other.opened(folder, True), output_format, html, full)
        return
    given, folder = folder, profile_folder(folder, profile)
    stored, note, opened = _read(folder)
    with fields_of(folder / layout.REPORT if folder.is_dir() else folder):
        if output_format == "json":
            show.show_json(stored)
        elif output_format == "markdown":
            markdown = render_markdown(stored).encode("utf-8", "backslashreplace")
            click.echo(markdown, nl=False)
        else:
            show.show_report(stored, full=full)
        if html is not None:
            from mcm_compiler.page.compiled_page import compiled_page
            from mcm_compiler.page.contents import Compiled

            show.show_page(html, compiled_page(Compiled(stored, opened)))
    if opened is not None and profile is None and (names := opened.manifest.profiles):
        first, *others = names
        text = f"profile {first} of {len(names)}; mcmc report {given} --profile {others[0]}"
        click.echo(f"{text} shows another: {', '.join(others)}", err=True)
    if note is not None:
        show.show_diagnostics([note])


def _show_other(folder: OtherFolder, output_format: str, html: Path | None, full: bool) -> None:
    """The report of a folder of another verb, whose figures are proven."""
    if output_format == "json":
        show.show_json(folder.data)
    elif output_format == "markdown":
        click.echo(folder.text, nl=False)
    else:
        show.show_verdict(folder.headline, folder.tables if full else ())
    if html is not None:
        show.show_page(html, folder.page())


def _read(path: Path) -> tuple[dict[str, Any], Diagnostic | None, OpenedFolder | None]:
    """The report of a folder whose figures hold, or of a file; what was not checked; the folder."""
    from mcm_compiler.artifact import layout
    from mcm_compiler.artifact.manifest import no_output_folder
    from mcm_compiler.checking.entry.gate import bare_report_note, open_folder, read_report
    from mcm_compiler.checking.figures_check import check_stored_figures

    beside = path if path.is_dir() else path.parent
    if path.is_dir() or (path.name == layout.REPORT and (beside / layout.MANIFEST).exists()):
        opened = open_folder(beside, further=True)
        return opened.report, check_stored_figures(opened), opened
    if not path.exists():
        raise no_output_folder(path)
    return read_report(path), bare_report_note(path), None


@verb(
    (
        "run out -i sample.npz -o outputs.npz",
        "run decoder -i tokens.npz --steps 8 -o outputs.npz",
        "run out --pipelined --html measured.html",
    ),
    plugins=False,
)
def run(
    folder: Path = FOLDER,
    input_path: Path | None = asked(
        "path", "Input", "An .npz file with one array per model input; if the folder computes L "
        "inferences a round, a leading axis of a multiple of L is allowed.", flag="--input",
        short="-i", shown="2 random inputs with --pipelined, else required",
    ),
    output: Path | None = asked("new file", "", "Write the outputs to this .npz file.", short="-o"),
    steps: int = asked(
        "whole", "Input", "Number of decode steps; arrays with a leading axis of this length "
        "supply one entry per step.",
        1, low=1, high=4096,
    ),
    profile: str | None = PROFILE,
    states: Path | None = asked(
        "path", "Input", "An .npz file written by -o, whose states precede the first step."
    ),
    pipelined: bool = asked(
        "flag", "Target", "Run each chip as a process pinned to a core; measure period and load.",
        default=False,
    ),
    inferences: int = asked(
        "whole", "Target", "Inferences measured by --pipelined, in 3 blocks of at least 40 rounds.",
        120, low=1, high=1_000_000,
    ),
    scheduler: str | None = asked(
        "text", "Target", "Address of a Dask scheduler whose workers run the chips of --pipelined, "
        "such as tcp://10.0.0.1:8786.",
    ),
    write_busy: Path | None = asked(
        "new file", "", "Write busy times of chips, for mcmc measure --busy (with --pipelined)."
    ),
    html: Path | None = asked(
        "new file", "", "Write the report page with the measurements of --pipelined."
    ),
    force: bool = FORCE,
    output_format: str = FORMAT,
) -> None:  # fmt: skip
    """Run the chips of FOLDER as a chain in onnxruntime, on arrays from an .npz file."""
    from mcm_compiler.artifact.profiles import profile_folder
    from mcm_compiler.checking.entry.run_folder import run_folder
    from mcm_compiler.execution.npz_inputs import read_npz, write_npz

    if (html is not None or write_busy is not None or scheduler is not None) and not pipelined:
        raise click.UsageError("--html, --write-busy and --scheduler need --pipelined")
    if input_path is None and not pipelined:
        raise click.UsageError("Missing option '-i' / '--input': --pipelined alone draws inputs")
    before = None if states is None else read_npz(states)
    inputs = None if input_path is None else read_npz(input_path)
    source = profile_folder(folder, profile)
    measured: Mapping[str, Any] | None = None
    if pipelined:
        from mcm_compiler.checking.entry.run_pipelined import run_pipelined

        measurement = run_pipelined(
            source, inputs, steps, before, inferences=inferences, scheduler=scheduler
        )
        show.show_diagnostics(measurement.notes)
        outputs, measured = measurement.outputs, measurement.data
        if write_busy is not None:
            _write_busy(write_busy, measurement)
        if html is not None:
            _write_page(html, measurement)
    else:
        outputs = run_folder(source, inputs or {}, steps, before)
    if output is not None:
        write_npz(output, outputs)
    rows = [_described(name, value) for name, value in outputs.items()]
    if output_format == "json":
        show.show_json({"outputs": rows} | ({} if measured is None else {"measured": measured}))
        return
    if measured is not None:
        from mcm_compiler.checking.entry.ring_times import chip_table, ring_lines

        show.show_table(ring_lines(measured))
        show.show_table(chip_table(measured["chips"]))
    show.show_table([(row["name"], row["type"], str(row["shape"])) for row in rows])


def _write_page(html: Path, run: PipelinedRun) -> None:
    from mcm_compiler.checking.figures_check import check_stored_figures
    from mcm_compiler.page.compiled_page import compiled_page
    from mcm_compiler.page.contents import Compiled

    note = check_stored_figures(run.opened)
    show.show_diagnostics([note] if note is not None else [])
    show.show_page(html, compiled_page(Compiled(run.opened.report, run.opened, run.data)))


def _write_busy(path: Path, run: PipelinedRun) -> None:
    from mcm_compiler.measuring.busy_times import busy_of
    from mcm_compiler.measuring.measurement import device_of
    from mcm_compiler.measuring.times_files import machine_facts
    from mcm_compiler.processes.staging import write_whole
    from mcm_compiler.text import json_text

    machine = machine_facts(device_of(run.opened.target, "onnxruntime"))
    write_whole(path, json_text.dump(busy_of(run.opened, run.data, machine).to_dict()).encode())
    show.wrote(path)


def _described(name: str, value: Any) -> dict[str, Any]:
    shape = getattr(value, "shape", None)
    if shape is None:
        return {"name": name, "type": type(value).__name__, "shape": None}
    kind = "string" if value.dtype.kind in "OUS" else value.dtype.name
    return {"name": name, "type": kind, "shape": list(shape)}


@verb(("simulate out", "simulate out --inferences 200 --trace run.pftrace"))
def simulate(
    folder: Path = FOLDER,
    inferences: int = asked(
        "whole", "", "Number of inferences, which enter as fast as the package accepts them.",
        64, low=1, high=100_000,
    ),
    trace: Path | None = asked(
        "new file", "", "Write a timeline for https://ui.perfetto.dev, such as run.pftrace."
    ),
    force: bool = FORCE,
    output_format: str = FORMAT,
) -> None:  # fmt: skip
    """Simulate FOLDER from its files alone: throughput, latency, and the activity of each chip.

    File hashes are checked against the manifest first. For a folder of mcmc place, one step is
    simulated, and the critical path of its ops is shown.
    """
    from mcm_compiler.artifact.manifest import other_folder
    from mcm_compiler.checking.entry.run_folder import read_compiled, simulation_data
    from mcm_compiler.components.capabilities import simulator_of
    from mcm_compiler.contracts.target import machine_of
    from mcm_compiler.placements.side_by_side import play_together, side_by_side, simulate_pipelines
    from mcm_compiler.processes.staging import whole_file
    from mcm_compiler.report.perfetto_trace import refuse_large_trace, write_trace

    if (other := other_folder(folder)) is not None:
        data, sentences, rows = other.simulated(folder, trace)
        if output_format == "json":
            show.show_json(data)
        else:
            click.echo("\n".join(sentences))
            show.show_table(rows)
        show.wrote(trace)
        return
    compiled = read_compiled(folder)
    target, program, pipelines = compiled.target, compiled.program, compiled.manifest.replicas
    chips_each = compiled.manifest.chips_each or target.limits.num_chips
    drawn = pipelines
    if play_together(target, pipelines):
        program, drawn = side_by_side(program, pipelines, chips_each, machine_of(target)), 1
    if trace is not None:
        refuse_large_trace(program, inferences)
    simulation = simulate_pipelines(target, compiled.program, inferences, pipelines, chips_each)
    data = simulation_data(simulation, compiled)
    if trace is not None:
        timeline = simulator_of(target).timeline(program, inferences)
        with whole_file(trace) as partial, partial.open("xb") as file:
            write_trace(timeline, file, drawn, chips_each, compiled.manifest.round)
    if output_format == "json":
        show.show_json(data)
    else:
        show.show_simulation(data)
    show.wrote(trace)
