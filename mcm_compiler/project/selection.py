"""The models that the patterns of a project file stand for, and what each is called."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from mcm_compiler.ci.model_list import SUFFIX, files_below, plain_stem, zoo_folder
from mcm_compiler.contracts import zoo
from mcm_compiler.diagnostics import quote
from mcm_compiler.project.records import ModelSection, ProjectFile
from mcm_compiler.project.table_reader import TableReader

ANY_DEPTH = "**"
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class SelectedModel:
    """One model of a project.

    Attributes:
        model: path relative to the project's folder, or `zoo:NAME`.
        name: of its output folder; parts of a path.
        section: that selects it.
        alone: whether the section names it, rather than a pattern that may match many.
    """

    model: str
    name: PurePosixPath
    section: ModelSection
    alone: bool


def select_models(project: ProjectFile, reader: TableReader) -> list[SelectedModel]:
    """The models of all sections in order; of a pattern sorted by path.

    Args:
        project: what to look up.
        reader: collects MCM-B007 for patterns without models, and MCM-B008 for a model that two
            sections select or a name that two models have.
    """
    found = models_of(project, reader)
    _refuse_twice(found, reader)
    return found


def models_of(project: ProjectFile, reader: TableReader) -> list[SelectedModel]:
    """The same, where models may be selected twice and have names that others have."""
    skipped = [project.root / project.output, project.root / project.cache]
    found: list[SelectedModel] = []
    for section in project.models:
        mine = _of_section(project, section, skipped, reader)
        if section.name is not None and len(mine) > 1:
            reader.fault(
                "MCM-B008",
                f"{len(mine)} models would be called {quote(section.name)}",
                (*section.path, "name"),
                "leave 'name' out, or select one model",
            )
        else:
            found += mine
    return found


def _of_section(
    project: ProjectFile, section: ModelSection, skipped: list[Path], reader: TableReader
) -> list[SelectedModel]:
    models: dict[str, SelectedModel] = {}
    for index, given in enumerate(section.files):
        hit = False
        for model, name, alone in _matches(project.root, given, skipped):
            hit = True
            if not any(fits(model, pattern) for pattern in section.exclude):
                called = PurePosixPath(section.name) if section.name else name
                models.setdefault(model, SelectedModel(model, called, section, alone))
        if not hit:
            at = (*section.path, "files")
            listed = isinstance(_raw_files(project, section), list)
            reader.fault(
                "MCM-B007",
                f"{quote(given)} stands for no model",
                (*at, index) if listed else at,
                f"paths are relative to {quote(str(project.root))}; names that begin with a dot "
                "and output folders are passed over",
            )
    if not models and section.files and section.exclude:
        hint = "select files that are not excluded, or remove the section"
        message = "all models of the section are excluded"
        reader.fault("MCM-B007", message, (*section.path, "exclude"), hint)
    return list(models.values())


def _raw_files(project: ProjectFile, section: ModelSection) -> object:
    models, index = section.path
    return project.description.data[str(models)][index].get("files")


def _matches(root: Path, given: str, skipped: list[Path]) -> list[tuple[str, PurePosixPath, bool]]:
    """Path, name, and whether it is named itself, of each model that a pattern stands for."""
    if given.startswith(zoo.PREFIX):
        return [(given, zoo_folder(given), True)]
    parts = PurePosixPath(given).parts
    wild = next((i for i, part in enumerate(parts) if _WILD.search(part)), None)
    if wild is None:
        path = root / given
        if not path.is_dir():
            named = PurePosixPath(plain_stem(PurePosixPath(given).stem))
            return [(str(PurePosixPath(given)), named, True)] if path.is_file() else []
        parts, wild = (*parts, ANY_DEPTH, f"*{SUFFIX}"), len(parts)
    base = PurePosixPath(*parts[:wild])
    pattern = "/".join(parts[wild:])
    found: list[tuple[str, PurePosixPath, bool]] = []
    for below in files_below(root / base, skipped):
        if fits(str(below), pattern):
            name = below.with_name(plain_stem(below.stem))
            found.append((str(base / below), name, False))
    return found


def fits(model: str, pattern: str) -> bool:
    """Return whether a path fits: `*` and `?` within a name, `[...]` one character, `**` any depth.

    Args:
        model: the path, with `/`.
        pattern: likewise.
    """
    parts = PurePosixPath(pattern).parts
    reached = {0}
    for name in PurePosixPath(model).parts:
        for at, part in enumerate(parts[:-1]):
            if part == ANY_DEPTH and at in reached:
                reached.add(at + 1)  # of no depth at all
        deep = {at for at in reached if parts[at : at + 1] == (ANY_DEPTH,)}
        named = {at for at in reached - deep if at < len(parts) and fnmatchcase(name, parts[at])}
        reached = deep | {at + 1 for at in (*deep, *named)}
    return len(parts) in reached


def _refuse_twice(found: list[SelectedModel], reader: TableReader) -> None:
    by_model: dict[str, SelectedModel] = {}
    by_name: dict[str, SelectedModel] = {}
    for selected in found:
        at = (*selected.section.path, "files")
        other = by_model.setdefault(os.path.normpath(selected.model), selected)
        if other is not selected:
            where = reader.description.place((*other.section.path, "files"))
            message = f"the model {quote(selected.model)} is selected twice, also by {where}"
            reader.fault("MCM-B008", message, at, "leave it out of one with 'exclude'")
            continue
        other = by_name.setdefault(str(selected.name).casefold(), selected)
        if other is not selected:
            message = (
                f"{quote(selected.model)} and {quote(other.model)} would both be called "
                f"{quote(str(selected.name))}"
            )
            reader.fault("MCM-B008", message, at, "give one of them a section with a 'name'")
