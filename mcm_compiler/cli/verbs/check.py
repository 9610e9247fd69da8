"""`mcmc check`: proves a compiled folder again, from its files alone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcm_compiler.cli.compile_options import progress_line
from mcm_compiler.cli.completed_names import complete_models
from mcm_compiler.cli.failures import Verb, show_diagnostics
from mcm_compiler.cli.parameters import (
    FILE,
    MAX_SEED,
    SEED,
    format_option,
    load_plugins,
    plugin_option,
)
from mcm_compiler.cli.show import beside, show_json
from mcm_compiler.text.units import printable

if TYPE_CHECKING:
    from mcm_compiler.ci.checks import CheckSettings

DEFAULT_SEEDS = 2
"""Random inputs that are compared where the user gives no data and some op is not proven."""

_VERDICTS = {"holds": ("ok  ", "green"), "skipped": ("skip", "yellow"), "fails": ("FAIL", "red")}


@click.command(cls=Verb)
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True)
@click.option("--seeds", type=click.IntRange(0), default=None,
              help="Number of random inputs that are compared.  [default: 0 with own data; else "
              "1 if every op is proven, 2 if not]",
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
@click.option("--junit", type=FILE, default=None, help="Write a JUnit XML file, too.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True,
              help="Folders that are checked at once.")  # fmt: skip
@plugin_option
@format_option()
@click.pass_context
def command(
    ctx: click.Context,
    folders: tuple[str, ...],
    seeds: int | None,
    seed: int,
    inputs: tuple[Path, ...],
    test_data: Path | None,
    model: str | None,
    strict: bool,
    junit: Path | None,
    jobs: int,
    plugin: tuple[Path, ...],
    output_format: str,
) -> None:
    """Check FOLDER: hashes, structure, the ring's rules, memory, and equal outputs in onnxruntime.

    Every op, attribute, weight and wire of the chips is proven against the model, of which the
    folder holds a copy; with --model, against your own. Of a folder of mcmc place it is the
    segments that are proven, and every field of its files is derived again from model, box and
    placement.

    Outputs are compared on random inputs, on your own, or on both; with --model once under
    onnxruntime's own session options, too. Exits with 1 if a step fails, and with --strict with 3
    if none fails, but something could not be checked or proven.

    Several folders, or one that holds output folders at any depth, are checked one by one, with a
    line each. One that fails does not stop the others.
    """
    from mcm_compiler.ci.checks import CheckSettings, list_folders
    from mcm_compiler.cli.failures import diagnosed
    from mcm_compiler.cli.many_folders import check_many

    load_plugins(plugin)
    own_data = bool(inputs) or test_data is not None
    proven_seeds = 1 if seeds is None else None
    if seeds is None:
        seeds = 0 if own_data else DEFAULT_SEEDS
    if seeds == 0 and not own_data:
        raise click.BadParameter("0 needs --input or --test-data", param_hint="'--seeds'")
    if seed + seeds - 1 > MAX_SEED:
        raise click.BadParameter(f"the last seed is larger than {MAX_SEED}", param_hint="'--seeds'")
    settings = CheckSettings(range(seed, seed + seeds), strict, diagnosed, model, proven_seeds)
    listed = list_folders(folders)
    if len(folders) == 1 and listed == folders:
        code = _check_one(folders[0], settings, inputs, test_data, junit, output_format)
    else:
        if own_data:
            raise click.UsageError("--input and --test-data are for a single folder")
        code = check_many(listed, settings, junit, jobs, plugin, output_format)
    if code:
        ctx.exit(code)


def _check_one(
    folder: str,
    settings: CheckSettings,
    inputs: tuple[Path, ...],
    test_data: Path | None,
    junit: Path | None,
    output_format: str,
) -> int:
    from mcm_compiler.checking.comparison.user_data import RunData
    from mcm_compiler.ci.checks import check_of, exit_code, failure, outcome_of
    from mcm_compiler.cli.many_folders import report
    from mcm_compiler.cli.npz_files import read_npz
    from mcm_compiler.cli.output_files import refuse_inside_output
    from mcm_compiler.processes.staging import refuse_irregular

    if junit is not None:
        refuse_inside_output(junit)
        refuse_irregular(junit)
    start = time.perf_counter()
    try:
        with progress_line() as progress:
            found = check_of(folder, settings.model)(
                seeds=settings.seeds,
                proven_seeds=settings.proven_seeds,
                data=[RunData(str(path), read_npz(path)) for path in inputs],
                test_data=test_data,
                progress=progress,
            )
    except Exception as error:
        seconds = time.perf_counter() - start
        report([failure(folder, settings.diagnose(error), seconds)], junit)
        raise
    outcome = outcome_of(folder, found, settings.strict, time.perf_counter() - start)
    if output_format == "json":
        show_json(outcome.data)
    else:
        width = max((len(step.name) for step in found.steps), default=0)
        for step in found.steps:
            verdict = _VERDICTS["skipped" if step.skipped else "holds" if step.holds else "fails"]
            head = f"{click.style(verdict[0], fg=verdict[1])}  {printable(step.name):<{width}}  "
            for line in beside(head, width + len(verdict[0]) + 4, printable(step.detail)):
                click.echo(line)
        show_diagnostics(outcome.diagnostics)
        text = "holds" if found.holds else "does not hold"
        if found.holds and not found.complete:
            skipped = " and ".join(step.name for step in found.steps if step.skipped)
            text = f"holds as far as it was checked: {skipped} was not"
        click.echo(f"{printable(folder)} {text}")
    report([outcome], junit)
    return exit_code([outcome])
