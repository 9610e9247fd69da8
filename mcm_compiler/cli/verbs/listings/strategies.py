"""`mcmc strategies`: the ways to search for a partition."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import format_option, load_plugins, plugin_option


@click.command(cls=Verb)
@plugin_option
@format_option()
def command(plugin: tuple[Path, ...], output_format: str) -> None:
    """List the strategies for --partitioner with their options, and the levels for -O."""
    from mcm_compiler.cli.listing import component_rows, option_rows, show_components
    from mcm_compiler.cli.show import show_json
    from mcm_compiler.registry import LEVELS, STRATEGIES

    load_plugins(plugin)

    def describe(_name: str, component: Any) -> dict[str, Any]:
        summary = component.summary
        if not isinstance(summary, str):  # a property shows its text on an instance only
            summary = component().summary
        return {"summary": summary, "options": option_rows(component)}

    strategies = component_rows(STRATEGIES, describe)
    levels = component_rows(LEVELS, lambda _name, level: dataclasses.asdict(level))
    if output_format == "json":
        show_json({"strategies": strategies, "levels": levels})
        return
    show_components("strategies", strategies, output_format)
    click.echo("\nlevels")
    show_components("levels", [{**row, "name": f"-O{row['name']}"} for row in levels], "text")
