"""`mcmc opt`: runs passes on a model and prints what they made of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcm_compiler.cli.compile_options import (
    compile_options,
    printable_lines,
    printer_after,
    progress_line,
    show_timings,
)
from mcm_compiler.cli.completed_names import complete_models, names_of
from mcm_compiler.cli.failures import Verb, show_diagnostics
from mcm_compiler.cli.parameters import FILE, force_option, format_option
from mcm_compiler.cli.show import show_json
from mcm_compiler.text.units import printable

if TYPE_CHECKING:
    from mcm_compiler.options import CompileOptions


@click.command(cls=Verb)
@click.argument("model", shell_complete=complete_models)
@click.option("-o", "--output", type=FILE, default=None, help="ONNX file to write, too.")
@force_option
@compile_options
@click.option(
    "--print-after",
    multiple=True,
    shell_complete=names_of("PASSES", "all"),
    help="Print the model after this pass, or 'all'.",
)
@click.option("--timings", is_flag=True, help="Print the seconds of each pass to stderr.")
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
    """Run --passes on MODEL, an ONNX file or zoo:NAME, and print the model as text."""
    from mcm_compiler.api import run_passes
    from mcm_compiler.cli.output_files import diagnosed_writes, refuse_existing_model
    from mcm_compiler.ir.rewriting.printer import print_model
    from mcm_compiler.ir.rewriting.writer import write_model

    if output is not None:
        refuse_existing_model(output, force)
    after_pass = printer_after(print_after, options)
    with progress_line(quiet=after_pass is not None) as progress:
        compiled, diagnostics, spent = run_passes(
            model, target, options, progress=progress, after_pass=after_pass
        )
    text = print_model(compiled)
    if output_format == "json":
        shown = [d.to_dict() for d in diagnostics]
        show_json({"passes": options.passes, "model": text, "diagnostics": shown})
    else:
        show_diagnostics(diagnostics)
        click.echo(printable_lines(text), nl=False)
    if timings:
        show_timings(spent)
    if output is not None:
        with diagnosed_writes(output):
            write_model(compiled, output)
        click.echo(f"wrote {printable(str(output))}", err=True)
