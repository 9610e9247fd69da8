"""`mcmc targets`: the packages of chips that models can be compiled for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import FILE, format_option

if TYPE_CHECKING:
    from pathlib import Path

    from mcm_compiler.target import Target


class _VerbWithParts(Verb, click.Group):
    """A verb that does something by itself, and more with a word behind it."""


@click.group(cls=_VerbWithParts, invoke_without_command=True)
@format_option()
@click.pass_context
def command(ctx: click.Context, output_format: str) -> None:
    """List the packages of chips, show all numbers of one, or validate a file.

    A TOML file may stand wherever the name of a package may.
    """
    if ctx.invoked_subcommand is None:
        _list(output_format)
    elif ctx.get_parameter_source("output_format") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError(f"--format belongs behind '{ctx.invoked_subcommand}'.", ctx)


@command.command(cls=Verb, short_help="Show all numbers of a package.")
@click.argument("target")
@click.option("--toml", is_flag=True, help="Print the description that the package is made from.")
@format_option()
def show(target: str, toml: bool, output_format: str) -> None:
    """Show all numbers of a package, those that follow from others included."""
    from mcm_compiler.cli.show import show_json
    from mcm_compiler.target_loading import load_target

    if toml and output_format == "json":
        raise click.UsageError("--toml and --format json exclude each other.")
    loaded = load_target(target)
    if toml:
        click.echo(loaded.source_text, nl=False)
    elif output_format == "json":
        show_json({**_summary(loaded), "details": loaded.details()})
    else:
        _show_details(loaded)


@command.command(cls=Verb, short_help="Say what is wrong with a description, if anything.")
@click.argument("file", type=FILE)
@format_option()
def validate(file: Path, output_format: str) -> None:
    """Say whether a description is right, or everything that is wrong with it."""
    from mcm_compiler.cli.show import show_json
    from mcm_compiler.report.printable import printable
    from mcm_compiler.target_loading import target_from_text
    from mcm_compiler.toml_description import read_description

    place = str(file)
    target = target_from_text(file.stem, read_description(place), place=place)
    if output_format == "json":
        show_json({"file": place, "valid": True, **_summary(target)})
    else:
        click.echo(printable(f"{place} is valid: {_in_words(target)}"))


def _list(output_format: str) -> None:
    from mcm_compiler.cli.listing import component_rows, show_components
    from mcm_compiler.registry import TARGETS
    from mcm_compiler.target_loading import load_target

    def describe(name: str, _component: Any) -> dict[str, Any]:
        target = load_target(name)
        limits = target.limits
        return {
            "summary": target.summary,
            "chips": limits.num_chips,
            "sram_bytes": list(limits.sram_bytes),
            "link_bytes_per_s": limits.link_bytes_per_s,
            "hop_latency_s": limits.hop_latency_s,
            "host_io": limits.host_io,
        }

    show_components("targets", component_rows(TARGETS, describe), output_format)


def _summary(target: Target) -> dict[str, Any]:
    from dataclasses import asdict

    return {"name": target.name, "summary": target.summary, "limits": asdict(target.limits)}


def _in_words(target: Target) -> str:
    from mcm_compiler.units import bytes_text

    limits = target.limits
    parts = [f"{limits.num_chips} chip{'s' if limits.num_chips != 1 else ''}"]
    parts.append(f"{bytes_text(sum(limits.sram_bytes))} of SRAM in total")
    parts.append(f"links of {limits.link_bytes_per_s / 1e9:g} GB/s")
    if limits.stream_bytes_per_s:
        parts.append(f"weights streamed at {limits.stream_bytes_per_s / 1e9:g} GB/s")
    return ", ".join(parts)


def _show_details(target: Target) -> None:
    from mcm_compiler.cli.show import show_table
    from mcm_compiler.report.printable import printable

    click.echo(printable(f"{target.name}: {target.summary}"))
    for section, values in target.details().items():
        click.echo(f"\n{printable(section)}")
        show_table([(key, _value_text(value)) for key, value in values.items()], indent=2)


def _value_text(value: str | float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value:.6g}"
