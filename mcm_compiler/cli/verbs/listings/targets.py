"""`mcmc targets`: the packages of chips and the clusters that the compiler knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.completed_names import names_of
from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import FILE, format_option, load_plugins, plugin_option

if TYPE_CHECKING:
    from pathlib import Path

    from mcm_compiler.components.target_loading import Package
    from mcm_compiler.contracts.boxes.box import Box
    from mcm_compiler.contracts.cluster import Cluster
    from mcm_compiler.contracts.target import PackageLimits


class _VerbWithParts(Verb, click.Group):
    """A verb that does something by itself, and more with a word behind it."""


@click.group(cls=_VerbWithParts, invoke_without_command=True)
@plugin_option
@format_option()
@click.pass_context
def command(ctx: click.Context, plugin: tuple[Path, ...], output_format: str) -> None:
    """List packages of chips and clusters, show all numbers of one, or validate a file.

    A TOML file may stand wherever the name of a package may.
    """
    load_plugins(plugin)
    if ctx.invoked_subcommand is None:
        _list(output_format)
    elif ctx.get_parameter_source("output_format") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError(f"--format belongs behind '{ctx.invoked_subcommand}'.", ctx)


@command.command(cls=Verb, short_help="Show all numbers of a package.")
@click.argument("target", shell_complete=names_of("TARGETS", files=True))
@click.option("--toml", is_flag=True, help="Print the description that the package is made from.")
@plugin_option
@format_option()
def show(target: str, toml: bool, plugin: tuple[Path, ...], output_format: str) -> None:
    """Show all numbers of a package, those that follow from others included."""
    from mcm_compiler.cli.show import show_json
    from mcm_compiler.components.target_loading import load_package

    load_plugins(plugin)
    if toml and output_format == "json":
        raise click.UsageError("--toml and --format json exclude each other.")
    loaded = load_package(target)
    if toml:
        click.echo(loaded.source_text, nl=False)
    elif output_format == "json":
        show_json({**_summary(loaded), "details": loaded.details()})
    else:
        _show_details(loaded)


@command.command(cls=Verb, short_help="Say what is wrong with a description, if anything.")
@click.argument("file", type=FILE)
@plugin_option
@format_option()
def validate(file: Path, plugin: tuple[Path, ...], output_format: str) -> None:
    """Say whether a description is right, or everything that is wrong with it."""
    from mcm_compiler.cli.show import show_json
    from mcm_compiler.components.cost_files import user_files
    from mcm_compiler.components.target_loading import package_from_text
    from mcm_compiler.text.toml_description import read_description
    from mcm_compiler.text.units import printable

    load_plugins(plugin)
    place = str(file)
    beside = user_files(file.parent)
    target = package_from_text(file.stem, read_description(place), place, beside)
    if output_format == "json":
        show_json({"file": place, "valid": True, **_summary(target)})
    else:
        click.echo(printable(f"{place} is valid: {_in_words(target)}"))


def _list(output_format: str) -> None:
    from mcm_compiler.cli.listing import component_rows, show_components
    from mcm_compiler.components.target_loading import load_package
    from mcm_compiler.registry import TARGETS

    def describe(name: str, _component: Any) -> dict[str, Any]:
        return _numbers(load_package(name))

    show_components("targets", component_rows(TARGETS, describe), output_format)


def _numbers(package: Package) -> dict[str, Any]:
    """What the list says of a package of chips, or of a cluster."""
    from dataclasses import asdict

    from mcm_compiler.contracts.boxes.box import BoxTarget
    from mcm_compiler.contracts.cluster import ClusterTarget

    if isinstance(package, BoxTarget):
        return {"summary": package.summary, "box": _box_numbers(package.box)}
    if isinstance(package, ClusterTarget):
        return {"summary": package.summary, "cluster": asdict(package.cluster)}
    limits = package.limits
    return {
        "summary": package.summary,
        "chips": limits.num_chips,
        "sram_bytes": list(limits.sram_bytes),
        "link_bytes_per_s": limits.link_bytes_per_s,
        "hop_latency_s": limits.hop_latency_s,
        "host_io": limits.host_io,
    }


def _summary(package: Package) -> dict[str, Any]:
    from dataclasses import asdict

    from mcm_compiler.contracts.boxes.box import BoxTarget
    from mcm_compiler.contracts.cluster import ClusterTarget

    named = {"name": package.name, "summary": package.summary}
    if isinstance(package, BoxTarget):
        return {**named, "box": _box_numbers(package.box)}
    if isinstance(package, ClusterTarget):
        return {**named, "cluster": asdict(package.cluster)}
    return {**named, "limits": asdict(package.limits)}


def _in_words(package: Package) -> str:
    from mcm_compiler.contracts.boxes.box import BoxTarget
    from mcm_compiler.contracts.cluster import ClusterTarget

    if isinstance(package, BoxTarget):
        return _box_in_words(package.box)
    if isinstance(package, ClusterTarget):
        return _cluster_in_words(package.cluster)
    return _chips_in_words(package.limits)


def _box_numbers(box: Box) -> dict[str, Any]:
    return {
        "devices": list(box.devices),
        "kinds": [box.kinds[kind] for kind in box.kind_of.tolist()],
        "memory_bytes": box.memory_bytes.tolist(),
        "host": box.devices[box.host],
    }


def _box_in_words(box: Box) -> str:
    from collections import Counter

    from mcm_compiler.text.units import bytes_text

    kinds = Counter(
        (box.kinds[kind], memory)
        for kind, memory in zip(box.kind_of.tolist(), box.memory_bytes.tolist(), strict=True)
    )
    return ", ".join(
        f"{count} x {kind} with {bytes_text(memory)} usable"
        for (kind, memory), count in kinds.items()
    )


def _cluster_in_words(cluster: Cluster) -> str:
    from mcm_compiler.text.units import bytes_text

    return ", ".join(
        (
            f"{_counted(cluster.servers, 'server')} of "
            f"{_counted(cluster.devices_per_server, 'device')}",
            f"{bytes_text(cluster.memory_bytes)} usable on each",
            f"{cluster.intra_bytes_per_s / 1e9:g} GB/s inside a server",
            f"{cluster.inter_bytes_per_s / 1e9:g} GB/s between servers",
        )
    )


def _chips_in_words(limits: PackageLimits) -> str:
    from mcm_compiler.text.units import bytes_text

    parts = [_counted(limits.num_chips, "chip")]
    parts.append(f"{bytes_text(sum(limits.sram_bytes))} of SRAM in total")
    parts.append(f"links of {limits.link_bytes_per_s / 1e9:g} GB/s")
    if limits.stream_bytes_per_s:
        parts.append(f"weights streamed at {limits.stream_bytes_per_s / 1e9:g} GB/s")
    for total, what in (
        (limits.host_total_bytes_per_s, "to the host"),
        (limits.stream_total_bytes_per_s, "of streamed weights"),
    ):
        if total:
            parts.append(f"{total / 1e9:g} GB/s {what} for all chips together")
    return ", ".join(parts)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


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
