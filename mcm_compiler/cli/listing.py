"""Lists of registered components, among them those that do not load."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import click

from mcm_compiler.cli.show import show_json, table_lines, terminal_width
from mcm_compiler.components.extras import extra_of
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.processes.foreign_code import fault_text, is_no_fault
from mcm_compiler.processes.interruption import ends_the_command
from mcm_compiler.registry import REGISTRIES, Registry
from mcm_compiler.text.spec_text import value_text
from mcm_compiler.text.styled import wrapped
from mcm_compiler.text.units import printable

Row = dict[str, Any]


def component_rows(registry: Registry[Any], describe: Callable[[str, Any], Row]) -> list[Row]:
    """One row per registered component: name, summary, origin, and what `describe` adds.

    A component that fails while it loads is a row too, with its fault as summary: one broken
    plug-in must not hide all others.
    """
    rows: list[Row] = []
    for registration in registry.registrations():
        row: Row = {"name": registration.name, "summary": "", "origin": registration.origin}
        try:
            component = registry.get(registration.name)
            row |= describe(registration.name, component)
            if not isinstance(row["summary"], str):
                raise TypeError(f"its summary is a {type(row['summary']).__name__}, no text")
            if extra := extra_of(component):
                row["extra"] = extra
            row["fault"] = None
        except BaseException as error:  # a plug-in's code may raise anything
            if ends_the_command(error):
                raise
            if isinstance(error, CompileError) and is_no_fault(error):
                row["fault"] = error.diagnostics[0].message
            else:
                row["fault"] = f"it cannot be loaded: {fault_text(error)}"
                row["summary"] = ""
        rows.append(row)
    return rows


def described(_name: str, component: Any) -> Row:
    """Summary and options of a component."""
    summary = component.summary
    if not isinstance(summary, str):  # a property shows its text on an instance only
        summary = component().summary
    return {"summary": summary, "options": option_rows(component)}


def show_components(kind: str, rows: list[Row], output_format: str, options: bool = True) -> None:
    """Writes rows: as a JSON object `{kind: rows}`, or a line each with its options below."""
    if output_format == "json":
        show_json({kind: rows})
        return
    cells = [(row["name"], row["fault"] or row["summary"], _from(row)) for row in rows]
    indent = max((len(row["name"]) for row in rows), default=0) + 2
    if (columns := terminal_width()) is not None:
        indent = min(indent, columns // 4)
    for lines, row in zip(table_lines(cells), rows, strict=True):
        click.echo("\n".join(lines))
        if options and row.get("options"):
            text = printable(f"options: {options_text(row['options'])}")
            width = terminal_width(indent)
            for line in [text] if width is None else wrapped(text, width):
                click.echo(f"{'':{indent}}{line}")


def show_registry(
    name: str,
    kind: str,
    output_format: str,
    describe: Callable[[str, Any], Row] | None = None,
    options: bool = True,
) -> None:
    """Writes the components of a kind.

    Args:
        name: of the kind.
        kind: key of the JSON object.
        output_format: `text` or `json`.
        describe: facts of a component; summary and options by default.
        options: whether the text has the options.
    """
    rows = component_rows(REGISTRIES[name], describe or described)
    show_components(kind, rows, output_format, options)


def show_searchers(
    kind: str,
    searchers: str,
    output_format: str,
    effort: Callable[[Row], str] = lambda row: row["summary"],
) -> None:
    """Writes what searches, and the levels that choose among it, as `show_components` does.

    Args:
        kind: key of the JSON object.
        searchers: name of their kind.
        output_format: `text` or `json`.
        effort: what the text says of a level.
    """
    found = component_rows(REGISTRIES[searchers], described)
    efforts = component_rows(REGISTRIES["level"], lambda _name, level: dataclasses.asdict(level))
    if output_format == "json":
        show_json({kind: found, "levels": efforts})
        return
    show_components(kind, found, output_format)
    click.echo("\nlevels")
    rows = [{**row, "name": f"-O{row['name']}", "summary": effort(row)} for row in efforts]
    show_components("levels", rows, "text")


def _from(row: Row) -> str:
    extra = row.get("extra")
    needs = f", needs mcm-compiler[{extra}]" if extra else ""
    return f"[{row['origin']}{needs}]"


def option_rows(cls: Any) -> list[Row]:
    """The options of a component that is a dataclass: name, type and default of each field."""
    if not dataclasses.is_dataclass(cls):
        return []
    return [
        {"name": field.name, "type": _type_text(field.type), "default": _default_text(field)}
        for field in dataclasses.fields(cls)
        if field.init
    ]


def options_text(options: list[Row]) -> str:
    """Options as they are written in a pipeline: `max_group=8, rules=all`."""
    return ", ".join(
        f"{o['name']}={o['default']}" if o["default"] is not None else f"{o['name']}=(required)"
        for o in options
    )


def _type_text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")


def _default_text(field: dataclasses.Field[Any]) -> str | None:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return None
    return value_text(value)
