"""Where a build writes: folders and pages of which none may take the place of another."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.page.folder_page import page_path
from mcm_compiler.project.records import ProjectFile
from mcm_compiler.project.table_reader import TableReader

if TYPE_CHECKING:
    from mcm_compiler.project.cells import Cell

INDEX = "index.html"
"""The index of the pages, in the folder of the output folders."""


def refuse_overlapping_folders(project: ProjectFile, reader: TableReader) -> None:
    """MCM-B021 where the cache and the folder of the output folders are not apart.

    A cache below the output is apart where its path begins with a dot there, as no cell's does.

    Args:
        project: what it says of the two, or where it says nothing.
        reader: told of the fault.
    """
    output, cache = (_real(project, name) for name in (project.output, project.cache))
    if output == cache:
        relation = "is the folder of the output folders, too"
    elif output.is_relative_to(cache):
        relation = f"holds the folder of the output folders, {quote(project.output)}"
    elif cache.is_relative_to(output):
        if cache.relative_to(output).parts[0].startswith("."):
            return
        relation = f"lies among the output folders, in {quote(project.output)}"
    else:
        return
    data = project.description.data
    key = "cache" if "cache" in data or "cache" in data.get("defaults", {}) else "output"
    reader.fault(
        "MCM-B021",
        f"the cache {quote(project.cache)} {relation}",
        (key,) if key in data else ("defaults", key),
        "give 'cache' and 'output' folders of which neither lies in the other",
    )


def clashes(project: ProjectFile, cells: Sequence[Cell]) -> list[Diagnostic]:
    """MCM-B021 for each cell whose folder would take the place of something else of the build.

    Args:
        project: the cells belong to.
        cells: all of them, whose folders are apart from each other.

    Returns:
        A diagnostic for each such cell: at the index, at the page of another cell, or in the
        cache. Pages count whether or not this build writes them, so that `--html` decides nothing.
    """
    pages = {_key(PurePosixPath(page_path(Path(cell.folder)))): cell for cell in cells}
    output, cache = (_real(project, name) for name in (project.output, project.cache))
    below = cache.relative_to(output) if cache.is_relative_to(output) else None
    found: list[Diagnostic] = []
    for cell in cells:
        steps = [cell.folder, *cell.folder.parents[:-1]]
        other = next((pages[key] for step in steps if (key := _key(step)) in pages), None)
        if _key(steps[-1]) == INDEX:
            found.append(_clash(cell, f"the index of the pages, {quote(INDEX)}"))
        elif other is not None:
            page = page_path(Path(other.folder)).as_posix()
            found.append(_clash(cell, f"the page of {quote(other.title)}, {quote(page)}"))
        elif below is not None and _key(steps[-1]) == below.parts[0].casefold():
            found.append(_clash(cell, f"the cache, {quote(project.cache)}"))
    return found


def _clash(cell: Cell, what: str) -> Diagnostic:
    return Diagnostic(
        "MCM-B021",
        f"the output folder of {quote(cell.model)} for {quote(cell.target)}, "
        f"{quote(cell.title)}, would take the place of {what}",
        at=cell.place,
        hint="give the model another 'name', or a description of a target another file name",
    )


def _real(project: ProjectFile, folder: str) -> Path:
    return Path(os.path.realpath(project.root / folder))


def _key(folder: PurePosixPath) -> str:
    return str(folder).casefold()
