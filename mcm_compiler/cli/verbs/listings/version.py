"""`mcmc version`: what a result depends on, and whether kernels came compiled."""

from __future__ import annotations

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import format_option
from mcm_compiler.cli.show import show_json, show_table


@click.command(cls=Verb)
@format_option()
def command(output_format: str) -> None:
    """Show the versions of the compiler and of what it runs on."""
    from mcm_compiler.report.versions import compiled_kernels, versions

    kernels = compiled_kernels()
    if output_format == "json":
        show_json({**versions(), "kernels": kernels})
        return
    rows = [(name, version or "not installed") for name, version in versions().items()]
    show_table([*rows, ("kernels", kernels)])
