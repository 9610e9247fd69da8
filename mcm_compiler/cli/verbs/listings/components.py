"""`mcmc costs`, `passes`, `placers`, `strategies`, `version` and `explain`: lists and entries."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

import click

from mcm_compiler.cli.show import show_json, show_table
from mcm_compiler.cli.verb import FORMAT, argument, verb


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
    from mcm_compiler.diagnostics import CompileError, quote
    from mcm_compiler.diagnostics.catalog import catalog

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
