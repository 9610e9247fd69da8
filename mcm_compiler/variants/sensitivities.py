"""What a change of hardware would bring: the same model with twice and half of each resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from mcm_compiler.contracts.replication import Placement
from mcm_compiler.contracts.target import NamesResources, OrdersKeys, Resource, Target
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.processes.side_by_side import usable_cores
from mcm_compiler.results.points import PlacedPoint, SensitivityRow, without_placement
from mcm_compiler.variants.changed_targets import Value, changed_target, value_of
from mcm_compiler.variants.points import (
    Prepared,
    failed_point,
    faster,
    is_of,
    no_slower,
    points_of,
)

FACTORS = (2.0, 0.5)
"""By which each resource is multiplied."""

MOST_STARTS = 3
"""Compiles for the target that start from a placement for a changed one."""

Number = int | float


@dataclass(frozen=True)
class Change:
    """One changed target.

    Attributes:
        resource: what was changed.
        factor: by which.
        keys: what the description says then.
        target: the target; None where there is none.
        why_not: diagnostics that say why there is none.
    """

    resource: str
    factor: float
    keys: Mapping[str, Number]
    target: Target | None
    why_not: tuple[Diagnostic, ...] = ()


def changes_of(target: Target) -> list[Change]:
    """Twice and half of each resource that a target names; empty where it names none.

    Resources that the description does not have, such as links of a package of one chip, are left
    out.

    Args:
        target: as it was loaded.
    """
    if not isinstance(target, NamesResources):
        return []
    found: list[Change] = []
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
        self._prepared, self._at_once = prepared, at_once or usable_cores()
        self._changes = changes_of(target)
        self._points: dict[int, PlacedPoint] = {}
        self._from: Placement | None = None

    def compile(self, base: PlacedPoint) -> Placement | None:
        """Compiles all changes, and after the first time those that the target is faster than.

        Where the ops of the target were divided otherwise since, all are compiled.

        Args:
            base: the compile for the target.

        Returns:
            The placement of a target with less of a resource that is faster with it than the target
            itself: the compile for the target can start from it. None where there is none.
        """
        asked: list[tuple[int, Target]] = []
        placement = base.get("placement")
        divided = placement is not None and not is_of(placement, self._from)
        self._from = placement
        for at, one in enumerate(self._changes):
            if one.target is None:
                self._points[at] = failed_point(one.why_not)
            elif (
                divided
                or at not in self._points
                or (one.factor > 1.0 and faster(base, self._points[at]))
            ):
                asked.append((at, one.target))
        known = () if placement is None else (placement,)
        targets = [target for _, target in asked]
        for index, point in points_of(self._prepared, targets, self._at_once, known=known):
            at, _ = asked[index]
            if at not in self._points or not faster(self._points[at], point):
                self._points[at] = point
        less = [
            point
            for at, one in enumerate(self._changes)
            if one.factor < 1.0 and faster(point := self._points[at], base)
        ]
        fastest = min(less, key=lambda point: point["period_s"] or 0.0, default=None)
        return None if fastest is None else fastest.get("placement")

    def rows(self, base: PlacedPoint) -> list[SensitivityRow]:
        """What the changes bring, by the compile for the target."""
        return [_row(change, self._points[at], base) for at, change in enumerate(self._changes)]


def _row(change: Change, point: PlacedPoint, base: PlacedPoint) -> SensitivityRow:
    target = change.target
    if change.factor > 1.0 and isinstance(target, OrdersKeys):
        ordered = target.ordered_keys
        if all(ordered.get(key) for key in change.keys):
            point = no_slower(point, base, cast("Target", target))
    period_s, then = base["period_s"], point["period_s"]
    return {
        "resource": change.resource,
        "factor": change.factor,
        "keys": {key: float(value) for key, value in change.keys.items()},
        "speedup": period_s / then if period_s and then else None,
        **without_placement(point),
    }


def _change(
    target: Target, resource: Resource, present: Mapping[str, Number], factor: float
) -> Change:
    why_not: tuple[Diagnostic, ...] = ()
    tried: dict[str, Number] = {}
    for tried in _multiples(present, factor):
        try:
            values: Mapping[str, Value] = tried
            return Change(resource.name, factor, tried, changed_target(target, values).target)
        except CompileError as error:
            why_not = error.diagnostics
    return Change(resource.name, factor, tried, None, why_not)


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
