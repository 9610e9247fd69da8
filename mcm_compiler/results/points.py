"""Figures of a compile for another target, of which no output is written."""

# ruff: noqa: UP013 - a row of few keys is one line here

from __future__ import annotations

from typing import NotRequired, TypedDict

from mcm_compiler.contracts.replication import Placement
from mcm_compiler.text.json_text import Amount, Size

FaultRow = TypedDict("FaultRow", {"code": str, "message": str, "hint": str | None})
"""Why there is no compile.

Attributes:
    code: of the diagnostic.
    message: what is wrong, with numbers.
    hint: what to do about it.
"""


class PointFacts(TypedDict):
    """Figures of a compile, each as in a report of its own; null where there is none.

    Attributes:
        throughput_per_s: inferences per second in steady state, simulated.
        period_s: its inverse.
        latency_s: of one inference, simulated.
        lower_bound_s: proven lower bound on the seconds per inference under the cost model.
        bound_proof: kind of its argument.
        gap: period_s / lower_bound_s - 1.
        chips: usable chips of the package.
        chips_used: chips with at least one op.
        sram_bytes: SRAM of all usable chips together.
        energy_j: of one inference; missing where the target says nothing of energy.
        energy_delay_js: energy_j times latency_s.
        package_mm2: area of all usable chips; missing where the target says nothing of it.
        idle: the figures are those with less of the resources, as they are better: what is more
            of them can stay idle. Missing where it is not so.
        faults: why the model does not run there; empty where it does.
    """

    throughput_per_s: Amount | None
    period_s: Amount | None
    latency_s: Amount | None
    lower_bound_s: Amount | None
    bound_proof: str | None
    gap: float | None
    chips: Size | None
    chips_used: Size | None
    sram_bytes: Size | None
    energy_j: NotRequired[Amount]
    energy_delay_js: NotRequired[Amount]
    package_mm2: NotRequired[Amount]
    idle: NotRequired[bool]
    faults: list[FaultRow]


class PlacedPoint(PointFacts):
    """A point while others are compiled, which start from its placement; no result has it.

    Attributes:
        placement: missing where there is none.
    """

    placement: NotRequired[Placement]


def without_placement(point: PlacedPoint) -> PointFacts:
    """The point as results hold it."""
    kept = point.copy()
    kept.pop("placement", None)
    return kept


class SensitivityRow(PointFacts):
    """Effect of one change of hardware.

    Attributes:
        resource: what was changed, such as `compute array`.
        factor: 2 or 0.5.
        keys: of the target's description, and what they were set to; where a half is no whole
            number, the next smaller one.
        speedup: throughput of this point by that of the report; null where there is none, and
            where the two do not compare.
        not_comparable: why half of the resource is faster: the two compiles differ in something
            besides the resource. Missing where it is not.
    """

    resource: str
    factor: float
    keys: dict[str, float]
    speedup: Amount | None
    not_comparable: NotRequired[str]
