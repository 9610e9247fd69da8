"""`mcmc opt`: runs passes on a model and prints what they made of it."""

from __future__ import annotations

from pathlib import Path

import click

from mcm_compiler.cli import compile_options
from mcm_compiler.cli.show import progress_line, show_diagnostics, show_json, show_timings, wrote
from mcm_compiler.cli.verb import FORCE, FORMAT, MODEL, TARGET, verb
from mcm_compiler.options import CompileOptions
from mcm_compiler.text.option_fields import asked


@verb(("opt zoo:resnet50 --passes simplify,fuse", "opt model.onnx --passes simplify -o new.onnx"))
def command(
    model: str = MODEL,
    output: Path | None = asked("new model", "", "Also write an ONNX file.", short="-o"),
    force: bool = FORCE,
    target: str = TARGET,
    options: CompileOptions = compile_options.compile_options(),
    print_after: tuple[str, ...] = compile_options.PRINT_AFTER,
    timings: bool = asked("flag", "", "Print the time of each pass to stderr."),
    output_format: str = FORMAT,
) -> None:
    """Run --passes on MODEL, an ONNX file or zoo:NAME, and print the model as text."""
    from mcm_compiler.api import run_passes
    from mcm_compiler.cli.output_files import diagnosed_writes
    from mcm_compiler.ir.rewriting.printer import print_model
    from mcm_compiler.ir.rewriting.writer import write_model

    after_pass = compile_options.printer_after(print_after, options)
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
        click.echo(compile_options.printable_lines(text), nl=False)
    if timings:
        show_timings(spent)
    if output is not None:
        with diagnosed_writes(output):
            write_model(compiled, output)
        wrote(output)
