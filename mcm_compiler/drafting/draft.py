"""Drafting a project: the models of a folder, one by one, and the file that names them all."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mcm_compiler.ci.batch import lost_process
from mcm_compiler.ci.model_list import SUFFIX, files_below
from mcm_compiler.ci.processes import work_on_all
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.drafting.model_draft import ModelDraft, draft_model
from mcm_compiler.drafting.toml_text import project_text, sections_of, with_own_names
from mcm_compiler.processes.crash_journal import CrashJournal
from mcm_compiler.project.cells import names_in_the_way
from mcm_compiler.project.reader import parse_project


@dataclass(frozen=True)
class Listing:
    """The models of a folder.

    Attributes:
        models: paths below it, with slashes, sorted.
        skipped: files that no project can name or should, and why.
    """

    models: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]


def list_folder(root: Path) -> Listing:
    """The models at any depth; passed over are hidden names, links to folders, output folders.

    Raises:
        CompileError: MCM-U041 if there is no such folder, MCM-U034 if it holds no model.
    """
    if not root.is_dir():
        kind = "is a file" if root.exists() else "does not exist"
        raise CompileError.of("MCM-U041", f"the folder of the project {kind}", at=quote(str(root)))
    models: list[str] = []
    skipped: list[tuple[str, str]] = []
    inside = os.path.realpath(root)
    for model in map(str, files_below(root)):
        if not model.endswith(SUFFIX):
            continue
        if os.path.commonpath([inside, os.path.realpath(root / model)]) != inside:
            skipped.append((model, "a link that leads out of the folder"))
        elif not _is_text(model):
            skipped.append((model, "its name is not UTF-8, which TOML needs"))
        else:
            models.append(model)
    if not models and not skipped:
        raise CompileError.of(
            "MCM-U034", f"the folder holds no *{SUFFIX} file at any depth", at=quote(str(root))
        )
    return Listing(tuple(models), tuple(sorted(skipped)))


def draft_all(
    root: Path,
    models: Sequence[str],
    processes: int,
    prepare: Callable[[], None],
    progress: Callable[[str], None] | None,
) -> Generator[ModelDraft]:
    """Drafts all models; one that crashes its process is one that cannot be read.

    Args:
        root: the folder of the project.
        models: paths below it.
        processes: that work at once; 1 works in this one, unless it is a supervised command.
        prepare: run in each other process before its first model; importable by its name.
        progress: called with what is looked at, where that is known here.

    Yields:
        The drafts in the order of `models`.
    """
    work = partial(draft_model, root)
    yield from work_on_all(models, work, _lost, prepare, processes, progress)


def draft_text(
    path: Path, targets: Sequence[str], drafts: Sequence[ModelDraft], listing: Listing
) -> str:
    """The text of a project file, read back before it is given.

    Args:
        path: where it will lie.
        targets: names of targets, or paths.
        drafts: of all models.
        listing: that they come from.

    Raises:
        CompileError: MCM-U034 if no model can be read, with what is wrong with the first; MCM-B001
            to MCM-B006 if the reader refuses the text.
    """
    readable = [draft for draft in drafts if not draft.faults]
    unreadable = [draft for draft in drafts if draft.faults]
    if not readable:
        first = unreadable[0].faults if unreadable else ()
        raise CompileError(
            [
                Diagnostic(
                    "MCM-U034",
                    "the folder holds no model that can be read",
                    at=quote(str(path.parent)),
                    hint="export the models again",
                ),
                *first,
            ]
        )
    sections = sections_of(drafts)
    while True:
        text = project_text(targets, sections, unreadable, listing.skipped)
        refused, taken = names_in_the_way(parse_project(path, text))
        if not refused:
            return text
        sections = with_own_names(sections, refused, taken)


def _lost(model: str, exit_code: int | None, journal: CrashJournal) -> ModelDraft:
    fault = lost_process("read the model", model, exit_code, journal)
    return ModelDraft(model, faults=(fault,))


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
