"""Types of command-line values, and the options that many verbs share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from mcm_compiler.diagnostics import Diagnostic

F = TypeVar("F", bound=Callable[..., Any])

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(ms|s|m|min|h)?")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*%")
_RATE = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,15}(?:\.[0-9]*)?(?:e[0-9]{1,2})?")
_SECONDS_OF = {None: 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

MAX_SEED = 2**63 - 1

SEED = click.IntRange(0, MAX_SEED)
FILE = click.Path(path_type=Path)


def parse_dimension(text: str) -> tuple[str, int]:
    """`name=N`: the size of a symbolic dimension.

    Raises:
        click.BadParameter: for anything else.
    """
    name, equals, size = text.rpartition("=")
    if not equals or not name:
        raise click.BadParameter(f"'{text}' is not of the form name=N, such as batch=1")
    if not _is_whole(size):
        raise click.BadParameter(f"'{size}' in '{text}' is not a whole number")
    return name, int(size)


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`input=1,128`: the full shape of a graph input.

    Raises:
        click.BadParameter: for anything else.
    """
    name, equals, shape = text.rpartition("=")
    if not equals or not name or not shape:
        raise click.BadParameter(f"'{text}' is not of the form input=N,N, such as ids=1,128")
    sizes = shape.split(",")
    for size in sizes:
        if not _is_whole(size):
            raise click.BadParameter(f"'{size}' in '{text}' is not a whole number")
    return name, tuple(map(int, sizes))


def parse_pin(text: str) -> tuple[str, int]:
    """`name=N`: the chip of an op, of a group, or of all whose names match a pattern.

    Raises:
        click.BadParameter: for anything else.
    """
    name, equals, chip = text.rpartition("=")
    if not equals or not name:
        raise click.BadParameter(f"'{text}' is not of the form name=N, such as '/layer.0/*=0'")
    if not _is_whole(chip) or int(chip) >= 2**31:
        raise click.BadParameter(f"'{chip}' in '{text}' is not a number of a chip")
    return name, int(chip)


def parse_named_pin(text: str) -> tuple[str, str]:
    """`pattern=name`: the device, or the kind of device, of ops.

    Raises:
        click.BadParameter: for anything else.
    """
    pattern, equals, name = text.rpartition("=")
    if not equals or not pattern or not name:
        raise click.BadParameter(f"'{text}' is not of the form pattern=name, such as 'fc*=gpu:0'")
    return pattern, name


def parse_profile(text: str) -> tuple[str, Path]:
    """`kind=file`: a kind of device, and a profile of ops on it.

    Raises:
        click.BadParameter: for anything else.
    """
    kind, equals, path = text.partition("=")
    if not equals or not kind or not path:
        raise click.BadParameter(f"'{text}' is not of the form kind=file, such as 'k40=run.json'")
    return kind, Path(path)


def parse_device_costs(text: str) -> tuple[str, str]:
    """`kind=model`: a kind of device, and the text form of a cost model.

    Raises:
        click.BadParameter: for anything else.
    """
    kind, equals, model = text.partition("=")
    if not equals or not kind or not model or "{" in kind:
        raise click.BadParameter(
            f"'{text}' is not of the form kind=model, such as 'k40=table{{file=times.csv}}'; each "
            "kind of device has a cost model of its own"
        )
    return kind, model


NO_STATES = "none"
"""What `--state` takes to switch states off."""


def parse_states(texts: Sequence[str]) -> tuple[tuple[str, str], ...] | None:
    """`past=present` of every state; empty for `none`, None where nothing is given.

    Raises:
        click.BadParameter: for anything else, and for `none` beside a state.
    """
    if not texts:
        return None
    if list(texts) == [NO_STATES]:
        return ()
    pairs: list[tuple[str, str]] = []
    for text in texts:
        past, equals, present = text.partition("=")
        if not equals or not past or not present:
            raise click.BadParameter(
                f"'{text}' is not of the form past=present, or none by itself",
                param_hint="'--state'",
            )
        pairs.append((past, present))
    return tuple(pairs)


def parse_level(text: str) -> int | str:
    """`2`, the name of a level, or the path of a description."""
    return int(text) if _is_whole(text) else text


def parse_setting(text: str) -> tuple[str, str]:
    """`option=value`: an option of a component by its name; the value is any text.

    Raises:
        click.BadParameter: for anything else.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"'{text}' is not of the form option=value, such as samples=400")
    return name.strip(), value


def parse_duration(text: str) -> float:
    """Seconds of `60s`, `500ms`, `2m`, `1h`, or of a plain number.

    Raises:
        click.BadParameter: for anything else, and for nothing at all.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"'{text}' is not a duration such as 60s, 500ms or 2m")
    seconds = float(found.group(1)) * _SECONDS_OF[found.group(2)]
    if not 0 < seconds < float("inf"):
        raise click.BadParameter(f"'{text}' is not longer than nothing")
    return seconds


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
    found = _PERCENT.fullmatch(text.strip())
    if found is None or float(found.group(1)) >= 100:
        raise click.BadParameter(f"'{text}' is not a percentage below 100, such as 3%")
    return float(found.group(1)) / 100


def format_option(*further: str) -> Callable[[F], F]:
    """`--format text|json`, and `further` formats of this verb; parameter `output_format`."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json", *further]),
        default="text",
        show_default=True,
        help="Form of the result.",
    )


def plugin_option(function: F) -> F:
    """`--plugin FILE`, repeatable; parameter `plugin`, for `load_plugins`."""
    return click.option(
        "--plugin",
        type=FILE,
        multiple=True,
        help="Python file whose decorators register components. Repeatable.",
    )(function)


def load_plugins(paths: tuple[Path, ...]) -> None:
    """Runs the files of `--plugin`.

    Raises:
        CompileError: as `load_plugin`.
    """
    from mcm_compiler.plugin_files import load_plugin

    for path in paths:
        load_plugin(path)


def old_spelling(flag: str, instead: str) -> Diagnostic:
    """MCM-U007, a note.

    Args:
        flag: the option as it was written.
        instead: what to write from now on.
    """
    from mcm_compiler.diagnostics import Diagnostic

    return Diagnostic(
        "MCM-U007",
        f"{flag} is the old spelling of an option, and goes with the next release",
        at=f"option {flag}",
        hint=f"write {instead}",
    )


def force_option(function: F) -> F:
    """`--force`; parameter `force`."""
    return click.option("--force", is_flag=True, help="Replace what is there already.")(function)


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


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
