"""`mcmc run`: the chips of a compiled folder on the user's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.show import show_diagnostics, show_json, show_page, show_table, wrote
from mcm_compiler.cli.verb import FOLDER, FORCE, FORMAT, PROFILE, verb
from mcm_compiler.text.option_fields import asked

if TYPE_CHECKING:
    from mcm_compiler.checking.entry.run_pipelined import PipelinedRun


@verb(
    (
        "run out -i sample.npz -o outputs.npz",
        "run decoder -i tokens.npz --steps 8 -o outputs.npz",
        "run out --pipelined --html measured.html",
    ),
    plugins=False,
)
def command(
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

        run = run_pipelined(
            source, inputs, steps, before, inferences=inferences, scheduler=scheduler
        )
        show_diagnostics(run.notes)
        outputs, measured = run.outputs, run.data
        if write_busy is not None:
            _write_busy(write_busy, run)
        if html is not None:
            _write_page(html, run)
    else:
        outputs = run_folder(source, inputs or {}, steps, before)
    if output is not None:
        write_npz(output, outputs)
    rows = [_described(name, value) for name, value in outputs.items()]
    if output_format == "json":
        show_json({"outputs": rows} | ({} if measured is None else {"measured": measured}))
        return
    if measured is not None:
        from mcm_compiler.checking.entry.ring_times import chip_table, ring_lines

        show_table(ring_lines(measured))
        show_table(chip_table(measured["chips"]))
    show_table([(row["name"], row["type"], str(row["shape"])) for row in rows])


def _write_page(html: Path, run: PipelinedRun) -> None:
    from mcm_compiler.checking.figures_check import check_stored_figures
    from mcm_compiler.page.compiled_page import compiled_page
    from mcm_compiler.page.contents import Compiled

    note = check_stored_figures(run.opened)
    show_diagnostics([note] if note is not None else [])
    show_page(html, compiled_page(Compiled(run.opened.report, run.opened, run.data)))


def _write_busy(path: Path, run: PipelinedRun) -> None:
    from mcm_compiler.measuring.busy_times import busy_of
    from mcm_compiler.measuring.measurement import device_of
    from mcm_compiler.measuring.times_files import machine_facts
    from mcm_compiler.processes.staging import write_whole
    from mcm_compiler.text import json_text

    machine = machine_facts(device_of(run.opened.target, "onnxruntime"))
    write_whole(path, json_text.dump(busy_of(run.opened, run.data, machine).to_dict()).encode())
    wrote(path)


def _described(name: str, value: Any) -> dict[str, Any]:
    shape = getattr(value, "shape", None)
    if shape is None:
        return {"name": name, "type": type(value).__name__, "shape": None}
    kind = "string" if value.dtype.kind in "OUS" else value.dtype.name
    return {"name": name, "type": kind, "shape": list(shape)}
