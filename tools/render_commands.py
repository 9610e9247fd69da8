"""Writes docs/reference/commands.md, and the table of options in docs/reference/project-file.md.

Run it after a change of the command line: `python tools/render_commands.py`. With `--check` nothing
is written, and a page that is out of date fails. The pages have every verb with its options, and
every key of a project file that is an option.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from mcm_compiler.cli.main import cli
from mcm_compiler.options import CompileOptions
from mcm_compiler.project.table_reader import option_keys

PATH = Path(__file__).resolve().parents[1] / "docs" / "reference" / "commands.md"
PROJECT = PATH.with_name("project-file.md")
WIDTH = 78
"""Of the help on a terminal of 80 columns."""
HEAD = """\
# Commands

What `mcmc VERB --help` prints, written by `python tools/render_commands.py`. Results go to standard
output, progress and diagnostics to standard error; exit codes are in
[exit codes, files and JSON](automation.md#exit-codes).
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


def with_keys(page: str, record: type = CompileOptions) -> str:
    """The page of project files with the table of the options of a record."""
    rows = [f"| `{key.name}` | {key.rule.words} | {key.summary} |" for key in option_keys(record)]
    head = "| key | value | option |\n|---|---|---|\n"
    before, _, rest = page.partition(head)
    return f"{before}{head}{chr(10).join(rows)}\n\n{rest.partition(chr(10) * 2)[2]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page, or says that it is out of date."""
    parser = argparse.ArgumentParser(description="Writes the page of commands.")
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args(arguments).check
    stale = 0
    for path, text in ((PATH, render()), (PROJECT, with_keys(PROJECT.read_text(encoding="utf-8")))):
        if not check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            print(f"{path.name} is out of date: run python tools/render_commands.py")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
