"""`mcmc report`: the stored report of a compiled folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import FILE, format_option
from mcm_compiler.cli.show import show_json, show_report

_MALFORMED = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""What rendering raises where a stored report is not of the published schema."""


@click.command(cls=Verb)
@click.argument("folder", type=FILE)
@format_option("markdown")
def command(folder: Path, output_format: str) -> None:
    """Show the report of FOLDER, or of a report.json file."""
    from mcm_compiler.artifact import layout
    from mcm_compiler.artifact.manifest import damaged
    from mcm_compiler.report.markdown import render_markdown

    path = folder / layout.REPORT if folder.is_dir() else folder
    report = _read(path)
    try:
        if output_format == "json":
            show_json(report)
        elif output_format == "markdown":
            markdown = render_markdown(report).encode("utf-8", "backslashreplace")
            click.echo(markdown, nl=False)
        else:
            show_report(report)
    except _MALFORMED as error:
        reason = f"a field is missing or malformed: {type(error).__name__} {error}"
        raise damaged(path, reason) from error


def _read(path: Path) -> dict[str, Any]:
    from mcm_compiler.artifact.manifest import damaged, read_json
    from mcm_compiler.report.report_data import SCHEMA_VERSION

    report = dict(read_json(path))
    version = report.get("schema_version")
    if version != SCHEMA_VERSION:
        raise damaged(path, f"its schema version is {version!r}, not {SCHEMA_VERSION}")
    return report
