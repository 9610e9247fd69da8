"""`mcmc zoo`: models to try the compiler on, built rather than downloaded."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from mcm_compiler.cli import parameters
from mcm_compiler.cli.completed_names import names_of
from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.show import beside, show_json, show_table
from mcm_compiler.text.units import printable


@click.command(cls=Verb)
@click.argument("name", required=False, shell_complete=names_of("ZOO"))
@click.option("-o", "--output", type=parameters.FILE, default=None, help="ONNX file to write.")
@click.option("--seed", type=parameters.SEED, default=None, help="Seed of the random weights.")
@click.option("--shape-only", is_flag=True, help="Weights with shapes but no values: a tiny file.")
@parameters.force_option
@parameters.plugin_option
@parameters.format_option()
def command(
    name: str | None,
    output: Path | None,
    seed: int | None,
    shape_only: bool,
    force: bool,
    plugin: tuple[Path, ...],
    output_format: str,
) -> None:
    """List the zoo; show the options of NAME; or write NAME{option=value,...} to a file."""
    parameters.load_plugins(plugin)
    if name is None:
        if output is not None:
            raise click.UsageError("-o needs the name of a model")
        _list(output_format)
    elif output is None:
        _describe(name, output_format)
    else:
        _write(name, output, seed, shape_only, force, output_format)


def _list(output_format: str) -> None:
    from mcm_compiler.cli.listing import component_rows, option_rows, show_components
    from mcm_compiler.registry import ZOO

    def describe(_name: str, cls: Any) -> dict[str, Any]:
        return {"summary": cls.summary, "options": option_rows(cls)}

    rows = component_rows(ZOO, describe)
    show_components("models", rows, output_format, options=False)


def _describe(text: str, output_format: str) -> None:
    from mcm_compiler.cli.listing import option_rows
    from mcm_compiler.registry import ZOO
    from mcm_compiler.text import spec_text

    name = spec_text.parse_one(text).name
    cls = ZOO.get(name)
    with ZOO.at_work(name):
        options, summary = option_rows(cls), str(cls.summary)
    if output_format == "json":
        show_json({"name": name, "summary": summary, "options": options})
        return
    click.echo("\n".join(beside("", 0, f"{name}: {summary}")))
    show_table([(o["name"], o["default"] or "(required)", o["type"]) for o in options], indent=2)


def _write(
    text: str, path: Path, seed: int | None, shape_only: bool, force: bool, output_format: str
) -> None:
    from mcm_compiler.cli.output_files import diagnosed_writes, refuse_existing_model
    from mcm_compiler.contracts.zoo import built
    from mcm_compiler.ir.rewriting.writer import write_model
    from mcm_compiler.registry import ZOO
    from mcm_compiler.text import spec_text

    refuse_existing_model(path, force)
    spec = spec_text.parse_one(text)
    builder = ZOO.made(spec)
    with ZOO.at_work(spec.name):
        if seed is not None:
            builder = dataclasses.replace(builder, seed=seed)
        if shape_only:
            builder = dataclasses.replace(builder, shape_only=True)
        model = built(builder)
    with diagnosed_writes(path):
        write_model(model, path)
    written = spec_text.print_one(spec.name, builder)
    if output_format == "json":
        show_json({"name": written, "file": str(path)})
    else:
        click.echo(f"wrote {written} to {printable(str(path))}", err=True)
