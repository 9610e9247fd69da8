"""`mcmc report`: the stored report of a compiled folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.show import show_diagnostics, show_json, show_page, show_report, show_verdict
from mcm_compiler.cli.verb import FOLDER, FORCE, FULL, PROFILE, form_of_result, verb
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.text.option_fields import asked

if TYPE_CHECKING:
    from mcm_compiler.additions import OtherFolder
    from mcm_compiler.checking.entry.gate import OpenedFolder


@verb(("report out", "report out --full", "report out --html out.html"))
def command(
    folder: Path = FOLDER,
    html: Path | None = asked("new file", "", "Also write the report as a self-contained page."),
    full: bool = FULL,
    profile: str | None = PROFILE,
    force: bool = FORCE,
    output_format: str = form_of_result("markdown"),
) -> None:
    """Show the report of FOLDER after checking its hashes and figures, or of a report.json file."""
    from mcm_compiler.artifact import layout
    from mcm_compiler.artifact.manifest import damaged, other_folder
    from mcm_compiler.artifact.profiles import profile_folder
    from mcm_compiler.page.folder_page import MALFORMED
    from mcm_compiler.report.markdown import render_markdown

    if (other := other_folder(folder)) is not None:
        _show_other(other.opened(folder, True), output_format, html, full)
        return
    given, folder = folder, profile_folder(folder, profile)
    path = folder / layout.REPORT if folder.is_dir() else folder
    report, note, opened = _read(folder)
    try:
        if output_format == "json":
            show_json(report)
        elif output_format == "markdown":
            markdown = render_markdown(report).encode("utf-8", "backslashreplace")
            click.echo(markdown, nl=False)
        else:
            show_report(report, full=full)
        if html is not None:
            from mcm_compiler.page.compiled_page import compiled_page
            from mcm_compiler.page.contents import Compiled

            show_page(html, compiled_page(Compiled(report, opened)))
    except MALFORMED as error:
        reason = f"a field is missing or malformed: {type(error).__name__} {error}"
        raise damaged(path, reason) from error
    if opened is not None and profile is None and (names := opened.manifest.profiles):
        first, *others = names
        text = f"profile {first} of {len(names)}; mcmc report {given} --profile {others[0]}"
        click.echo(f"{text} shows another: {', '.join(others)}", err=True)
    if note is not None:
        show_diagnostics([note])


def _show_other(folder: OtherFolder, output_format: str, html: Path | None, full: bool) -> None:
    """The report of a folder of another verb, whose figures are proven."""
    if output_format == "json":
        show_json(folder.data)
    elif output_format == "markdown":
        click.echo(folder.text, nl=False)
    else:
        show_verdict(folder.headline, folder.tables if full else ())
    if html is not None:
        show_page(html, folder.page())


def _read(path: Path) -> tuple[dict[str, Any], Diagnostic | None, OpenedFolder | None]:
    """The report of a folder whose figures hold, or of a file; what was not checked; the folder."""
    from mcm_compiler.artifact import layout
    from mcm_compiler.artifact.manifest import no_output_folder
    from mcm_compiler.checking.entry.gate import bare_report_note, open_folder, read_report
    from mcm_compiler.checking.figures_check import check_stored_figures

    beside = path if path.is_dir() else path.parent
    if path.is_dir() or (path.name == layout.REPORT and (beside / layout.MANIFEST).exists()):
        opened = open_folder(beside, further=True)
        return opened.report, check_stored_figures(opened), opened
    if not path.exists():
        raise no_output_folder(path)
    return read_report(path), bare_report_note(path), None
