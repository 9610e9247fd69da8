"""Reading a project file: TOML in, records out, or every fault of it with its line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.project import records, table_reader
from mcm_compiler.text.toml_description import KeyPath, parse_description, read_description

_REFERENCE = "docs/reference/project-file.md has the form"
_SECTIONS = ("defaults", "models")


def read_project(path: Path) -> records.ProjectFile:
    """Reads a project file.

    Args:
        path: of the file.

    Raises:
        CompileError: MCM-B001 if it cannot be read or is not TOML, else all of MCM-B002 to
            MCM-B006 that the file has.
    """
    try:
        text = read_description(str(path), "project")
    except CompileError as error:
        hint = "name a project file, or let mcmc init FOLDER write one"
        raise error.changed(code="MCM-B001", hint=hint) from error
    return parse_project(path, text)


def parse_project(path: Path, text: str) -> records.ProjectFile:
    """The project that a text describes.

    Args:
        path: of the file that holds it, or would; paths in the text are relative to its folder.
        text: in TOML.

    Raises:
        CompileError: as `read_project`.
    """
    try:
        description = parse_description(str(path), text, "project")
    except CompileError as error:
        raise error.changed(code="MCM-B001", hint=_REFERENCE) from error
    reader = table_reader.TableReader(description)
    data = description.data
    top = reader.table(data, table_reader.DEFAULT_KEYS, (), further=_SECTIONS)
    given = reader.table(data.get("defaults", {}), table_reader.DEFAULT_KEYS, ("defaults",))
    for name in top.keys() & given.keys():
        message = f"{quote(name)} is given at the top of the file as well"
        reader.fault("MCM-B005", message, ("defaults", name))
    defaults = {**top, **given}
    settings = _settings(reader, defaults, ("defaults",) if "defaults" in data else ())
    sections = [
        _section(reader, table, at) for table, at in reader.tables(data.get("models"), ("models",))
    ]
    if not data.get("models"):
        hint = f'add [[models]] with files = "models/**/*.onnx"; {_REFERENCE}'
        reader.fault("MCM-B003", "the project has no models", ("models",), hint)
    reader.finish()
    return records.ProjectFile(
        path,
        description,
        defaults.get("output", records.DEFAULT_OUTPUT),
        defaults.get("baseline", records.DEFAULT_BASELINE),
        defaults.get("cache", records.DEFAULT_CACHE),
        defaults.get("cache_limit", records.DEFAULT_CACHE_LIMIT_BYTES),
        defaults.get("plugins", ()),
        defaults.get("html", False),
        settings,
        tuple(sections),
    )


def _section(reader: table_reader.TableReader, table: Any, at: KeyPath) -> records.ModelSection:
    values = reader.table(table, table_reader.MODEL_KEYS, at)
    given: Mapping[str, Any] = table if isinstance(table, dict) else {}
    if isinstance(table, dict) and "files" not in given:
        reader.missing("files", table_reader.MODEL_KEYS, at)
    settings = _settings(reader, values, at)
    profiles = [
        _profile(reader, inner, path, settings)
        for inner, path in reader.tables(given.get("profiles"), (*at, "profiles"))
    ]
    names = [profile.name for profile in profiles]
    for index, profile in enumerate(profiles):
        if profile.name and profile.name in names[:index]:
            message = f"there is a profile {quote(profile.name)} already"
            reader.fault("MCM-B005", message, (*profile.path, "name"))
    return records.ModelSection(
        values.get("files", ()),
        values.get("exclude", ()),
        values.get("name"),
        settings,
        _expected(reader, values.get("expected_failure"), (*at, "expected_failure")),
        tuple(profiles) or (records.Profile("", records.Settings(), None, at),),
        at,
    )


def _profile(
    reader: table_reader.TableReader, table: Any, at: KeyPath, model: records.Settings
) -> records.Profile:
    values = reader.table(table, table_reader.PROFILE_KEYS, at)
    if isinstance(table, dict) and "name" not in table:
        reader.missing("name", table_reader.PROFILE_KEYS, at)
    settings = _settings(reader, values, at)
    for kind, mine, above in (
        ("dims", settings.dims, model.dims),
        ("shapes", settings.shapes, model.shapes),
    ):
        for name in mine.keys() & above.keys():
            if mine[name] != above[name]:
                reader.fault(
                    "MCM-B006",
                    f"the profile gives {quote(name)} the size {_size(mine[name])}, and its model "
                    f"gives it {_size(above[name])}",
                    (*at, kind, name),
                )
    expected = _expected(reader, values.get("expected_failure"), (*at, "expected_failure"))
    return records.Profile(values.get("name", ""), settings, expected, at)


def _settings(
    reader: table_reader.TableReader, values: Mapping[str, Any], at: KeyPath
) -> records.Settings:
    if "level" in values and "levels" in values:
        reader.fault("MCM-B005", "'level' and 'levels' are both given", (*at, "levels"))
    options = {
        key.option: values[name]
        for name, key in table_reader.SETTING_KEYS.items()
        if key.option and name in values
    }
    return records.Settings(
        values.get("targets", ()),
        (values["level"],) if "level" in values else values.get("levels", ()),
        values.get("dims", {}),
        values.get("shapes", {}),
        values.get("state"),
        values.get("inputs"),
        records.Thresholds(
            values.get("min_throughput"),
            values.get("max_latency"),
            values.get("max_gap"),
            values.get("max_regression"),
        ),
        options,
    )


def _expected(
    reader: table_reader.TableReader, table: Any, at: KeyPath
) -> records.ExpectedFailure | None:
    if table is None:
        return None
    values = reader.table(table, table_reader.FAILURE_KEYS, at)
    for name in ("code", "reason"):
        if isinstance(table, dict) and name not in table:
            reader.missing(name, table_reader.FAILURE_KEYS, at)
    place = reader.description.place(at)
    return records.ExpectedFailure(
        values.get("code", ""), values.get("reason", ""), values.get("targets", ()), place
    )


def _size(value: int | tuple[int, ...]) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
