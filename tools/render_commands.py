"""Writes docs/reference/commands.md: every verb of the command line with its options.

Run it after a change of the command line: `python tools/render_commands.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from mcm_compiler.cli.main import cli

PATH = Path(__file__).resolve().parents[1] / "docs" / "reference" / "commands.md"
WIDTH = 90
HEAD = """\
# Commands

What `mcmc VERB --help` prints, written by `python tools/render_commands.py`. Results go to standard
output, progress and diagnostics to standard error; exit codes stand in
[continuous integration](../how-to/ci.md#exit-codes).
"""


def render() -> str:
    """The page: the verbs in the order of `mcmc --help`, and below each the verbs that it has."""
    lines = [HEAD]
    for words, command in _commands(("mcmc",), cli):
        context = click.Context(command, info_name=" ".join(words), terminal_width=WIDTH)
        text = command.get_help(context)
        lines += [f"{'#' * len(words)}# `{' '.join(words)}`", "", "```", text, "```", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _commands(
    words: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            verb = command.get_command(context, name)
            if verb is not None:
                yield from _commands((*words, name), verb)


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
