"""The page of a folder, and where it is written when a compile writes it."""

from __future__ import annotations

from pathlib import Path

from mcm_compiler.artifact import layout, manifest
from mcm_compiler.checking.entry.gate import OpenedFolder, fields_of, open_folder
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.page.compiled_page import compiled_page
from mcm_compiler.page.contents import Compiled, page_bytes
from mcm_compiler.processes.staging import write_whole


def write_page_beside(folder: Path) -> Path:
    """Writes the page of a folder that was written just now next to it; returns its path.

    Raises:
        CompileError: as `written_folder_page`, and MCM-A002, MCM-U050 if it cannot be written.
    """
    path = layout.page_path(folder)
    write_whole(path, written_folder_page(folder))
    return path


def written_folder_page(folder: Path) -> bytes:
    """The page of a folder that was written just now: its hashes are not compared again.

    Raises:
        CompileError: MCM-A004, MCM-A005 if it cannot be read.
    """
    if (other := manifest.other_folder(folder)) is not None:
        return page_bytes(other.opened(folder, False).page())
    opened = OpenedFolder(folder, manifest.read_manifest(folder))
    return page_bytes(compiled_page(Compiled(opened.report, opened)))


def checked_folder_page(folder: Path) -> tuple[bytes, Diagnostic | None]:
    """The page of a folder of anybody, whose hashes and figures are checked as by `mcmc report`.

    Returns:
        The page, and what was not checked, as from `check_stored_figures`.

    Raises:
        CompileError: as `open_folder` and `check_stored_figures`, or as the checks of placements.
    """
    if (other := manifest.other_folder(folder)) is not None:
        return page_bytes(other.opened(folder, True).page()), None
    from mcm_compiler.checking.figures_check import check_stored_figures

    opened = open_folder(folder, further=True)
    note = check_stored_figures(opened)
    with fields_of(folder / layout.REPORT):
        return page_bytes(compiled_page(Compiled(opened.report, opened))), note
