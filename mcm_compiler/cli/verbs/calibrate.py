"""`mcmc calibrate`: the numbers of a target from measured times of kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcm_compiler.cli.verb import FILE, FORCE, FORMAT, argument, verb
from mcm_compiler.text.option_fields import asked

if TYPE_CHECKING:
    from mcm_compiler.measuring.calibrated_target import CalibratedTarget


@verb(("calibrate out -o machine.toml", "calibrate bert resnet -o machine.toml"))
def command(
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
    from mcm_compiler.cli.show import show_diagnostics, show_json, wrote
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
        _show(found)
    wrote(output)
    if learned is not None and learned.is_better:
        wrote(kernels)


def _show(found: CalibratedTarget) -> None:
    from mcm_compiler.cli.show import show_table
    from mcm_compiler.text.units import count_text, percent_text

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
