"""Writes the JSON schemas in docs/reference/schema that follow from records of the compiler.

    python tools/render_schemas.py
    python tools/render_schemas.py --check

Types, ranges and required keys are those that the readers of the files hold them to, or that their
writer has; descriptions are the docstrings of the records. With `--check` nothing is written, and a
schema that is not what the records say is named.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, is_typeddict

import msgspec

from mcm_compiler.certificate.files import CertificateHead
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.sharding.parallel_plan import PlanFile
from mcm_compiler.exploration import journal as exploration
from mcm_compiler.report.records import activity, report, sections, verdict
from mcm_compiler.results import points

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference" / "schema"

HOME = "https://github.com/mcm-compiler/mcm-compiler/blob/main/docs/reference/schema"
"""Where the schemas are published."""

RECORDS: dict[str, tuple[str, type]] = {
    "certificate.schema.json": ("Head of a placement certificate", CertificateHead),
    "exploration.schema.json": ("Exploration of mcm-compiler", exploration.Exploration),
    "plan.schema.json": ("Plan of mcmc parallelize", PlanFile),
    "program.schema.json": ("Lowered program", LoweredProgram),
    "report.schema.json": ("Report of mcm-compiler", report.Report),
}
"""Title and record of each schema."""

TABLES = {
    name: value
    for module in (activity, exploration, points, report, sections, verdict)
    for name, value in vars(module).items()
    if is_typeddict(value)
}
"""Each `TypedDict` of the report, by name."""

_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def render(name: str) -> str:
    """The text of a schema."""
    title, record = RECORDS[name]
    _, parts = msgspec.json.schema_components([record])
    for key, part in parts.items():
        if key in TABLES:
            _close(part, TABLES[key])
        _describe(part)
    root = {**parts.pop(record.__name__), "title": title}
    dialect = "https://json-schema.org/draft/2020-12/schema"
    schema = {
        "$schema": dialect,
        "$id": f"{HOME}/{name}",
        **root,
        **({"$defs": parts} if parts else {}),
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _close(part: dict[str, Any], table: type) -> None:
    """What `msgspec` leaves out of a `TypedDict`: order, description, and that no more keys are."""
    part["properties"] = {key: part["properties"][key] for key in table.__annotations__}
    part["required"] = [key for key in part["properties"] if key in part["required"]]
    part["additionalProperties"] = False
    if table.__doc__ is None:
        part["description"] = _docstring_below(table)


def _docstring_below(table: type) -> str:
    """The docstring of a type that is assigned, which Python does not keep."""
    source = inspect.getsource(sys.modules[table.__module__])
    for definition, text in pairwise(ast.parse(source).body):
        match definition, text:
            case ast.Assign([ast.Name(found)]), ast.Expr(ast.Constant(str(docstring))):
                if found == table.__name__:
                    return docstring
            case _:
                pass
    raise LookupError(f"{table.__name__} has no docstring")


def _describe(part: dict[str, Any]) -> None:
    """Moves what a record's docstring says of its attributes to these."""
    text = inspect.cleandoc(part.get("description", ""))
    summary, _, attributes = text.partition("\n\nAttributes:\n")
    part["description"] = " ".join(summary.split())
    for name, text in _ATTRIBUTE.findall(attributes):
        if name in part["properties"]:
            part["properties"][name]["description"] = " ".join(text.split())


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Writes the schemas in docs/reference/schema.")
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    check = parser.parse_args().check
    stale = [n for n in RECORDS if not _is_as_rendered(FOLDER / n)]
    for name in stale:
        if check:
            print(f"{name} is not what the records say; run: python tools/render_schemas.py")
        else:
            (FOLDER / name).write_text(render(name), encoding="utf-8")
    return int(check and bool(stale))


def _is_as_rendered(path: Path) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == render(path.name)


if __name__ == "__main__":
    sys.exit(main())
