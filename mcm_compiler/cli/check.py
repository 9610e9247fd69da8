"""`mcmc check`: proves a compiled folder again, from its files alone."""

from __future__ import annotations

from pathlib import Path

import click

from mcm_compiler.cli.compile_options import progress_line
from mcm_compiler.cli.failures import FAILURE_EXIT, Verb, show_diagnostics
from mcm_compiler.cli.parameters import FILE, MAX_SEED, SEED, format_option
from mcm_compiler.cli.show import show_json
from mcm_compiler.report.printable import printable


@click.command(cls=Verb)
@click.argument("folder", type=FILE)
@click.option("--seeds", type=click.IntRange(1), default=2, show_default=True,
              help="Number of random inputs that are compared.")  # fmt: skip
@click.option("--seed", type=SEED, default=0, show_default=True, help="The first seed.")
@format_option()
@click.pass_context
def command(ctx: click.Context, folder: Path, seeds: int, seed: int, output_format: str) -> None:
    """Check FOLDER: hashes, structure, the ring's rules, memory, and equal outputs in onnxruntime.

    Exits with 1 if a step fails.
    """
    from mcm_compiler.artifact.check import check_folder
    from mcm_compiler.report.report_data import verification_data

    if seed + seeds - 1 > MAX_SEED:
        raise click.BadParameter(f"the last seed is larger than {MAX_SEED}", param_hint="'--seeds'")
    with progress_line() as progress:
        found = check_folder(folder, seeds=range(seed, seed + seeds), progress=progress)
    if output_format == "json":
        show_json(
            {
                "holds": found.holds,
                "steps": [
                    {"name": s.name, "holds": s.holds, "detail": s.detail} for s in found.steps
                ],
                "verification": verification_data(found.verification)
                if found.verification
                else None,
                "diagnostics": [d.to_dict() for d in found.diagnostics],
            }
        )
    else:
        width = max((len(step.name) for step in found.steps), default=0)
        for step in found.steps:
            verdict = ("ok  ", "green") if step.holds else ("FAIL", "red")
            line = f"{click.style(verdict[0], fg=verdict[1])}  {printable(step.name):<{width}}  "
            click.echo(f"{line}{printable(step.detail)}".rstrip())
        show_diagnostics(found.diagnostics)
        outcome = "holds" if found.holds else "does not hold"
        click.echo(f"{printable(str(folder))} {outcome}")
    if not found.holds:
        ctx.exit(FAILURE_EXIT)
