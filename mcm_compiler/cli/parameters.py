"""Values of the command line from their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from mcm_compiler.text.units import SECONDS_OF, read_amount, read_percentage

_RATE = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,15}(?:\.[0-9]*)?(?:e[0-9]{1,2})?")

MAX_SEED = 2**63 - 1


class _UnfitError(ValueError):
    """The part of a value that does not fit, and what would."""


def _pair(
    form: str,
    example: str,
    right: Callable[[str], Any] = str,
    first: bool = False,
    least: int = 1,
    never: str = "",
    hint: str | None = None,
) -> Callable[[str], tuple[str, Any]]:
    """A parser of `NAME=VALUE`.

    Args:
        form: of the text, in messages.
        example: of one, in messages.
        right: makes the value.
        first: whether the first `=` parts the two; else the last does.
        least: characters of the value.
        never: a character that the name must not have.
        hint: the option, where click does not know it.

    Returns:
        A function from a text, which raises `click.BadParameter` for anything else.
    """

    def parse(text: str) -> tuple[str, Any]:
        name, equals, value = text.partition("=") if first else text.rpartition("=")
        forbidden = never != "" and never in name
        if not equals or not name or len(value) < least or forbidden:
            message = f"'{text}' is not of the form {form}, such as {example}"
            raise click.BadParameter(message, param_hint=hint)
        try:
            return name, right(value)
        except _UnfitError as error:
            part, what = error.args
            raise click.BadParameter(f"'{part}' in '{text}' is not {what}") from error

    return parse


def _whole(text: str, above: int = 10**18, what: str = "a whole number") -> int:
    if not _is_whole(text) or int(text) >= above:
        raise _UnfitError(text, what)
    return int(text)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


parse_dimension = _pair("name=N", "batch=1", _whole, least=0)
"""`name=N`: the size of a symbolic dimension."""

parse_shape = _pair("input=N,N", "ids=1,128", lambda text: tuple(map(_whole, text.split(","))))
"""`input=1,128`: the full shape of a graph input."""

parse_pin = _pair(
    "name=N", "'/layer.0/*=0'", lambda text: _whole(text, 2**31, "a number of a chip"), least=0
)
"""`name=N`: the chip of an op, of a group, or of all whose names match a pattern."""

parse_named_pin = _pair("pattern=name", "'fc*=gpu:0'")
"""`pattern=name`: the device, or the kind of device, of ops."""

parse_profile = _pair("kind=file", "'k40=run.json'", Path, first=True)
"""`kind=file`: a kind of device, and a profile of ops on it."""

parse_setting = _pair("option=value", "samples=400", first=True, least=0)
"""`option=value`: an option of a component by its name; the value is any text."""

parse_device_costs = _pair(
    "kind=model",
    "'k40=table{file=times.csv}'; each kind of device has a cost model of its own",
    first=True,
    never="{",
)
"""`kind=model`: a kind of device, and the text form of a cost model."""

_state = _pair("past=present", "cache=new_cache; or none by itself", first=True, hint="'--state'")

NO_STATES = "none"
"""Value of `--state` that switches states off."""


def parse_states(texts: Sequence[str]) -> tuple[tuple[str, str], ...] | None:
    """`past=present` of every state; empty for `none`, None where nothing is given.

    Raises:
        click.BadParameter: for anything else, and for `none` next to a state.
    """
    if not texts:
        return None
    return () if list(texts) == [NO_STATES] else tuple(map(_state, texts))


def parse_choices(choices: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """A parser of `a,b`: some of the choices, each once.

    Args:
        choices: all of them.

    Returns:
        A function from a text, which raises `click.BadParameter` for anything else.
    """

    def parse(text: str) -> tuple[str, ...]:
        wanted = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
        for name in wanted:
            if name not in choices:
                raise click.BadParameter(f"'{name}' is not one of {', '.join(choices)}")
        return wanted

    return parse


def parse_level(text: str) -> int | str:
    """`2`, the name of a level, or the path of a description."""
    return int(text) if _is_whole(text) else text


def parse_duration(text: str) -> float:
    """Seconds of `60s`, `500ms`, `2m`, `1h`, or of a plain number.

    Raises:
        click.BadParameter: for anything else, and for nothing at all.
    """
    seconds = read_amount(text, {**SECONDS_OF, "": 1.0})
    if seconds is None:
        raise click.BadParameter(f"'{text}' is not a duration such as 60s, 500ms or 2m")
    if not 0 < seconds < float("inf"):
        raise click.BadParameter(f"'{text}' is not longer than nothing")
    return seconds


def parse_limits(text: str) -> dict[str, float]:
    """Durations by name, of `tpot=50ms,ttft=1s`.

    Raises:
        click.BadParameter: for anything else.
    """
    parts = [part.strip().partition("=") for part in text.split(",")]
    if not all(name and equals for name, equals, _ in parts):
        raise click.BadParameter(f"'{text}' is not of the form tpot=50ms,ttft=1s")
    pairs = tuple((name, parse_duration(value)) for name, _, value in parts)
    return once_each(text, pairs)


def parse_rate(text: str) -> float:
    """Inferences per second: `10000`, `2.5e4` or `10,000`.

    Raises:
        click.BadParameter: for anything else, and for nothing at all.
    """
    found = _RATE.fullmatch(text.strip())
    rate = float(found.group().replace(",", "")) if found is not None else 0.0
    if not 0 < rate < float("inf"):
        raise click.BadParameter(
            f"'{text}' is not a number of inferences per second above 0, such as 10000"
        )
    return rate


def parse_percentage(text: str) -> float:
    """The share that `3%` or `2.5 %` means: 0.03 or 0.025, less than 1.

    Raises:
        click.BadParameter: for anything else.
    """
    share = read_percentage(text)
    if share is None or share >= 1:
        raise click.BadParameter(f"'{text}' is not a percentage below 100, such as 3%")
    return share


def once_each(flag: str, pairs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """The pairs of a repeatable option as a mapping.

    Raises:
        click.BadParameter: if a name is given twice.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise click.BadParameter(f"'{name}' is given twice", param_hint=f"'{flag}'")
        found[name] = value
    return found
