"""`mcmc new`: a plug-in to begin from, with tests that pass."""

from __future__ import annotations

from pathlib import Path

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import FILE, format_option
from mcm_compiler.cli.show import show_json
from mcm_compiler.text.units import printable

KINDS = ("pass", "strategy", "target", "cost-model")


@click.command(cls=Verb)
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option("-o", "--output", type=FILE, default=None, help="Folder to write (NAME).")
@format_option()
def command(kind: str, name: str, output: Path | None, output_format: str) -> None:
    """Write a plug-in to begin from: a distribution with a KIND named NAME, and its tests.

    The folder holds pyproject.toml with the entry point, a package with the component, tests and
    a README. `pip install -e FOLDER` makes the component known.
    """
    from mcm_compiler.cli.new_plugin import write_plugin

    folder = output if output is not None else Path(name)
    files = write_plugin(kind, name, folder)
    if output_format == "json":
        show_json({"kind": kind, "name": name, "folder": str(folder), "files": files})
        return
    shown = printable(str(folder))
    for file in files:
        click.echo(f"{shown}/{file}")
    click.echo(f"try it: pip install -e '{shown}[test]' && pytest {shown}", err=True)
