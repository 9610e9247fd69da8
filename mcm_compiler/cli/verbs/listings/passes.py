"""`mcmc passes`: the passes that a pipeline can name."""

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
    """List the passes, their options with defaults, and the distribution they come from."""
    from mcm_compiler.cli.listing import component_rows, option_rows, show_components
    from mcm_compiler.registry import PASSES

    load_plugins(plugin)

    def describe(_name: str, cls: Any) -> dict[str, Any]:
        return {
            "summary": cls.summary,
            "options": option_rows(cls),
            "requires": [key.name for key in cls.requires],
            "uses": [key.name for key in cls.uses],
            "provides": [key.name for key in cls.provides],
            "preserves": [key.name for key in cls.preserves],
            "invalidates": [key.name for key in cls.invalidates],
        }

    show_components("passes", component_rows(PASSES, describe), output_format)
