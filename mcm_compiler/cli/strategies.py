"""`mcmc strategies`: the ways to search for a partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import format_option, load_plugins, plugin_option


@click.command(cls=Verb)
@plugin_option
@format_option()
def command(plugin: tuple[Path, ...], output_format: str) -> None:
    """List the partition strategies for --partitioner, and their options with defaults."""
    from mcm_compiler.cli.listing import component_rows, option_rows, show_components
    from mcm_compiler.registry import STRATEGIES

    load_plugins(plugin)

    def describe(_name: str, component: Any) -> dict[str, Any]:
        summary = component.summary
        if not isinstance(summary, str):  # a property shows its text on an instance only
            summary = component().summary
        return {"summary": summary, "options": option_rows(component)}

    show_components("strategies", component_rows(STRATEGIES, describe), output_format)
