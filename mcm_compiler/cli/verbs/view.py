"""`mcmc view`: the page of an output folder in a browser, which sees new compiles."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click

from mcm_compiler.cli.show import report_failure, show_diagnostics, show_json
from mcm_compiler.cli.verb import FOLDER, FORMAT, verb
from mcm_compiler.processes.interruption import heeded
from mcm_compiler.text.option_fields import asked
from mcm_compiler.text.units import printable


@verb(("view out --open", "view out --port 8000"))
def command(
    folder: Path = FOLDER,
    port: int | None = asked("whole", "", "Port.", low=0, high=65535, shown="a free one"),
    open_browser: bool = asked(
        "flag", "", "Open the page in the local browser.", default=False, flag="--open"
    ),
    output_format: str = FORMAT,
) -> None:
    """Serve the report page of FOLDER to local browsers; new compiles appear at once.

    Prints the address, and runs until Ctrl-C. Hashes and figures of the folder are checked, as by
    `mcmc report`.
    """
    from mcm_compiler.viewing.page_server import PageServer, WatchedPage

    page = WatchedPage(folder.absolute())
    with _ends_asked_for() as asked, PageServer(page, port or 0, report_failure) as server:
        note = page.look().note
        if note is not None:
            show_diagnostics([note])
        if output_format == "json":
            show_json({"address": server.address, "folder": str(folder)})
        else:
            click.echo(server.address)
        click.echo(f"shows {printable(str(folder))} and every new compile of it; Ctrl-C ends",
                   err=True)  # fmt: skip
        if open_browser:
            _open(server.address)
        server.serve_until(lambda: bool(asked))
    click.echo("ended", err=True)


def _open(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        click.echo("no browser was found here; open the address yourself", err=True)


@contextmanager
def _ends_asked_for() -> Generator[list[int]]:
    """Signals that have asked this process to end: for a server that is how it ends well.

    The handler does nothing else, so that no request is left amid an answer.
    """
    asked: list[int] = []
    numbers = heeded()
    before = [signal.signal(number, lambda came, _frame: asked.append(came)) for number in numbers]
    try:
        yield asked
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
