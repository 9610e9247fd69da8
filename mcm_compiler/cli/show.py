"""Writing results to stdout: for people on a terminal, plain in a pipe, bytes as in files.

How a failure reaches the user: diagnostics and an exit code, never a stack trace.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.diagnostics.deprecations import removed_with
from mcm_compiler.processes.foreign_code import DEBUG_VARIABLE, diagnosed, fault_text
from mcm_compiler.processes.interruption import ends_the_command
from mcm_compiler.text.styled import LEAST_TEXT, LEAST_WIDTH, fitted, wrapped
from mcm_compiler.text.units import printable

if TYPE_CHECKING:
    from pathlib import Path

    from mcm_compiler.page.contents import Page
    from mcm_compiler.text.headline import Headline
    from mcm_compiler.text.styled import View


def show_json(data: Any) -> None:
    """Writes JSON with the very bytes that `report.json` has for the same data."""
    from mcm_compiler.text import json_text

    click.echo(json_text.dump(data).encode("utf-8", "backslashreplace"), nl=False)


def show_report(report: Mapping[str, Any], *, full: bool) -> None:
    """Write a report or its verdict alone, in colour if stdout is a terminal."""
    from mcm_compiler.report.terminal import report_view

    show_view(report_view(report, width=view_width(), ascii_only=_ascii_only(), full=full))


def show_next_steps(folder: Path) -> None:
    """Write where the rest of a folder's report is, for people at a terminal."""
    click.echo(f"full report: mcmc report {shlex.quote(printable(str(folder)))} --full", err=True)


def show_simulation(simulation: dict[str, Any]) -> None:
    """Writes what a simulator measured, in colour if stdout is a terminal."""
    from mcm_compiler.report.terminal import simulation_view

    show_view(simulation_view(simulation, width=view_width(), ascii_only=_ascii_only()))


def show_verdict(headline: Headline, tables: Iterable[Sequence[Sequence[str]]] = ()) -> None:
    """Writes a verdict, and tables below it."""
    show_view(headline.view(view_width(), ascii_only=_ascii_only()))
    for rows in tables:
        click.echo()
        show_table(rows)


def show_view(view: View) -> None:
    """Writes a view, in colour if stdout is a terminal."""
    from mcm_compiler.report.terminal import plain_text

    if sys.stdout.isatty():
        from mcm_compiler.text.styled import coloured_lines

        click.echo("\n".join(coloured_lines(view, view_width())))
    else:
        click.echo(plain_text(view, ascii_only=_ascii_only()), nl=False)


def show_table(rows: Sequence[Sequence[str]], *, indent: int = 0) -> None:
    """Writes rows in aligned columns."""
    for lines in table_lines(rows, indent=indent):
        for line in lines:
            click.echo(" " * indent + line)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line per row, with columns aligned and everything escaped that does not print.

    Args:
        rows: cells; each row has the same number.
    """
    return [line for lines in fitted(_printable(rows), None) for line in lines]


def table_lines(rows: Sequence[Sequence[str]], *, indent: int = 0) -> list[list[str]]:
    """The lines of each row: one in a pipe; on a terminal text folds so that numbers are whole.

    Args:
        rows: cells; each row has the same number.
        indent: columns that stand before each line.
    """
    return fitted(_printable(rows), terminal_width(indent))


def beside(head: str, columns: int, text: str) -> list[str]:
    """The lines of a text behind a head: one in a pipe, folded on a terminal.

    Args:
        head: may have colours.
        columns: that the head takes.
        text: all of it prints.
    """
    width = terminal_width()
    if width is None or columns + len(text) <= width:
        return [f"{head}{text}".rstrip()]
    if width - columns >= LEAST_TEXT:
        first, *rest = wrapped(text, width - columns)
        return [f"{head}{first}", *(f"{'':{columns}}{line}" for line in rest)]
    return [head.rstrip(), *(f"  {line}" for line in wrapped(text, width - 2))]


def terminal_width(indent: int = 0) -> int | None:
    """Columns of the terminal behind an indent; None where stdout is none."""
    if not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, LEAST_WIDTH) - indent


def _printable(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[printable(cell) for cell in row] for row in rows]


def view_width() -> int:
    """Columns that a view has: those of the terminal up to a limit, or those of a pipe."""
    from mcm_compiler.report.terminal import MAX_WIDTH, PLAIN_WIDTH

    if not sys.stdout.isatty():
        return PLAIN_WIDTH
    return min(shutil.get_terminal_size().columns, MAX_WIDTH)


def show_timings(timings: tuple[tuple[str, float], ...]) -> None:
    """Prints seconds by stage to stderr."""
    width = max((len(name) for name, _ in timings), default=0)
    for name, seconds in (*timings, ("total", sum(seconds for _, seconds in timings))):
        click.echo(f"{name:<{max(width, 5)}}  {seconds:8.3f} s", err=True)


@contextmanager
def progress_line(quiet: bool = False) -> Generator[Callable[[str], None] | None]:
    """A status line on stderr while the block runs, if stderr is a terminal; gives None else.

    Args:
        quiet: no status line, because the verb itself prints to stderr meanwhile.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with status_line() as say:
        say("starting")
        yield say


@contextmanager
def status_line() -> Generator[Callable[[str], None]]:
    """A line on a terminal's stderr that is written over while the block runs, and taken away."""
    from mcm_compiler.text.styled import NO_CODES, cropped

    if os.environ.get("TERM", "") in NO_CODES:
        yield lambda _text: None
        return

    def say(text: str) -> None:
        shown = cropped(printable(text), max(shutil.get_terminal_size().columns - 1, 1))
        sys.stderr.write(f"\r{shown}\x1b[K")
        sys.stderr.flush()

    try:
        yield say
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def wrote(*paths: object) -> None:
    """Reports files that were written, to stderr.

    Args:
        paths: None for one that was not asked for.
    """
    for path in paths:
        if path is not None:
            click.echo(f"wrote {printable(str(path))}", err=True)


def show_page(path: Path, page: Page) -> None:
    """Writes a page, and reports it."""
    from mcm_compiler.page.contents import page_bytes
    from mcm_compiler.processes.staging import write_whole

    write_whole(path, page_bytes(page))
    wrote(path)


def _ascii_only() -> bool:
    return not (sys.stdout.encoding or "").lower().startswith("utf")


FAILURE_EXIT = 1
USAGE_EXIT = 2

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def failed(error: BaseException, output_format: str | None) -> int:
    """The exit code of a verb that ends with an error, which is reported.

    Raises:
        BaseException: `error` itself, if click handles it or it ends the command.
    """
    if _is_clicks_own(error) or ends_the_command(error):
        raise error
    return report_failure(error, output_format)


def _left_by_foreign_code(leaving: SystemExit) -> Exception:
    """The error that it is when a plug-in or a library ends the program; click has its own way."""
    code = fault_text(leaving).removeprefix("SystemExit").removeprefix(": ")
    return RuntimeError(f"a plug-in or a library called sys.exit({code})")


def report_failure(error: BaseException, output_format: str | None = None) -> int:
    """Print `error` and give the exit code.

    Raises:
        BaseException: `error` itself, if it is an internal one and `MCMC_DEBUG` is set.
    """
    if isinstance(error, SystemExit):
        error = _left_by_foreign_code(error)
    if not isinstance(error, CompileError) and os.environ.get(DEBUG_VARIABLE):
        raise error
    diagnostics = diagnosed(error)
    if output_format == "json":
        click.echo(json.dumps({"diagnostics": [d.to_dict() for d in diagnostics]}, indent=2))
    else:
        show_diagnostics(diagnostics)
    return FAILURE_EXIT


def old_spelling(flag: str, instead: str) -> Diagnostic:
    """MCM-U007, a note.

    Args:
        flag: the option as it was written.
        instead: what to write from now on.
    """
    return Diagnostic(
        "MCM-U007",
        f"{flag} is the old spelling of an option, and is {removed_with('trainer options')}",
        at=f"option {flag}",
        hint=f"write {instead}",
    )


def show_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    """Prints diagnostics to stderr, in colour on a terminal."""
    colour = False if os.environ.get("NO_COLOR") else None
    for diagnostic in diagnostics:
        head, *rest = (printable(line) for line in diagnostic.lines())
        label, _, message = head.partition(": ")
        styled = click.style(label, fg=_COLOURS[diagnostic.severity], bold=True)
        click.echo("\n".join([f"{styled}: {message}", *rest]), err=True, color=colour)


def _is_clicks_own(error: BaseException) -> bool:
    """Return whether click handles `error`: wrong usage, an exit, a reader that left."""
    if isinstance(error, (click.ClickException, click.exceptions.Exit, click.Abort)):
        return True
    return isinstance(error, OSError) and error.errno == errno.EPIPE
