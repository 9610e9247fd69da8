"""What a change of hardware would bring: the same model with twice and half of each resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mcm_compiler.contracts.target import NamesResources, Resource, Target
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.processes.warm_up import usable_cores
from mcm_compiler.results.points import PointFacts, SensitivityRow
from mcm_compiler.variants.changed_targets import Value, changed_target, value_of
from mcm_compiler.variants.points import Prepared, failed_point, points_of

FACTORS = (2.0, 0.5)
"""By which each resource is multiplied."""

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


def sensitivity_rows(
    prepared: Prepared, target: Target, period_s: float | None, at_once: int | None = None
) -> list[SensitivityRow]:
    """All changes of a target, compiled.

    Args:
        prepared: the model.
        target: as it was loaded.
        period_s: of the compile for it.
        at_once: processes; None for as many as there are cores.
    """
    changes = changes_of(target)
    points: dict[int, PointFacts] = {
        at: failed_point(one.why_not) for at, one in enumerate(changes) if one.target is None
    }
    asked = [at for at in range(len(changes)) if at not in points]
    targets = [one for change in changes if (one := change.target) is not None]
    for index, point in points_of(prepared, targets, at_once or usable_cores()):
        points[asked[index]] = point
    return [_row(change, points[at], period_s) for at, change in enumerate(changes)]


def _row(change: Change, point: PointFacts, period_s: float | None) -> SensitivityRow:
    then = point["period_s"]
    return {
        "resource": change.resource,
        "factor": change.factor,
        "keys": {key: float(value) for key, value in change.keys.items()},
        "speedup": period_s / then if period_s and then else None,
        **point,
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
