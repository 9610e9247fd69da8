"""Options from Python code: values of the types of their fields, or a diagnostic that says so.

What means the same is taken, too: a path where the text of one is asked for, an array's number
where a number is, a list where a tuple is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import numbers
import operator
import os
from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote

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
