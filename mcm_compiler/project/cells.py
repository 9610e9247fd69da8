"""The cells of a project: each model in each profile for each target at each level."""

from __future__ import annotations

from collections.abc import Callable, Collection
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.project import records
from mcm_compiler.project.places import clash, clashes, refuse_overlapping_folders
from mcm_compiler.project.selection import SelectedModel, models_of, select_models
from mcm_compiler.project.table_reader import TableReader
from mcm_compiler.registry import TARGETS

COMMAND_LINE = "command line"
"""The source of an option that the command line gives; those of the file have its name."""

MAX_CELLS = 100_000
"""More than anybody builds; a pattern that matches a whole disk stops here."""


def target_names(plugins: tuple[Path, ...]) -> Callable[[str], bool]:
    """Return whether a name is a target's; plug-in files run when one is not known without them.

    Raises:
        CompileError: from the function, as `load_plugin`.
    """

    def known(name: str) -> bool:
        if name not in TARGETS:
            for path in plugins:
                load_plugin(path)
        return name in TARGETS

    return known


def cells_of(
    project: records.ProjectFile, known_target: Callable[[str], bool]
) -> tuple[records.Cell, ...]:
    """All cells in the order of the file.

    Args:
        project: what to look up.
        known_target: whether a name is that of a target.

    Raises:
        CompileError: with all of MCM-B007 for patterns without models, MCM-B008 for cells with
            the same folder, MCM-B009 for targets that do not exist, MCM-B010 for files that do
            not. MCM-B021 for folders that would take the place of something else of the build.
    """
    reader = TableReader(project.description)
    refuse_overlapping_folders(project, reader)
    cells: list[records.Cell] = []
    for selected in select_models(project, reader):
        for profile in selected.section.profiles:
            cells += _cells_of_profile(project, selected, profile)
            if len(cells) > MAX_CELLS:
                message = f"the build would have more than {MAX_CELLS} cells"
                reader.fault("MCM-B004", message, selected.section.path, "select fewer models")
                reader.finish()
    _refuse_unknown_targets(project, cells, known_target, reader)
    _refuse_missing_files(project, reader)
    _refuse_foreign_expectations(project, reader)
    reader.finish()
    _refuse_shared_folders(cells)
    if taken := clashes(project, cells):
        raise CompileError([clash(cell, what) for cell, what in taken])
    return tuple(cells)


def names_in_the_way(project: records.ProjectFile) -> tuple[set[str], set[str]]:
    """Models that a build would refuse for their names, and the names of all models.

    Returns:
        Paths of the models whose name, output folders or both are those of models before them, or
        of something else of the build; and all names without case.

    Raises:
        CompileError: MCM-B008 if targets or profiles of one model have one folder.
    """
    found = models_of(project, TableReader(project.description))
    first: dict[str, SelectedModel] = {}
    for selected in found:
        first.setdefault(str(selected.name).casefold(), selected)
    apart = first.values()
    cells = [
        cell
        for selected in apart
        for profile in selected.section.profiles
        for cell in _cells_of_profile(project, selected, profile)
    ]
    shared = _shared_folders(cells)
    if of_targets := [pair for pair in shared if pair[0].model == pair[1].model]:
        raise CompileError([_shared(cell, other) for cell, other in of_targets])
    refused = {cell.model for cell, _ in (*shared, *clashes(project, cells))}
    refused |= {selected.model for selected in found} - {selected.model for selected in apart}
    return refused, {*first}


def only(cells: Collection[records.Cell], patterns: Collection[str]) -> tuple[records.Cell, ...]:
    """The cells that one of the patterns matches, or all where there is none.

    A pattern is compared with the cell's name, the model's name and path, and the target; `*` also
    matches `/`.

    Raises:
        CompileError: MCM-B018 if a pattern matches no cell.
    """
    if not patterns:
        return tuple(cells)
    chosen: dict[PurePosixPath, records.Cell] = {}
    for pattern in patterns:
        hits = {cell.folder: cell for cell in cells if _matches(cell, pattern)}
        if not hits:
            names = ", ".join(quote(cell.title) for cell in list(cells)[:5])
            raise CompileError.of(
                "MCM-B018",
                f"no cell of the build matches {quote(pattern)}",
                at="option --only",
                hint=f"cells are {names}{', ...' if len(cells) > 5 else ''}",
            )
        chosen |= hits
    return tuple(cell for cell in cells if cell.folder in chosen)


def _matches(cell: records.Cell, pattern: str) -> bool:
    names = (cell.title, cell.model, cell.target, *map(str, cell.folder.parents))
    return any(fnmatchcase(name, pattern) for name in names)


def _cells_of_profile(
    project: records.ProjectFile, selected: SelectedModel, profile: records.Profile
) -> list[records.Cell]:
    section = selected.section
    model_settings = section.settings.over(project.defaults)
    of_file = profile.settings.over(model_settings)
    settings = project.over.over(of_file)
    targets = settings.targets or records.DEFAULT_TARGETS
    expected = profile.expected or section.expected
    asked_of_all = project.defaults.dims.keys() if selected.alone else model_settings.dims.keys()
    asked_of_all |= project.over.dims.keys()
    strict = profile.settings.dims.keys() | (section.settings.dims if selected.alone else set())
    cells: list[records.Cell] = []
    for target in targets:
        for level in settings.levels or (None,):
            folder = selected.name / profile.name / _folder_name(target)
            if len(settings.levels) > 1:
                folder /= f"O{_folder_name(str(level))}"
            known = expected is not None and (not expected.targets or target in expected.targets)
            cells.append(
                records.Cell(
                    selected.model,
                    folder,
                    target,
                    settings.dims,
                    frozenset(asked_of_all - strict),
                    settings.inputs,
                    _options(settings, level),
                    settings.thresholds,
                    expected if known else None,
                    project.description.place(profile.path),
                    _sources(of_file, project.over),
                )
            )
    return cells


def _options(settings: records.Settings, level: int | str | None) -> dict[str, Any]:
    options = dict(settings.options)
    if level is not None:
        options["level"] = level
    if settings.shapes:
        options["shapes"] = dict(settings.shapes)
    if settings.state is not None:
        options["state"] = settings.state
    return options


def _sources(file: records.Settings, line: records.Settings) -> dict[str, str]:
    """Sources of options by their field of `CompileOptions`."""
    both = f"{COMMAND_LINE}, over {records.FILE_NAME}"
    given = dict.fromkeys(file.option_names, records.FILE_NAME)
    return given | {n: both if n in given else COMMAND_LINE for n in line.option_names}


def _folder_name(text: str) -> str:
    """The name of a target or level as a folder: of a path the stem."""
    name = Path(text).stem if is_path(text) else text
    return name if name.strip(".") else "description"


def is_path(target: str) -> bool:
    """Return whether a target or level is a path rather than a name."""
    return target.endswith(".toml") or len(Path(target).parts) > 1


def _refuse_unknown_targets(
    project: records.ProjectFile,
    cells: list[records.Cell],
    known_target: Callable[[str], bool],
    reader: TableReader,
) -> None:
    """MCM-B009 for each target that does not exist, at each place that names it."""
    used = {cell.target for cell in cells}
    for path, settings in tables_of(project):
        for index, target in enumerate(settings.targets):
            if target not in used:
                continue
            at = (*path, "targets", index)
            if is_path(target):
                if not (project.root / target).is_file():
                    hint = f"paths are relative to {quote(str(project.root))}"
                    reader.fault("MCM-B009", f"there is no file {quote(target)}", at, hint)
            elif not known_target(target):
                hint = "`mcmc targets` lists names; what ends in .toml is a path"
                reader.fault("MCM-B009", f"there is no target {quote(target)}", at, hint)


def _refuse_missing_files(project: records.ProjectFile, reader: TableReader) -> None:
    """MCM-B010 for each file that the project names and that is not there."""
    named = [
        (
            ("plugins", index)
            if "plugins" in project.description.data
            else ("defaults", "plugins"),
            p,
        )
        for index, p in enumerate(project.plugins)
    ]
    for path, settings in tables_of(project):
        named += [((*path, "inputs"), settings.inputs)] if settings.inputs is not None else []
        assignment = settings.options.get("assignment")
        named += [((*path, "assignment"), assignment)] if assignment is not None else []
    for at, name in named:
        if not (project.root / name).is_file():
            hint = f"paths are relative to {quote(str(project.root))}"
            reader.fault("MCM-B010", f"there is no file {quote(name)}", at, hint)


def _refuse_foreign_expectations(project: records.ProjectFile, reader: TableReader) -> None:
    """MCM-B009 for a target of an expected failure that its model is not compiled for."""
    for section in project.models:
        for profile in section.profiles:
            owner = profile if profile.expected is not None else section
            merged = profile.settings.over(section.settings.over(project.defaults))
            for target in owner.expected.targets if owner.expected is not None else ():
                if target not in (merged.targets or records.DEFAULT_TARGETS):
                    at = (*owner.path, "expected_failure", "targets")
                    message = f"the model is not compiled for {quote(target)}"
                    reader.fault("MCM-B009", message, at, "name it as 'targets' does")


def tables_of(project: records.ProjectFile) -> list[tuple[tuple[str | int, ...], records.Settings]]:
    """All tables with settings; those of the defaults may stand in either of two."""
    inside = "defaults" in project.description.data
    found: list[tuple[tuple[str | int, ...], records.Settings]] = [
        (("defaults",) if inside else (), project.defaults)
    ]
    for section in project.models:
        found.append((section.path, section.settings))
        found += [(profile.path, profile.settings) for profile in section.profiles if profile.name]
    return found


def _refuse_shared_folders(cells: list[records.Cell]) -> None:
    """Raises MCM-B008 if a cell would have the folder of another one, or one inside it."""
    if pairs := _shared_folders(cells):
        raise CompileError([_shared(cell, other) for cell, other in pairs])


def _shared_folders(cells: list[records.Cell]) -> list[tuple[records.Cell, records.Cell]]:
    """Cells whose folder is that of another one, or inside it, each with that one."""
    first: dict[str, records.Cell] = {}
    pairs = [
        (cell, other)
        for cell in cells
        if (other := first.setdefault(_key(cell.folder), cell)) is not cell
    ]
    pairs += [
        (cell, other)
        for cell in cells
        for parent in cell.folder.parents
        if (other := first.get(_key(parent)))
    ]
    return pairs


def _shared(cell: records.Cell, other: records.Cell) -> Diagnostic:
    return Diagnostic(
        "MCM-B008",
        f"{quote(cell.model)} for {quote(cell.target)} and {quote(other.model)} for "
        f"{quote(other.target)} would both lie in {quote(str(other.folder))}",
        at=f"{cell.place} and {other.place}",
    )


def _key(folder: PurePosixPath) -> str:
    return str(folder).casefold()
