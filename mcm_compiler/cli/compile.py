"""`mcmc compile`: an ONNX model in, a folder with one ONNX model per chip out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcm_compiler.cli.compile_options import (
    compile_options,
    printer_after,
    progress_line,
    show_timings,
)
from mcm_compiler.cli.failures import Verb, show_diagnostics
from mcm_compiler.cli.parameters import FILE, force_option, format_option
from mcm_compiler.cli.show import show_json, show_report
from mcm_compiler.report.printable import printable

if TYPE_CHECKING:
    from mcm_compiler.options import CompileOptions

ZOO_PREFIX = "zoo:"


@click.command(cls=Verb)
@click.argument("model")
@click.option("-o", "--output", type=FILE, default=None, help="Folder to write (MODEL.TARGET).")
@force_option
@compile_options
@click.option("--print-after", multiple=True, help="Print the model after this pass, or 'all'.")
@click.option("--timings", is_flag=True, help="Print the seconds of each stage to stderr.")
@format_option()
def command(
    model: str,
    target: str,
    output: Path | None,
    force: bool,
    options: CompileOptions,
    print_after: tuple[str, ...],
    timings: bool,
    output_format: str,
) -> None:
    """Compile MODEL, an ONNX file or zoo:NAME, for a package of chips.

    Writes a folder with one ONNX model per chip, a manifest and a report, whole or not at all,
    and prints the report.
    """
    from mcm_compiler.api import compile_model
    from mcm_compiler.report.report_data import build_report

    folder = output if output is not None else default_folder(model, target)
    after_pass = printer_after(print_after, options)
    with progress_line(quiet=after_pass is not None) as progress:
        result = compile_model(
            model,
            target,
            options,
            output=folder,
            force=force,
            progress=progress,
            after_pass=after_pass,
        )
    show_diagnostics(result.diagnostics)
    report = build_report(result)
    if output_format == "json":
        show_json(report)
    else:
        show_report(report)
    if timings:
        show_timings(result.timings)
    click.echo(f"wrote {printable(str(folder))}", err=True)


def default_folder(model: str, target: str) -> Path:
    """`resnet50.mcm36` for `models/resnet50.onnx` or `zoo:resnet50{seed=1}`, here."""
    if model.startswith(ZOO_PREFIX):
        stem = model.removeprefix(ZOO_PREFIX).partition("{")[0].strip() or "zoo"
    else:
        stem = Path(model).stem or "model"
    package = Path(target).stem if target.endswith(".toml") else Path(target).name
    return Path(f"{stem}.{package}")
