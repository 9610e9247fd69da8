"""Ranges of a component's options, declared above its class.

As in

    @dataclass(frozen=True)
    @checked(batch=at_least(1), share=between(0, 1))
    class Sampling:
        batch: int = 256
        share: float = 0.5
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar, cast

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
