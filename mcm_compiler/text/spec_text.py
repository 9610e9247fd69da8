"""The text form of a thing with options: `fuse{max_group=8}`, and of lists of them.

Passes and zoo models are frozen dataclasses whose fields are their options. This module parses
such text, builds the dataclass with each field converted to its annotated type, and prints it
back; `parse` and `print` are inverse to each other.

    spec  := name [ "{" option ("," option)* "}" ]
    list  := spec ("," spec)*
    option := field "=" value          value: bare word or "quoted text"
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mcm_compiler.diagnostics import CompileError

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_BARE = re.compile(r'[^\s,{}="]+')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Spec:
    """A parsed `name{option=value,...}`; values are still text."""

    name: str
    options: tuple[tuple[str, str], ...] = ()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, expected: str) -> CompileError:
        found = repr(self.text[self.at]) if self.at < len(self.text) else "the end"
        return CompileError.of(
            "MCM-U001",
            f"expected {expected} at column {self.at + 1}, found {found}",
            at=f"'{self.text}'",
        )

    def skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def done(self) -> bool:
        self.skip_space()
        return self.at >= len(self.text)

    def take(self, literal: str) -> bool:
        self.skip_space()
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        return False

    def match(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        self.skip_space()
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.fail(expected)
        self.at = found.end()
        return found

    def value(self) -> str:
        self.skip_space()
        if self.text.startswith('"', self.at):
            quoted = self.match(_QUOTED, "a closing quote").group(1)
            return re.sub(r"\\(.)", r"\1", quoted)
        return self.match(_BARE, "a value").group()

    def spec(self) -> Spec:
        name = self.match(_NAME, "a name").group()
        options: list[tuple[str, str]] = []
        if self.take("{"):
            while not self.take("}"):
                if options and not self.take(","):
                    raise self.fail("',' or '}'")
                field = self.match(_NAME, "an option name").group()
                if not self.take("="):
                    raise self.fail("'='")
                options.append((field, self.value()))
        return Spec(name, tuple(options))


def parse_list(text: str) -> tuple[Spec, ...]:
    """Parses `a,b{x=1},c`.

    Raises:
        CompileError: MCM-U001 with the column of the fault.
    """
    reader = _Reader(text)
    specs: list[Spec] = []
    while True:
        specs.append(reader.spec())
        if reader.done():
            return tuple(specs)
        if not reader.take(","):
            raise reader.fail("','")


def parse_one(text: str) -> Spec:
    """Parses one `name{option=value}`.

    Raises:
        CompileError: MCM-U001 with the column of the fault.
    """
    reader = _Reader(text)
    spec = reader.spec()
    if not reader.done():
        raise reader.fail("the end")
    return spec


def instantiate(cls: type[T], spec: Spec) -> T:
    """Builds the dataclass `cls` with its fields set from the options of `spec`.

    Raises:
        CompileError: MCM-U002 for an unknown, repeated or unconvertible option, and for a value
            that the class itself refuses with ValueError.
        TypeError: if `cls` is no dataclass; one that only inherits from one would lose options.
    """
    if "__dataclass_fields__" not in vars(cls):
        raise TypeError(f"class {cls.__qualname__} has no @dataclass(frozen=True)")
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # pyright: ignore[reportArgumentType]
    hints = typing.get_type_hints(cls) if spec.options else {}
    known = ", ".join(sorted(fields)) or "none"
    values: dict[str, Any] = {}
    for key, text in spec.options:
        if key not in fields:
            raise _refused(spec, f"'{spec.name}' has no option '{key}'", f"its options: {known}")
        if key in values:
            raise _refused(spec, f"option '{key}' of '{spec.name}' is given twice", None)
        try:
            values[key] = _convert(text, hints[key])
        except ValueError as error:
            raise _refused(spec, f"option '{key}' of '{spec.name}': {error}", None) from None
    missing = [
        f.name
        for f in fields.values()
        if f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
        and f.name not in values
    ]
    if missing:
        raise _refused(spec, f"'{spec.name}' needs the option '{missing[0]}'", None)
    try:
        return cls(**values)
    except ValueError as error:
        raise _refused(spec, f"'{spec.name}': {error}", None) from None


def print_one(name: str, instance: object) -> str:
    """The text form of a dataclass instance; options at their default are left out."""
    shown: list[str] = []
    for field in dataclasses.fields(instance):  # pyright: ignore[reportArgumentType]
        value = getattr(instance, field.name)
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if field.init and value != default:
            shown.append(f"{field.name}={print_value(value)}")
    return f"{name}{{{','.join(shown)}}}" if shown else name


def _refused(spec: Spec, message: str, hint: str | None) -> CompileError:
    return CompileError.of("MCM-U002", message, at=f"'{spec.name}'", hint=hint)


def print_value(value: object) -> str:
    """The text form of an option's value, in quotes where it needs them."""
    text = value_text(value)
    if _BARE.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def value_text(value: object) -> str:
    """The text form of an option's value, without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ";".join(value_text(item) for item in typing.cast("Sequence[object]", value))
    return "none" if value is None else str(value)


def _convert(text: str, hint: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        arms = typing.get_args(hint)
        if type(None) in arms and text.lower() == "none":
            return None
        hint = next(arm for arm in arms if arm is not type(None))
        origin = typing.get_origin(hint)
    if origin is typing.Literal:
        choices = typing.get_args(hint)
        for choice in choices:
            if str(choice) == text:
                return choice
        raise ValueError(f"'{text}' is not one of {', '.join(map(str, choices))}")
    if origin is tuple:
        item = typing.get_args(hint)[0]
        return tuple(_convert(part, item) for part in text.split(";") if part)
    if hint is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ValueError(f"'{text}' is not true or false")
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            kind = "a whole number" if hint is int else "a number"
            raise ValueError(f"'{text}' is not {kind}") from None
    if hint is str:
        return text
    raise ValueError(f"the type {hint} cannot be given as text")
