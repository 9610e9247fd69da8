"""Targets with other numbers: the description of one, with some of its keys set anew."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from mcm_compiler.components.cost_choice import TakesCostModel, choice_of
from mcm_compiler.components.cost_files import COST_KEY
from mcm_compiler.components.target_loading import package_from_text, target_from_text
from mcm_compiler.contracts.cluster import ClusterTarget
from mcm_compiler.contracts.described import Described
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.text.toml_description import parse_description, to_toml

Value = bool | int | float | str
"""What a key can be set to."""

T = TypeVar("T", bound=Described)


@dataclass(frozen=True)
class ChangedTarget(Generic[T]):
    """A target whose description was changed.

    Attributes:
        target: with the cost model of the original, where one was chosen.
        text: its description without comments: equal for equal content.
    """

    target: T
    text: str


def value_of(target: Described, key: str) -> Value | None:
    """What the description of a target says under a dotted key; None where it says nothing.

    A table in an array is found by its `name`: `chip.small.sram_mib` is a key of that kind of chip.
    """
    at: Any = parse_description(target.name, target.source_text).data
    for part in key.split("."):
        at = _inside(at, part)
    return at if isinstance(at, bool | int | float | str) else None


def changed_target(target: T, changes: Mapping[str, Value]) -> ChangedTarget[T]:
    """The target with other values under some keys.

    Args:
        target: a package of chips or a cluster, as it was loaded.
        changes: by dotted key; those that the description lacks are added.

    Raises:
        CompileError: MCM-T001 to MCM-T008 for what makes no valid target, such as MCM-T002 for a
            key that does not exist; the place is the key.
    """
    data = copy.deepcopy(dict(parse_description(target.name, target.source_text).data))
    choice = choice_of(target)
    if choice is not None:
        data.pop(COST_KEY[0], None)
    for key, value in changes.items():
        _set(data, key, value, target.name)
    text = to_toml(data)
    made = package_from_text if isinstance(target, ClusterTarget) else target_from_text
    package: Any = made(target.name, text)
    if choice is not None and isinstance(package, TakesCostModel):
        package = package.with_cost_model(choice)
    return ChangedTarget(cast("T", package), content_text(text))


def content_text(text: str) -> str:
    """A description in a form that is equal for equal content: sorted, and numbers as floats."""
    return to_toml(_normal(parse_description("target", text).data))


def _set(data: dict[str, Any], key: str, value: Value, name: str) -> None:
    *tables, leaf = key.split(".")
    at: Any = data
    for depth, part in enumerate(tables, start=1):
        inner = at.setdefault(part, {}) if isinstance(at, dict) else _inside(at, part)
        if not isinstance(inner, dict) and not (isinstance(inner, list) and depth < len(tables)):
            raise CompileError.of(
                "MCM-T002",
                f"{quote('.'.join(tables[:depth]))} is no table",
                at=f"{name}: {quote(key)}",
                hint=f"`mcmc targets show {name}` lists all keys",
            )
        at = cast("dict[str, Any] | list[Any]", inner)
    at[leaf] = value


def _inside(at: Any, part: str) -> Any:
    """The value of a key of a table, or the table of that name in an array; None if none is."""
    if isinstance(at, list):
        tables = (cast("Mapping[str, Any]", one) for one in at if isinstance(one, Mapping))
        return next((table for table in tables if table.get("name") == part), None)
    return cast("Mapping[str, Any]", at).get(part) if isinstance(at, Mapping) else None


def _normal(value: Any) -> Any:
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        return {key: _normal(table[key]) for key in sorted(table)}
    if isinstance(value, list):
        return [_normal(one) for one in cast("list[Any]", value)]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
