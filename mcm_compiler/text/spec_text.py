"""The text form of a thing with options: `fuse{max_group=8}`, and of lists of them.

Passes and zoo models are frozen dataclasses whose fields are their options. This module parses
such text, builds the dataclass with each field converted to its annotated type, and prints it
back; `parse` and `print` are inverse to each other.

    spec  := name [ "{" option ("," option)* "}" ]
    list  := spec ("," spec)*
    option := field "=" value          value: bare word or "quoted text"
"""

from __future__ import annotations

import contextlib
import dataclasses
import numbers
import operator
import os
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote

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


MAX_SHOWN = 60
"""Characters of a value in a message."""

_WORDS = {
    bool: ("True or False", "truth values"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a text", "texts"),
    NoneType: ("None", "None"),
}
"""One value of a type, and several of them."""


def take_types(record: object) -> None:
    """Brings the fields of a frozen dataclass to the types that it declares, in place.

    Raises:
        CompileError: MCM-U004 for each that is of another type.
    """
    kinds = get_type_hints(type(record))
    faults: list[Diagnostic] = []
    for field in dataclasses.fields(cast("Any", record)):
        value, kind = getattr(record, field.name), kinds[field.name]
        try:
            object.__setattr__(record, field.name, _taken(value, kind))
        except _MisfitError:
            faults.append(_misfit(field.name, value, _words(kind)))
    CompileError.raise_any(faults)


def refuse_argument(name: str, value: object, wanted: str, hint: str | None = None) -> CompileError:
    """The error for an argument of a function that is of another type than `wanted` says."""
    return CompileError(_misfit(name, value, wanted, hint))


class _MisfitError(Exception):
    """A value is not of a type."""


def _misfit(name: str, value: object, wanted: str, hint: str | None = None) -> Diagnostic:
    shown = value if isinstance(value, str) else _shown(value)
    if len(shown) > MAX_SHOWN:
        shown = f"{shown[:MAX_SHOWN]}..."
    text = quote(shown) if isinstance(value, str) else quote(shown)[1:-1]
    return Diagnostic("MCM-U004", f"{name} is {text}, not {wanted}", hint=hint)


def _shown(value: object) -> str:
    plain = isinstance(value, (int, float, bytes, list, tuple, dict, NoneType, os.PathLike))
    return repr(cast("object", value)) if plain else f"of the type {type(value).__qualname__}"


def _taken(value: Any, kind: Any) -> Any:
    """A value as one of a type.

    Raises:
        _MisfitError: if it is none.
    """
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return _one_of(value, arguments)
    if origin is tuple:
        return _listed(value, arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise _MisfitError
        of_key, of_value = arguments
        given = cast("Mapping[Any, Any]", value)
        return {_taken(k, of_key): _taken(v, of_value) for k, v in given.items()}
    if origin is Literal:
        if isinstance(value, str) and value in arguments:
            return value
        raise _MisfitError
    return _plain(value, kind)


def _one_of(value: Any, kinds: tuple[Any, ...]) -> Any:
    for kind in kinds:
        try:
            return _taken(value, kind)
        except _MisfitError:
            continue
    raise _MisfitError


def _listed(value: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """A tuple of what `value` lists; of a mapping its pairs, where pairs are asked for."""
    any_length = arguments[-1:] == (...,)
    if isinstance(value, Mapping) and any_length and get_origin(arguments[0]) is tuple:
        items = list(cast("Mapping[Any, Any]", value).items())
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        items = list(cast("Iterable[Any]", value))
    else:
        raise _MisfitError
    kinds = arguments[:1] * len(items) if any_length else arguments
    if len(kinds) != len(items):
        raise _MisfitError
    taken = tuple(_taken(item, kind) for item, kind in zip(items, kinds, strict=True))
    # The order of a set differs from process to process.
    return tuple(sorted(taken)) if isinstance(value, (set, frozenset)) else taken


def _plain(value: Any, kind: Any) -> Any:
    if kind is str:
        text = os.fspath(value) if isinstance(value, os.PathLike) else value
        if isinstance(text, str):
            return text
    elif kind is bool:
        if isinstance(value, bool):
            return value
    elif kind is NoneType:
        if value is None:
            return None
    elif isinstance(value, bool):
        pass  # no number
    elif kind is int:
        if isinstance(value, numbers.Integral):
            return operator.index(cast("Any", value))
    elif kind is float:
        if isinstance(value, numbers.Real):
            with contextlib.suppress(OverflowError):
                number = float(value)
                return value if isinstance(value, (int, float)) else number
    else:
        return value
    raise _MisfitError


def _words(kind: Any, several: bool = False) -> str:
    """Name of a type: `a tuple of whole numbers`."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(_words(one, several) for one in arguments)
    if origin is tuple and arguments[-1:] == (...,):
        return f"{'tuples' if several else 'a tuple'} of {_words(arguments[0], True)}"
    if origin is tuple:
        each = " and ".join(_words(one) for one in arguments)
        return f"{'pairs' if several else 'a pair'} of {each}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        of_key, of_value = arguments
        name = "mappings" if several else "a mapping"
        return f"{name} of {_words(of_key, True)} to {_words(of_value, True)}"
    if origin is Literal:
        return " or ".join(filter(None, (", ".join(arguments[:-1]), arguments[-1])))
    return _WORDS[kind][several]
