"""`mcmc zoo`: models to try the compiler on, built rather than downloaded."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from mcm_compiler.cli.show import beside, show_json, show_table
from mcm_compiler.cli.verb import FORCE, FORMAT, argument, verb
from mcm_compiler.text.option_fields import asked
from mcm_compiler.text.units import printable


@verb(("zoo", "zoo resnet50", "zoo 'gpt2{layers=2}' -o gpt2.onnx"))
def command(
    name: str | None = argument(required=False, names="ZOO"),
    output: Path | None = asked("new model", "", "ONNX file to write.", short="-o"),
    seed: int | None = asked("whole", "", "Seed of the random weights.", low=0, high=2**63 - 1),
    shape_only: bool = asked("flag", "", "Write weights without values: a small file."),
    force: bool = FORCE,
    output_format: str = FORMAT,
) -> None:
    """List the models of the zoo, or write one to a file.

    NAME alone shows its options; NAME{option=value,...} -o FILE writes it.
    """
    if name is None:
        if output is not None:
            raise click.UsageError("-o needs the name of a model")
        from mcm_compiler.cli import listing

        listing.show_registry("zoo", "models", output_format, options=False)
    elif output is None:
        _describe(name, output_format)
    else:
        _write(name, output, seed, shape_only, output_format)


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


def _write(text: str, path: Path, seed: int | None, shape_only: bool, output_format: str) -> None:
    from mcm_compiler.cli.output_files import diagnosed_writes
    from mcm_compiler.contracts.zoo import built
    from mcm_compiler.ir.rewriting.writer import write_model
    from mcm_compiler.registry import ZOO
    from mcm_compiler.text import spec_text

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
