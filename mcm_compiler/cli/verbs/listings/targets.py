"""`mcmc targets`: the packages of chips and the clusters that the compiler knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from mcm_compiler.cli.verb import FILE, FORMAT, VerbWithParts, argument, verb
from mcm_compiler.text.option_fields import asked

if TYPE_CHECKING:
    from pathlib import Path

    from mcm_compiler.components.target_loading import Package
    from mcm_compiler.contracts.target import Target


_LISTED = ("sram_bytes", "link_bytes_per_s", "hop_latency_s", "host_io")
"""Limits of a package of chips in the list, besides their number."""


@verb(
    ("targets", "targets show mcm36", "targets show mcm36 --toml", "targets validate mine.toml"),
    kind=VerbWithParts,
    invoke_without_command=True,
)
def command(output_format: str = FORMAT) -> None:
    """List packages of chips and clusters, show all parameters of one, or validate a file.

    A TOML file is accepted wherever the name of a package is.
    """
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is None:
        _list(output_format)
    elif ctx.get_parameter_source("output_format") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError(f"--format belongs behind '{ctx.invoked_subcommand}'.", ctx)


@verb(("targets show mcm36",), short_help="Show all parameters of a package.")
def show(
    target: str = argument(names="TARGETS FILE"),
    toml: bool = asked("flag", "", "Print the TOML description of the package."),
    output_format: str = FORMAT,
) -> None:
    """Show all parameters of a package, including derived ones."""
    from mcm_compiler.cli.show import show_json
    from mcm_compiler.components.target_loading import load_package

    if toml and output_format == "json":
        raise click.UsageError("--toml and --format json exclude each other.")
    loaded = load_package(target)
    if toml:
        click.echo(loaded.source_text, nl=False)
    elif output_format == "json":
        show_json({**_summary(loaded), "details": loaded.details()})
    else:
        _show_details(loaded)


@verb(("targets validate mine.toml",), short_help="Validate a target description.")
def validate(file: Path = argument(type=FILE), output_format: str = FORMAT) -> None:
    """Validate a target description, and list all its errors."""
    from mcm_compiler.cli.show import show_json
    from mcm_compiler.components.cost_files import user_files
    from mcm_compiler.components.target_loading import package_from_text
    from mcm_compiler.text.toml_description import read_description
    from mcm_compiler.text.units import printable

    place = str(file)
    beside = user_files(file.parent)
    target = package_from_text(file.stem, read_description(place), place, beside)
    if output_format == "json":
        show_json({"file": place, "valid": True, **_summary(target)})
    else:
        click.echo(printable(f"{place} is valid: {', '.join(_described(target)[1])}"))


command.add_command(show, "show")
command.add_command(validate, "validate")


def _list(output_format: str) -> None:
    from mcm_compiler.cli import listing
    from mcm_compiler.components.target_loading import load_package

    def describe(name: str, _component: Any) -> dict[str, Any]:
        package = load_package(name)
        numbers = _described(package)[0]
        if (limits := numbers.pop("limits", None)) is not None:
            numbers = {"chips": limits["num_chips"], **{key: limits[key] for key in _LISTED}}
            numbers["sram_bytes"] = list(limits["sram_bytes"])
        return {"summary": package.summary, **numbers}

    listing.show_registry("target", "targets", output_format, describe)


def _summary(package: Package) -> dict[str, Any]:
    return {"name": package.name, "summary": package.summary, **_described(package)[0]}


def _described(package: Package) -> tuple[dict[str, Any], list[str]]:
    """The numbers of a target that do not follow from others, and words."""
    from dataclasses import asdict

    from mcm_compiler.additions import other_targets
    from mcm_compiler.text.units import bytes_text, count_text

    if (other := other_targets(package)) is not None:
        return other.numbers(package)
    limits = cast("Target", package).limits
    rates = (
        (limits.stream_bytes_per_s, "weights streamed at {} GB/s"),
        (limits.host_total_bytes_per_s, "{} GB/s to the host for all chips together"),
        (limits.stream_total_bytes_per_s, "{} GB/s of streamed weights for all chips together"),
    )
    return {"limits": asdict(limits)}, [
        count_text(limits.num_chips, "chip"),
        f"{bytes_text(sum(limits.sram_bytes))} of SRAM in total",
        f"links of {limits.link_bytes_per_s / 1e9:g} GB/s",
        *(text.format(f"{rate / 1e9:g}") for rate, text in rates if rate),
    ]


def _show_details(target: Package) -> None:
    from mcm_compiler.cli.show import beside, show_table
    from mcm_compiler.text.units import printable

    click.echo("\n".join(beside("", 0, printable(f"{target.name}: {target.summary}"))))
    for section, values in target.details().items():
        click.echo(f"\n{printable(section)}")
        show_table([(key, _value_text(value)) for key, value in values.items()], indent=2)


def _value_text(value: str | float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value:.6g}"
