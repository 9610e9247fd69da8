"""`mcmc costs`: where the times of ops come from."""

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
    """List the cost models for --cost-model, and their options with defaults."""
    from mcm_compiler.cli.listing import component_rows, option_rows, show_components
    from mcm_compiler.registry import COST_MODELS

    load_plugins(plugin)

    def describe(_name: str, component: Any) -> dict[str, Any]:
        return {"summary": component.summary, "options": option_rows(component)}

    show_components("cost_models", component_rows(COST_MODELS, describe), output_format)
