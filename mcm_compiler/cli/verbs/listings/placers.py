"""`mcmc placers`: the ways to search for the placement of a step."""

from __future__ import annotations

from pathlib import Path

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import format_option, load_plugins, plugin_option


@click.command(cls=Verb)
@plugin_option
@format_option()
def command(plugin: tuple[Path, ...], output_format: str) -> None:
    """List the placers for --placer with their options, and the levels of mcmc place for -O."""
    from mcm_compiler.cli.listing import show_searchers
    from mcm_compiler.registry import PLACER_LEVELS, PLACERS

    load_plugins(plugin)
    show_searchers("placers", PLACERS, PLACER_LEVELS, output_format)
