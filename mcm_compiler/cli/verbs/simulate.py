"""`mcmc simulate`: the program of a compiled folder on the simulator of its target."""

from __future__ import annotations

from pathlib import Path

import click

from mcm_compiler.cli.show import show_json, show_simulation, show_table, wrote
from mcm_compiler.cli.verb import FOLDER, FORCE, FORMAT, verb
from mcm_compiler.text.option_fields import asked


@verb(("simulate out", "simulate out --inferences 200 --trace run.pftrace"))
def command(
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
            show_json(data)
        else:
            click.echo("\n".join(sentences))
            show_table(rows)
        wrote(trace)
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
        show_json(data)
    else:
        show_simulation(data)
    wrote(trace)
