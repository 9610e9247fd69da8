"""Sizes of a project file or a command line that no model has a dimension for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.project.cells import tables_of
from mcm_compiler.project.records import ProjectFile
from mcm_compiler.project.verdicts import CellOutcome

SHOWN = 20
"""Names of dimensions that a message lists."""


def unused_sizes(project: ProjectFile, outcomes: Sequence[CellOutcome]) -> tuple[Diagnostic, ...]:
    """MCM-B020 for each size that was given to many models, none of which has its dimension.

    A model leaves alone the sizes of defaults and patterns that it lacks, so that no compile tells.

    Args:
        project: that was built.
        outcomes: of all its cells; of some of them the others may have the dimension.
    """
    asked: dict[str, set[str] | None] = {}
    for outcome in outcomes:
        known = outcome.record.dimensions
        for name in outcome.cell.lenient:
            so_far = asked.setdefault(name, set())
            # What cannot be read may have it.
            asked[name] = None if known is None or so_far is None else so_far | set(known)
    found: dict[str, Diagnostic] = {}
    given = [
        (name, project.description.place((*path, "dims", name)))
        for path, settings in tables_of(project)
        for name in settings.dims
    ]
    for name, place in (*given, *((name, "option --dim") for name in project.over.dims)):
        known = asked.get(name)
        if known is not None and name not in known and name not in found:
            found[name] = _unused(name, place, known)
    return tuple(found.values())


def _unused(name: str, place: str, known: set[str]) -> Diagnostic:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    listed = ", ".join(map(quote, sorted(known)[:SHOWN])) or "none"
    return Diagnostic(
        "MCM-B020",
        f"no model has the dimension {quote(name)}; they have {listed}",
        at=place,
        hint=f"did you mean {quote(near[0])}?" if near else "leave the size out",
    )
