"""`mcmc check`: proves a compiled folder again, from its files alone."""

from __future__ import annotations

from pathlib import Path

import click

from mcm_compiler.cli.compile_options import progress_line
from mcm_compiler.cli.completed_names import complete_models
from mcm_compiler.cli.failures import FAILURE_EXIT, Verb, show_diagnostics
from mcm_compiler.cli.parameters import (
    FILE,
    MAX_SEED,
    SEED,
    format_option,
    load_plugins,
    plugin_option,
)
from mcm_compiler.cli.show import show_json
from mcm_compiler.text.printable import printable

DEFAULT_SEEDS = 2
"""Random inputs that are compared where the user gives no data."""

_VERDICTS = {"holds": ("ok  ", "green"), "skipped": ("skip", "yellow"), "fails": ("FAIL", "red")}


@click.command(cls=Verb)
@click.argument("folder", type=FILE)
@click.option("--seeds", type=click.IntRange(0), default=None,
              help="Number of random inputs that are compared.  [default: 2, or 0 with own data]",
              )  # fmt: skip
@click.option("--seed", type=SEED, default=0, show_default=True, help="The first seed.")
@click.option("-i", "--input", "inputs", type=FILE, multiple=True,
              help="An .npz file with one array per model input. Repeatable.")  # fmt: skip
@click.option("--test-data", type=FILE, default=None,
              help="A test_data_set_N folder, or the folder of a model that holds such folders; "
              "their outputs are compared too.")  # fmt: skip
@click.option("--model", default=None, shell_complete=complete_models,
              help="The model that FOLDER was compiled from, a file or zoo:NAME: proves the chips "
              "against it instead of against the folder's own copy.")  # fmt: skip
@click.option("--strict", is_flag=True,
              help="Exit with 3 where something could not be checked or proven.")  # fmt: skip
@plugin_option
@format_option()
@click.pass_context
def command(
    ctx: click.Context,
    folder: Path,
    seeds: int | None,
    seed: int,
    inputs: tuple[Path, ...],
    test_data: Path | None,
    model: str | None,
    strict: bool,
    plugin: tuple[Path, ...],
    output_format: str,
) -> None:
    """Check FOLDER: hashes, structure, the ring's rules, memory, and equal outputs in onnxruntime.

    Every op, attribute, weight and wire of the chips is proven against the model, which the folder
    holds a copy of; with --model, against your own.

    Outputs are compared on random inputs, on your own, or on both. Exits with 1 if a step fails,
    and with --strict with 3 if none fails, but something could not be checked or proven.
    """
    from mcm_compiler.checking.check import check_folder
    from mcm_compiler.checking.comparison.user_data import RunData
    from mcm_compiler.cli.npz_files import read_npz
    from mcm_compiler.report.report_data import structure_data, verification_data
    from mcm_compiler.results.strictness import UNPROVEN_EXIT

    load_plugins(plugin)
    own_data = bool(inputs) or test_data is not None
    if seeds is None:
        seeds = 0 if own_data else DEFAULT_SEEDS
    if seeds == 0 and not own_data:
        raise click.BadParameter("0 needs --input or --test-data", param_hint="'--seeds'")
    if seed + seeds - 1 > MAX_SEED:
        raise click.BadParameter(f"the last seed is larger than {MAX_SEED}", param_hint="'--seeds'")
    with progress_line() as progress:
        found = check_folder(
            folder,
            seeds=range(seed, seed + seeds),
            data=[RunData(str(path), read_npz(path)) for path in inputs],
            test_data=test_data,
            model=model,
            progress=progress,
        )
    # Where a step fails, that it was not proven goes without saying.
    open_points = found.unproven if strict and found.holds else ()
    if output_format == "json":
        show_json(
            {
                "holds": found.holds,
                "complete": found.complete,
                "steps": [
                    {"name": s.name, "holds": s.holds, "skipped": s.skipped, "detail": s.detail}
                    for s in found.steps
                ],
                "verification": verification_data(found.verification)
                if found.verification
                else None,
                "structure": structure_data(found.structure) if found.structure else None,
                "diagnostics": [d.to_dict() for d in (*found.diagnostics, *open_points)],
            }
        )
    else:
        width = max((len(step.name) for step in found.steps), default=0)
        for step in found.steps:
            verdict = _VERDICTS["skipped" if step.skipped else "holds" if step.holds else "fails"]
            line = f"{click.style(verdict[0], fg=verdict[1])}  {printable(step.name):<{width}}  "
            click.echo(f"{line}{printable(step.detail)}".rstrip())
        show_diagnostics((*found.diagnostics, *open_points))
        outcome = "holds" if found.holds else "does not hold"
        if found.holds and not found.complete:
            skipped = " and ".join(step.name for step in found.steps if step.skipped)
            outcome = f"holds as far as it was checked: {skipped} was not"
        click.echo(f"{printable(str(folder))} {outcome}")
    if not found.holds:
        ctx.exit(FAILURE_EXIT)
    if open_points:
        ctx.exit(UNPROVEN_EXIT)
