"""`mcmc strategies`: the ways to search for a partition."""

from __future__ import annotations

from pathlib import Path

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import format_option, load_plugins, plugin_option


@click.command(cls=Verb)
@plugin_option
@format_option()
def command(plugin: tuple[Path, ...], output_format: str) -> None:
    """List the strategies for --partitioner with their options, and the levels for -O."""
    from mcm_compiler.cli.listing import show_searchers
    from mcm_compiler.registry import LEVELS, STRATEGIES

    load_plugins(plugin)
    show_searchers("strategies", STRATEGIES, LEVELS, output_format)
