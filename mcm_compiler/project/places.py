"""Where a build writes: folders and pages of which none may take the place of another."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from mcm_compiler.artifact.layout import page_path
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.project.records import Cell, ProjectFile
from mcm_compiler.project.table_reader import TableReader

INDEX = "index.html"
"""The index of the pages, in the folder of the output folders."""


_FOLDERS = {
    "output": "the folder of the output folders",
    "cache": "the cache",
    "baseline": "the baseline",
}
"""Folders of a project by their key."""


def refuse_overlapping_folders(project: ProjectFile, reader: TableReader) -> None:
    """MCM-B021 where two of the folders that a build writes are not apart.

    One inside the folder of the output folders is apart from those where its path begins with a
    dot there, as no cell's does.

    Args:
        project: names the folders, or leaves them at their defaults.
        reader: collects the faults.
    """
    given = {*project.description.data, *project.description.data.get("defaults", {})}
    for one, other in (("cache", "output"), ("baseline", "output"), ("baseline", "cache")):
        mine, theirs = (_real(project, getattr(project, key)) for key in (one, other))
        name, named = getattr(project, one), f"{_FOLDERS[other]}, {quote(getattr(project, other))}"
        if mine == theirs:
            relation = f"is {_FOLDERS[other]}, too"
        elif theirs.is_relative_to(mine):
            relation = f"holds {named}"
        elif mine.is_relative_to(theirs):
            if other == "output" and mine.relative_to(theirs).parts[0].startswith("."):
                continue
            relation = f"is inside {named}"
        else:
            continue
        key = one if one in given else other
        reader.fault(
            "MCM-B021",
            f"{_FOLDERS[one]} {quote(name)} {relation}",
            (key,) if key in project.description.data else ("defaults", key),
            f"give '{one}' and '{other}' folders of which neither is inside the other",
        )
        return


def clashes(project: ProjectFile, cells: Sequence[Cell]) -> list[tuple[Cell, str]]:
    """Cells whose folder would take the place of something else of the build.

    Args:
        project: the cells belong to.
        cells: all of them, whose folders are apart from each other.

    Returns:
        Each such cell, and what has its place: the index, the page of another cell, the cache or
        the baseline. Pages count whether or not this build writes them, so that `--html`
        decides nothing.
    """
    pages = {_key(PurePosixPath(page_path(Path(cell.folder)))): cell for cell in cells}
    output = _real(project, project.output)
    inside: dict[str, str] = {}
    for kept in ("cache", "baseline"):
        place = _real(project, getattr(project, kept))
        if place.is_relative_to(output):
            inside[place.relative_to(output).parts[0].casefold()] = kept
    found: list[tuple[Cell, str]] = []
    for cell in cells:
        steps = [cell.folder, *cell.folder.parents[:-1]]
        other = next((pages[key] for step in steps if (key := _key(step)) in pages), None)
        if _key(steps[-1]) == INDEX:
            found.append((cell, f"the index of the pages, {quote(INDEX)}"))
        elif other is not None:
            page = page_path(Path(other.folder)).as_posix()
            found.append((cell, f"the page of {quote(other.title)}, {quote(page)}"))
        elif (kept := inside.get(_key(steps[-1]))) is not None:
            name = quote(getattr(project, kept))
            found.append((cell, f"{_FOLDERS[kept]}, {name}"))
    return found


def clash(cell: Cell, what: str) -> Diagnostic:
    """MCM-B021 for a cell that would take the place of something else."""
    return Diagnostic(
        "MCM-B021",
        f"the output folder of {quote(cell.model)} for {quote(cell.target)}, "
        f"{quote(cell.title)}, would take the place of {what}",
        at=cell.place,
    )


def _real(project: ProjectFile, folder: str) -> Path:
    return Path(os.path.realpath(project.root / folder))


def _key(folder: PurePosixPath) -> str:
    return str(folder).casefold()
