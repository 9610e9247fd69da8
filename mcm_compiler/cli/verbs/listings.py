"""Verbs that list what there is, such as components, targets and diagnostics."""

from __future__ import annotations

import dataclasses
import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from mcm_compiler.cli.shell_scripts import SHELLS, script
from mcm_compiler.cli.show import beside, show_json, show_table
from mcm_compiler.cli.verb import FILE, FORMAT, VerbWithParts, argument, verb
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.text.option_fields import asked
from mcm_compiler.text.units import bytes_text, count_text, printable

if TYPE_CHECKING:
    from mcm_compiler.components.target_loading import Package
    from mcm_compiler.contracts.target import Target


@verb(("costs", "compile model.onnx --target mcm36 --cost-model roofline -o out"))
def costs(output_format: str = FORMAT) -> None:
    """List the cost models for --cost-model, with their options and defaults."""
    from mcm_compiler.cli import listing

    listing.show_registry("cost-model", "cost_models", output_format)


@verb(("passes", "passes --plugin own_pass.py", "opt model.onnx --passes simplify"))
def passes(output_format: str = FORMAT) -> None:
    """List the passes with their options and defaults, and the distribution of each."""
    from mcm_compiler.cli import listing

    def describe(name: str, cls: Any) -> dict[str, Any]:
        keys = ("requires", "uses", "provides", "preserves", "invalidates")
        facts = {kind: [key.name for key in getattr(cls, kind)] for kind in keys}
        return {**listing.described(name, cls), **facts}

    listing.show_registry("pass", "passes", output_format, describe)


@verb(("placers", "place model.onnx --target box-2gpu --placer single -o out"))
def placers(output_format: str = FORMAT) -> None:
    """List the placers for --placer with their options, and the levels for -O."""
    from mcm_compiler.cli import listing

    def effort(row: dict[str, Any]) -> str:
        return f"{row['placer']}, at most {row['placements']:,} placements"

    listing.show_searchers("placers", "placer", output_format, effort)


@verb(("strategies", "compile model.onnx --target mcm36 --partitioner dp -o out"))
def strategies(output_format: str = FORMAT) -> None:
    """List the strategies for --partitioner with their options, and the levels for -O."""
    from mcm_compiler.cli import listing

    listing.show_searchers("strategies", "strategy", output_format)


@verb(("version", "version --format json"), plugins=False)
def version(output_format: str = FORMAT) -> None:
    """Show the versions of the compiler and its dependencies."""
    from mcm_compiler.report.versions import compiled_kernels, versions

    kernels = compiled_kernels()
    if output_format == "json":
        show_json({**versions(), "kernels": kernels})
        return
    rows = [(name, version or "not installed") for name, version in versions().items()]
    show_table([*rows, ("kernels", kernels)])


@verb(("explain MCM-P003", "explain | grep memory"), plugins=False)
def explain(
    code: str | None = argument(required=False, names="CODES"), output_format: str = FORMAT
) -> None:
    """Explain CODE, such as MCM-P003; without CODE, list all codes."""
    entries = catalog()
    if code is None:
        if output_format == "json":
            show_json({"codes": [dataclasses.asdict(entry) for entry in entries.values()]})
        else:
            show_table([(entry.code, entry.title) for entry in entries.values()])
        return
    entry = entries.get(code.upper())
    if entry is None:
        family = [known for known in entries if known[:5] == code[:5].upper()]
        near = difflib.get_close_matches(code.upper(), family or entries, n=3, cutoff=0.7)
        suggested = f"; did you mean {' or '.join(near)}?" if near else ""
        raise CompileError.of(
            "MCM-U023",
            f"unknown diagnostic code {quote(code)}{suggested}",
            hint="`mcmc explain` lists all codes; codes of a plug-in are in its documentation",
        )
    if output_format == "json":
        show_json(dataclasses.asdict(entry))
    else:
        click.echo(f"{entry.code}: {entry.title}\n\n{entry.explanation.strip()}")
        click.echo(f"\nExample: {entry.example}\n\nWhat to do: {entry.remedy}")


@verb(("completion bash > ~/.mcmc-completion",), plugins=False)
def completion(
    shell: str = argument(type=click.Choice(list(SHELLS))), output_format: str = FORMAT
) -> None:
    """Print the script that completes verbs, options and names in a shell.

    \b
    bash   eval "$(mcmc completion bash)"       in ~/.bashrc
    zsh    eval "$(mcmc completion zsh)"        in ~/.zshrc, after compinit
    fish   mcmc completion fish | source        in ~/.config/fish/config.fish

    Components of --plugin files are not completed, because these files are not run.
    """  # noqa: D301
    context = click.get_current_context()
    text = script(shell, context.find_root().command)
    if output_format == "json":
        show_json({"shell": shell, "script": text})
    else:
        click.echo(text, nl=False)


_LISTED = ("sram_bytes", "link_bytes_per_s", "hop_latency_s", "host_io")
"""Limits of a package of chips in the list, besides their number."""


@verb(
    ("targets", "targets show mcm36", "targets show mcm36 --toml", "targets validate mine.toml"),
    kind=VerbWithParts,
    invoke_without_command=True,
)
def targets(output_format: str = FORMAT) -> None:
    """List packages of chips and clusters, show all parameters of one, or validate a file.

    A TOML file is accepted wherever the name of a package is.
    """
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is None:
        _list_targets(output_format)
    elif ctx.get_parameter_source("output_format") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError(f"--format belongs behind '{ctx.invoked_subcommand}'.", ctx)


@verb(("targets show mcm36",), short_help="Show all parameters of a package.")
def show_target(
    target: str = argument(names="TARGETS FILE"),
    toml: bool = asked("flag", "", "Print the TOML description of the package."),
    output_format: str = FORMAT,
) -> None:
    """Show all parameters of a package, including derived ones."""
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
def validate_target(file: Path = argument(type=FILE), output_format: str = FORMAT) -> None:
    """Validate a target description, and list all its errors."""
    from mcm_compiler.components.cost_files import user_files
    from mcm_compiler.components.target_loading import package_from_text
    from mcm_compiler.text.toml_description import read_description

    place = str(file)
    beside = user_files(file.parent)
    target = package_from_text(file.stem, read_description(place), place, beside)
    if output_format == "json":
        show_json({"file": place, "valid": True, **_summary(target)})
    else:
        click.echo(printable(f"{place} is valid: {', '.join(_described(target)[1])}"))


targets.add_command(show_target, "show")
targets.add_command(validate_target, "validate")


def _list_targets(output_format: str) -> None:
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
    from mcm_compiler.additions import other_targets

    if (other := other_targets(package)) is not None:
        return other.numbers(package)
    limits = cast("Target", package).limits
    rates = (
        (limits.stream_bytes_per_s, "weights streamed at {} GB/s"),
        (limits.host_total_bytes_per_s, "{} GB/s to the host for all chips together"),
        (limits.stream_total_bytes_per_s, "{} GB/s of streamed weights for all chips together"),
    )
    return {"limits": dataclasses.asdict(limits)}, [
        count_text(limits.num_chips, "chip"),
        f"{bytes_text(sum(limits.sram_bytes))} of SRAM in total",
        f"links of {limits.link_bytes_per_s / 1e9:g} GB/s",
        *(text.format(f"{rate / 1e9:g}") for rate, text in rates if rate),
    ]


def _show_details(target: Package) -> None:
    click.echo("\n".join(beside("", 0, printable(f"{target.name}: {target.summary}"))))
    for section, values in target.details().items():
        click.echo(f"\n{printable(section)}")
        show_table([(key, _value_text(value)) for key, value in values.items()], indent=2)


def _value_text(value: str | float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value:.6g}"
