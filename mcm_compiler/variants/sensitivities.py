"""Effects of changes of hardware: the same model with twice and half of each resource.

Targets with other numbers: the description of one, with some of its keys set again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from mcm_compiler.components.cost_choice import TakesCostModel, choice_of
from mcm_compiler.components.cost_files import COST_KEY
from mcm_compiler.components.target_loading import package_from_text
from mcm_compiler.contracts.described import Described
from mcm_compiler.contracts.replication import Placement
from mcm_compiler.contracts.target import NamesResources, OrdersKeys, Resource, Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes.side_by_side import usable_cores
from mcm_compiler.results.points import PlacedPoint, SensitivityRow, without_placement
from mcm_compiler.text.toml_description import parse_description, to_toml
from mcm_compiler.variants.points import Prepared, failed_point, faster, is_of, no_slower, points_of

Value = bool | int | float | str
"""Value of a key."""

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
    """Value of a dotted key in a target's description; None where it has none.

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
    package: Any = package_from_text(target.name, text)
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


FACTORS = (2.0, 0.5)
"""By which each resource is multiplied."""

MOST_STARTS = 3
"""Compiles for the target that start from placements for changed ones."""

Number = int | float


@dataclass(frozen=True)
class Change(Generic[T]):
    """One changed target.

    Attributes:
        resource: what was changed.
        factor: by which.
        keys: what the description says then.
        target: the target; None where there is none.
        why_not: diagnostics that say why there is none.
    """

    resource: Resource
    factor: float
    keys: Mapping[str, Number]
    target: T | None
    why_not: tuple[Diagnostic, ...] = ()


def changes_of(target: T) -> list[Change[T]]:
    """Twice and half of each resource that a target names; empty where it names none.

    Resources that the description does not have, such as links of a package of one chip, are left
    out.

    Args:
        target: as it was loaded.
    """
    if not isinstance(target, NamesResources):
        return []
    found: list[Change[T]] = []
    for resource in target.resources:
        present = {
            key: value
            for key in resource.keys
            if isinstance(value := value_of(target, key), int | float)
        }
        if present:
            found += [_change(target, resource, present, factor) for factor in FACTORS]
    return found


class Sensitivities:
    """All changes of a target, compiled; each search starts from the placement for the target.

    Args:
        prepared: the model.
        target: as it was loaded.
        at_once: processes; None for as many as there are cores.
    """

    def __init__(self, prepared: Prepared, target: Target, at_once: int | None = None) -> None:
        self._prepared, self._target = prepared, target
        self._at_once = at_once or usable_cores()
        self._changes = changes_of(target)
        self._points: dict[int, PlacedPoint] = {}

    def settle(self, base: PlacedPoint) -> Placement | None:
        """Compiles all changes, and the target again while one with less of a resource is faster.

        Args:
            base: the compile for the target.

        Returns:
            The fastest placement for the target, to start from and to choose passes and cost model
            by; None where that of `base` is.
        """
        self._compile(base, divided=True)
        start: Placement | None = None
        for _ in range(MOST_STARTS):
            less = self._starts(base)
            if not less:
                break
            known = less if start is None else (*less, start)
            ((_, found),) = points_of(self._prepared, [(self._target, known)], 1)
            placement = found.get("placement")
            if placement is None or not faster(found, base):
                break
            divided = not is_of(placement, base.get("placement"))
            start, base = placement, found
            self._compile(base, divided=divided)
        return start

    def rows(self, base: PlacedPoint) -> list[SensitivityRow]:
        """Effects of the changes, compared with the compile for the target."""
        why = _NOT_FOUND if self._prepared.options.goal.plain else _OTHER_AIM
        return [_row(one, self._points[at], base, why) for at, one in enumerate(self._changes)]

    def _compile(self, base: PlacedPoint, *, divided: bool) -> None:
        """Compiles changes: all where ops are divided otherwise, else those `base` is faster than.

        Args:
            base: the compile for the target.
            divided: whether its units are others than before.
        """
        asked: dict[int, tuple[Target, tuple[Placement, ...]]] = {}
        for at, one in enumerate(self._changes):
            if one.target is None:
                self._points[at] = failed_point(one.why_not)
            elif divided or (one.factor > 1.0 and faster(base, self._points[at])):
                asked[at] = one.target, _known(base, one)
        for index, point in points_of(self._prepared, [*asked.values()], self._at_once):
            at = [*asked][index]
            if at not in self._points or not faster(self._points[at], point):
                self._points[at] = point

    def _starts(self, base: PlacedPoint) -> tuple[Placement, ...]:
        """Placements for less of a resource that are faster there than `base`."""
        found: list[Placement] = []
        for at, one in enumerate(self._changes):
            point = self._points[at]
            if one.factor < 1.0 and faster(point, base) and "placement" in point:
                start = point["placement"].copy()
                if one.resource.half_idle and choice_of(self._target) is None:
                    start["cost_model"] = one.resource.half_idle
                found.append(start)
        return tuple(found)


def _known(base: PlacedPoint, change: Change[Target]) -> tuple[Placement, ...]:
    """The placement that the compile for a changed target starts from.

    Of a resource of which half is left idle, all of what the changed target has is used.
    """
    if "placement" not in base:
        return ()
    start = base["placement"].copy()
    if change.resource.half_idle:
        start.pop("cost_model", None)
    return (start,)


def _row(change: Change[Target], point: PlacedPoint, base: PlacedPoint, why: str) -> SensitivityRow:
    target = change.target
    if change.factor > 1.0 and isinstance(target, OrdersKeys):
        ordered = target.ordered_keys
        if all(ordered.get(key) for key in change.keys):
            point = no_slower(point, base, cast("Target", target))
    period_s, then = base["period_s"], point["period_s"]
    row: SensitivityRow = {
        "resource": change.resource.name,
        "factor": change.factor,
        "keys": {key: float(value) for key, value in change.keys.items()},
        "speedup": period_s / then if period_s and then else None,
        **without_placement(point),
    }
    if change.factor < 1.0 and row["speedup"] is not None and faster(point, base):
        row["speedup"] = None
        row["not_comparable"] = why
    return row


_NOT_FOUND = "no placement as fast was found for the target"
_OTHER_AIM = "placements are not chosen for the period"


def _change(
    target: T, resource: Resource, present: Mapping[str, Number], factor: float
) -> Change[T]:
    why_not: tuple[Diagnostic, ...] = ()
    tried: dict[str, Number] = {}
    for tried in _multiples(present, factor):
        try:
            values: Mapping[str, Value] = tried
            return Change(resource, factor, tried, changed_target(target, values).target)
        except CompileError as error:
            why_not = error.diagnostics
    return Change(resource, factor, tried, None, why_not)


def _multiples(present: Mapping[str, Number], factor: float) -> Iterator[dict[str, Number]]:
    """Values to try: the multiples, then whole ones where those must be whole."""
    exact = {key: _short(value * factor) for key, value in present.items()}
    yield exact
    whole = {
        key: int(value) if isinstance(present[key], int) else value for key, value in exact.items()
    }
    if whole != exact and all(whole.values()):
        yield whole


def _short(value: Number) -> Number:
    return int(value) if value == int(value) else value
