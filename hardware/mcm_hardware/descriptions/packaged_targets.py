"""Targets that come with the compiler; their descriptions are packaged TOML files."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import TypeVar

T = TypeVar("T")


def packaged(
    make: Callable[[str, str], T], package: str, *names: str
) -> tuple[Callable[[], T], ...]:
    """Functions that make the targets of a family, each of them once.

    Args:
        make: makes a target from its name and its description.
        package: whose folder `targets` has the descriptions.
        names: of the targets.
    """

    def maker(name: str) -> Callable[[], T]:
        @cache
        def target() -> T:
            path = files(package) / "targets" / f"{name}.toml"
            return make(name, path.read_text(encoding="utf-8"))

        return target

    return tuple(map(maker, names))
