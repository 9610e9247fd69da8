"""The options of a compile in its report, from the fields of their record."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from mcm_compiler.text.json_text import Amount, Extent, Index, Seed, Size
from mcm_compiler.text.option_fields import Option, options_of

_TYPES: dict[str, Any] = {
    "text": str,
    "file": str,
    "level": Index | str,
    "duration": Amount,
    "rate": Amount,
    "flag": bool,
    "switch": bool,
    "places": list[Index],
    "pins": list[tuple[str, Index]],
    "sizes": dict[str, Size],
    "shapes": dict[str, list[Size]],
    "pairs": list[tuple[str, str]],
}
"""By the form of an option."""


def options_record(name: str, record: type) -> Any:
    """The `TypedDict` of the options of a record; a report of an earlier release may lack any."""
    options = [one for one in options_of(record) if one.reported != "elsewhere"]
    # The function of that name is asked for a type that no reader of the source knows.
    made: Any = TypedDict(name, {one.name: _type(one) for one in options}, total=False)  # pyright: ignore
    lines = [f"    {one.name}: {one.help}" for one in options]
    made.__doc__ = "\n".join(["Options as given; null for the default.", "", "Attributes:", *lines])
    return made


def _type(option: Option) -> Any:
    if option.form == "choice":
        kind: Any = Literal[option.choices]
    elif option.form == "whole":
        kind = Extent if option.low else Seed
    else:
        kind = _TYPES[option.form]
    return kind | None if option.default is None and option.reported == "always" else kind
