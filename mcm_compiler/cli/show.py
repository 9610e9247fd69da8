"""Writing results to stdout: for people on a terminal, plain in a pipe, bytes as in files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.text.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType


def show_json(data: Any) -> None:
    """Writes JSON with the very bytes that `report.json` has for the same data."""
    from mcm_compiler.text import json_text

    click.echo(json_text.dump(data).encode("utf-8", "backslashreplace"), nl=False)


def show_report(report: Mapping[str, Any]) -> None:
    """Writes a report, in colour if stdout is a terminal."""
    from mcm_compiler.report.terminal import report_view

    show_view(report_view(report, width=_width(), ascii_only=_ascii_only()))


def show_simulation(simulation: dict[str, Any]) -> None:
    """Writes what a simulator measured, in colour if stdout is a terminal."""
    from mcm_compiler.report.terminal import simulation_view

    show_view(simulation_view(simulation, width=_width(), ascii_only=_ascii_only()))


def show_view(view: RenderableType) -> None:
    """Writes a `rich` renderable, in colour if stdout is a terminal."""
    from mcm_compiler.report.terminal import plain_text

    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(view, width=_width())
    else:
        click.echo(plain_text(view, ascii_only=_ascii_only()), nl=False)


def show_table(rows: Sequence[Sequence[str]], *, indent: int = 0) -> None:
    """Writes rows in aligned columns."""
    for line in aligned(rows):
        click.echo(" " * indent + line)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line per row, with columns aligned and everything escaped that does not print.

    Args:
        rows: cells; each row has the same number.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]


def _width() -> int:
    from mcm_compiler.report.terminal import MAX_WIDTH, PLAIN_WIDTH

    if not sys.stdout.isatty():
        return PLAIN_WIDTH
    from rich.console import Console

    return min(Console().width, MAX_WIDTH)


def _ascii_only() -> bool:
    return not (sys.stdout.encoding or "").lower().startswith("utf")
