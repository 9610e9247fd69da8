"""Whether records and folders keep to the project's limits, which no linter counts.

    python tools/check_limits.py
    python tools/check_limits.py --table [--revision REVISION]

A record is a dataclass, a `NamedTuple` or a `TypedDict`; what counts are the fields annotated in
its own body, `ClassVar`s aside. A folder's modules are its Python files but `__init__.py`. The
limits, the folders they hold in and the exceptions, each with its reason, are in
`[tool.mcm-limits]` of `pyproject.toml`; an exception that nothing needs is an error as well.

With `--table` nothing is checked: the sizes of the packages are printed as a table in Markdown,
with `--revision` beside those at that revision of the repository.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

PACKAGES = ("mcm_compiler", "hardware/mcm_hardware", "passes/mcm_passes", "models/mcm_models")
"""The rows of the table, by folder."""

LONG_FUNCTION = 60
"""Statements; a function with more counts as long in the table."""

Sources = Mapping[str, str]
"""Texts of Python files by path from the root of the repository, with slashes."""


@dataclass(frozen=True)
class Limits:
    """What `[tool.mcm-limits]` says.

    Attributes:
        places: folders, from the root of the repository, that the limits hold in and below.
        max_fields: of a record.
        max_modules: of a folder, those of folders below it aside.
        exceptions: reasons by place: `FOLDER`, or `FILE:CLASS` with the names of enclosing classes
            before dots.
    """

    places: tuple[str, ...]
    max_fields: int
    max_modules: int
    exceptions: Mapping[str, str]


@dataclass(frozen=True)
class Sizes:
    """The sizes of one package, in the order of the table's columns.

    Attributes:
        statements: all, docstrings aside.
        functions: with methods and functions in functions.
        long_functions: those of more than `LONG_FUNCTION` statements, docstrings aside.
        large_records: records over the limit of fields, whether an exception or not.
        large_folders: folders over the limit of modules, whether an exception or not.
    """

    statements: int
    functions: int
    long_functions: int
    large_records: int
    large_folders: int


def limits_of(project: str) -> Limits:
    """Reads the limits from the text of a `pyproject.toml`.

    Raises:
        ValueError: where the table is missing or malformed, an exception has no reason, or a place
            is excepted twice.
    """
    try:
        table: dict[str, Any] = tomllib.loads(project)["tool"]["mcm-limits"]
        rows = [(str(row["place"]), str(row["reason"]).strip()) for row in table["exceptions"]]
        limits = Limits(
            places=tuple(table["places"]),
            max_fields=int(table["max-fields"]),
            max_modules=int(table["max-modules"]),
            exceptions=dict(rows),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"[tool.mcm-limits] is missing or malformed: {error!r}") from error
    unreasoned = [place for place, reason in rows if not reason]
    if unreasoned:
        raise ValueError(f"[tool.mcm-limits]: no reason for {', '.join(unreasoned)}")
    if len(limits.exceptions) < len(rows):
        raise ValueError("[tool.mcm-limits]: a place is excepted twice")
    return limits


def breaches(sources: Sources, limits: Limits) -> list[str]:
    """A line for each record, folder or exception that is not as the limits say, by place."""
    record_fields = {
        f"{path}:{name}": number
        for path, text in _below(sources, limits.places).items()
        for name, number in _records(ast.parse(text))
    }
    folder_modules = _modules(_below(sources, limits.places))
    found = {
        **_over(record_fields, limits.max_fields, "fields"),
        **_over(folder_modules, limits.max_modules, "modules"),
    }
    for place in limits.exceptions:
        if place in found:
            del found[place]
        elif place in record_fields or place in folder_modules:
            found[place] = f"{place}: excepted, but within the limit"
        else:
            found[place] = f"{place}: excepted, but there is no such record or folder"
    return [found[place] for place in sorted(found)]


def sizes(sources: Sources, limits: Limits) -> Sizes:
    """The sizes of what `sources` hold."""
    trees = [ast.parse(text) for text in sources.values()]
    functions = [
        _statements(node) - 1
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    records = [number for tree in trees for _, number in _records(tree)]
    return Sizes(
        statements=sum(map(_statements, trees)),
        functions=len(functions),
        long_functions=sum(number > LONG_FUNCTION for number in functions),
        large_records=sum(number > limits.max_fields for number in records),
        large_folders=sum(n > limits.max_modules for n in _modules(sources).values()),
    )


def table(limits: Limits, *columns: tuple[str, Sources]) -> str:
    """Sizes by package, and of all packages, in Markdown.

    Args:
        limits: by which records and folders count as large.
        columns: title and files of each state of the repository to show, the earliest first; each
            size has a column per state.
    """
    measures = [field.name for field in fields(Sizes)]
    heads = [f"{m.replace('_', ' ')} {title}".strip() for m in measures for title, _ in columns]
    rows = [
        (package.rpartition("/")[2], [sizes(_below(s, (package,)), limits) for _, s in columns])
        for package in PACKAGES
    ]
    rows.append(("all", [sizes(_below(s, PACKAGES), limits) for _, s in columns]))
    lines = [
        _row("package", heads),
        "|---|" + "---:|" * len(heads),
        *(
            _row(name, [f"{getattr(state, measure):,}" for measure in measures for state in states])
            for name, states in rows
        ),
    ]
    return "\n".join(lines)


def sources_here(root: Path, places: Sequence[str]) -> dict[str, str]:
    """The files in and below `places` as they are in the working tree."""
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for place in places
        for path in sorted((root / place).rglob("*.py"))
    }


def sources_at(root: Path, revision: str) -> dict[str, str]:
    """All Python files at a revision of the repository.

    Raises:
        ValueError: where git finds no such revision.
    """
    command = ["git", "-C", str(root), "archive", "--format=tar", revision, "--", "*.py"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace").strip())
    found: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                found[member.name] = file.read().decode()
    return found


def _below(sources: Sources, places: Sequence[str]) -> dict[str, str]:
    heads = tuple(f"{place}/" for place in places)
    return {path: text for path, text in sources.items() if path.startswith(heads)}


def _over(numbers: Mapping[str, int], limit: int, what: str) -> dict[str, str]:
    return {
        place: f"{place}: {number} {what}, {limit} at most"
        for place, number in numbers.items()
        if number > limit
    }


def _modules(sources: Sources) -> Counter[str]:
    """Modules by folder."""
    paths = [PurePosixPath(path) for path in sources]
    return Counter(path.parent.as_posix() for path in paths if path.name != "__init__.py")


def _records(tree: ast.AST, outer: str = "") -> Iterator[tuple[str, int]]:
    """Name and number of fields of each record."""
    for node in ast.iter_child_nodes(tree):
        name = f"{outer}{node.name}" if isinstance(node, ast.ClassDef) else outer
        if isinstance(node, ast.ClassDef):
            if _is_record(node):
                yield name, sum(map(_is_field, node.body))
            name += "."
        yield from _records(node, name)


def _is_record(node: ast.ClassDef) -> bool:
    decorators = {_last_name(decorator) for decorator in node.decorator_list}
    bases = {_last_name(base) for base in node.bases}
    return "dataclass" in decorators or not bases.isdisjoint({"NamedTuple", "TypedDict"})


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and _last_name(node.annotation) != "ClassVar"


def _last_name(node: ast.expr) -> str:
    """`c` of `c`, `a.b.c`, `a.c(...)` and `a.c[...]`; empty of all else."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _last_name(inner)
        case _:
            return ""


def _statements(tree: ast.AST) -> int:
    """Statements in `tree`, itself among them, docstrings aside."""
    return sum(isinstance(node, ast.stmt) and not _is_docstring(node) for node in ast.walk(tree))


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 where a limit is not kept, 2 where the question makes no sense."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table", action="store_true", help="print the sizes of the packages")
    parser.add_argument("--revision", default="", help="beside those at this revision")
    asked = parser.parse_args(arguments)
    if asked.revision and not asked.table:
        parser.error("--revision goes with --table")
    try:
        limits = limits_of((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        if asked.table:
            columns = [("", sources_here(ROOT, PACKAGES))]
            if asked.revision:
                columns = [("before", sources_at(ROOT, asked.revision)), ("after", columns[0][1])]
            print(table(limits, *columns))
            return 0
        lines = breaches(sources_here(ROOT, limits.places), limits)
    except ValueError as error:
        print(f"check_limits: {error}", file=sys.stderr)
        return 2
    for line in lines:
        print(line)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
