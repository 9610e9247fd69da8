"""Options as data: a field of a record of options says its flag, key, range and help.

Options of the command line, keys of project files, checks, reports, completion and documents follow
from what `asked` notes of a field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from mcm_compiler.diagnostics import CompileError, Diagnostic

T = TypeVar("T")


@dataclass(frozen=True)
class Allowed:
    """The values that an option may have.

    Attributes:
        words: how messages say what the others are not, such as `at least 1`.
        holds: whether a value is one of them; false of what is not a number.
    """

    words: str
    holds: Callable[[Any], bool]


def at_least(least: float) -> Allowed:
    """Numbers from `least` on."""
    return Allowed(f"at least {least}", lambda value: value >= least)


def above(bound: float) -> Allowed:
    """Numbers above `bound`."""
    return Allowed(f"above {bound}", lambda value: value > bound)


def between(low: float, high: float) -> Allowed:
    """Numbers between two, neither of which is allowed."""
    return Allowed(f"between {low} and {high}", lambda value: low < value < high)


def from_to(low: float, high: float) -> Allowed:
    """Numbers between two, both of which are allowed."""
    return Allowed(f"from {low} to {high}", lambda value: low <= value <= high)


def even(low: int, high: int) -> Allowed:
    """Even numbers between two, both of which are allowed."""
    return Allowed(
        f"an even number from {low} to {high}",
        lambda value: low <= value <= high and value % 2 == 0,
    )


def one_of(names: Collection[str]) -> Allowed:
    """Names; of a registry also those that come later."""
    return Allowed(f"one of {', '.join(names)}", lambda value: value in names)


def checked(**options: Allowed) -> Callable[[type[T]], type[T]]:
    """Decorator, below `dataclass`, that refuses instances with options out of range.

    A `ValueError` names the first such option in the order given here, with its value. What the
    class checks in a `__post_init__` of its own comes afterwards.
    """

    def decorate(cls: type[T]) -> type[T]:
        further: Callable[[T], None] | None = getattr(cls, "__post_init__", None)

        def check(self: T) -> None:
            for name, allowed in options.items():
                value = getattr(self, name)
                if not allowed.holds(value):
                    shown = repr(value) if isinstance(value, str) else value
                    raise ValueError(f"{name} is {shown}, not {allowed.words}")
            if further is not None:
                further(self)

        cls.__post_init__ = check  # pyright: ignore[reportAttributeAccessIssue]
        return cls

    return decorate


def with_options(record: T, options: Any) -> T:
    """The dataclass `record` with the values of all fields that `options` has, too."""
    names = [field.name for field in dataclasses.fields(cast("Any", record))]
    given = {name: getattr(options, name) for name in names if hasattr(options, name)}
    return dataclasses.replace(cast("Any", record), **given)


Form = Literal[
    "text", "file", "level", "choice", "whole", "duration", "rate", "flag", "switch", "places",
    "pins", "sizes", "limits", "shapes", "pairs", "patterns", "named pins", "costs by kind",
    "profiles", "path", "paths", "new file", "new model", "percentage", "settings",
    "choices",
]  # fmt: skip
"""Of values. A `flag` is on or not given, a `switch` on, off or not given; a `new file` or model is
one that the command line writes."""

Group = Literal["", "Input", "Target", "Search", "Verification"]
"""Sections of the help; empty for the last one."""

MOST_CHIPS = 2**31
"""Places of chips are below."""


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        name: of the field.
        form: of its values.
        group: section of the help.
        help: text for the command line and for the report's schema.
        default: where it is not given.
        flag: on the command line.
        key: in a project file; None where that has no key of its own.
        metavar: of its value in the help.
        names: registry whose names a shell completes, such as `STRATEGIES`, and further words
            behind it; `FILE` among them for files. `PIPELINE` for passes, `MODELS` for models,
            `CODES` for diagnostics.
        choices: of a `choice`.
        shown: default in the help; by default that of the field where it is a word or number.
        low: least value.
        high: largest value.
        each: word for one of several values in messages.
        reported: in the report: always, where it is `given`, or `elsewhere`.
        short: flag of one letter.
        required: whether the command line must have it.
        hidden: whether the help leaves it out.
    """

    name: str
    form: Form
    group: Group
    help: str
    default: Any
    flag: str
    key: str | None
    metavar: str | None = None
    names: str = ""
    choices: tuple[str, ...] = ()
    shown: str | None = None
    low: int | None = None
    high: int | None = None
    each: str = ""
    reported: Literal["always", "given", "elsewhere"] = "always"
    short: str = ""
    required: bool = False
    hidden: bool = False

    def faults(self, value: Any) -> list[str]:
        """How a value, of the type of its field, is out of range."""
        if self.form == "shapes":
            return [
                f"shape of '{name}' is {','.join(map(str, shape))}; each dim must be at least 0"
                for name, shape in value.items()
                if any(dim < 0 for dim in shape)
            ]
        if self.form == "pins":
            return [
                f"pin of '{name}' is chip {chip}, not between 0 and {MOST_CHIPS - 1}"
                for name, chip in value
                if not 0 <= chip < MOST_CHIPS
            ]
        if self.form == "places":
            return [f"{self.each} {place} is negative" for place in value if place < 0]
        if self.form == "sizes":
            return [f"{self.each} '{k}' is {v}, not at least 0" for k, v in value.items() if v < 0]
        if self.form == "choice" and value is not None and value not in self.choices:
            return [f"{self.name} is '{value}', not {' or '.join(self.choices)}"]
        if self.low is None or value is None or isinstance(value, str):
            return []
        if self.form == "duration":
            fits = self.low < value < float("inf")
            return [] if fits else [f"{self.name} is {value}, not a positive number of seconds"]
        if value < self.low:
            return [f"{self.name} is {value}, not at least {self.low}"]
        if self.high is not None and value > self.high:
            most = "2^63 - 1" if self.high == 2**63 - 1 else self.high
            return [f"{self.name} is {value}, more than {most}"]
        return []


def asked(form: Form, group: Group, help: str, default: Any = None, **facts: Any) -> Any:
    """A field of a frozen dataclass of options.

    Args:
        form: of its values.
        group: section of the help.
        help: text for the command line and for the report's schema.
        default: its value where it is not given; a `flag` is off.
        facts: further attributes of its `Option`.
    """
    if form == "flag":
        default = False
    noted: dict[str, Any] = {"form": form, "group": group, "help": help, **facts}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict[str, Any], metadata=noted)
    return dataclasses.field(default=default, metadata=noted)


def same_as(record: type, name: str) -> Any:
    """A field that is the same option as a field of another record."""
    (field,) = (one for one in dataclasses.fields(cast("Any", record)) if one.name == name)
    if field.default is dataclasses.MISSING:
        return dataclasses.field(default_factory=dict[str, Any], metadata=field.metadata)
    return dataclasses.field(default=field.default, metadata=field.metadata)


def seed_field() -> Any:
    """The option `--seed`."""
    return asked("whole", "Search", "Seed of everything random.", 0, low=0, high=2**63 - 1)


def check_options(record: object, further: Callable[[], list[str]] = list[str]) -> None:
    """Take the types of the fields of a record, and check their ranges.

    Args:
        record: the record, as its `__post_init__` has it.
        further: faults that single ranges do not show.

    Raises:
        CompileError: MCM-U004 with one diagnostic per value of another type, or else out of range.
    """
    # Most verbs have options and no record of them.
    from mcm_compiler.text.spec_text import take_types

    take_types(record)
    if faults := range_faults(record) + further():
        raise CompileError([Diagnostic("MCM-U004", fault) for fault in faults])


def options_of(record: type) -> list[Option]:
    """The options of a record, in the order of its fields."""
    fields = dataclasses.fields(cast("Any", record))
    return [option_of(field.name, field) for field in fields if field.metadata]


def option_of(name: str, field: dataclasses.Field[Any]) -> Option:
    """The option that `asked` notes.

    Args:
        name: of the field, or of a parameter with this default.
        field: as `asked` made it.
    """
    flag = f"--{name.replace('_', '-')}"
    facts: dict[str, Any] = {"flag": flag, "key": name, **field.metadata}
    default = field.default if field.default is not dataclasses.MISSING else {}
    return Option(name, default=default, **facts)


def range_faults(record: object) -> list[str]:
    """How values of a record are out of the ranges of their fields."""
    return [
        fault
        for option in options_of(type(record))
        for fault in option.faults(getattr(record, option.name))
    ]


def plain_options(record: object) -> dict[str, Any]:
    """The values of a record for its report: lists for tuples, names in order."""
    found: dict[str, Any] = {}
    for option in options_of(type(record)):
        value = getattr(record, option.name)
        if option.reported == "always" or (option.reported == "given" and value is not None):
            found[option.name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        return {name: _plain(named[name]) for name in sorted(named)}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
