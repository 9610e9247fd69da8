"""Writes docs/reference/commands.md: every verb of the command line with its options.

Run it after a change of the command line: `python tools/render_commands.py`. With `--check` nothing
is written, and a page that is out of date fails.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page, or says that it is out of date."""
    parser = argparse.ArgumentParser(description="Writes the page of commands.")
    parser.add_argument("--check", action="store_true", help="write nothing")
    if not parser.parse_args(arguments).check:
        PATH.write_text(render(), encoding="utf-8")
        return 0
    if PATH.read_text(encoding="utf-8") == render():
        return 0
    print("docs/reference/commands.md is out of date: run python tools/render_commands.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
