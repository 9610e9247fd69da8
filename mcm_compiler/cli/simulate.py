"""`mcmc simulate`: the program of a compiled folder on the simulator of its target."""

from __future__ import annotations

from pathlib import Path

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import FILE, format_option
from mcm_compiler.cli.show import show_json, show_simulation


@click.command(cls=Verb)
@click.argument("folder", type=FILE)
@click.option(
    "--inferences", type=click.IntRange(1, 100_000), default=64, show_default=True,
    help="Inferences that enter as fast as the package takes them.",
)  # fmt: skip
@format_option()
def command(folder: Path, inferences: int, output_format: str) -> None:
    """Simulate FOLDER from its files alone: throughput, latency, and what each chip does."""
    from mcm_compiler.artifact.simulate import folder_program, simulate_folder
    from mcm_compiler.report.activity import chip_rows, link_rows
    from mcm_compiler.report.bottleneck import find_bottleneck

    simulation = simulate_folder(folder, inferences)
    program = folder_program(folder)
    period_s = simulation.period_s
    data = {
        "simulator": simulation.simulator,
        "inferences": simulation.inferences,
        "throughput_per_s": 1.0 / period_s if period_s > 0 else None,
        "period_s": period_s,
        "latency_s": simulation.latency_s,
        "bottleneck": find_bottleneck(simulation, program),
        "chips": chip_rows(simulation, program, {}, None),
        "links": link_rows(simulation),
    }
    if output_format == "json":
        show_json(data)
    else:
        show_simulation(data)
