"""What a certificate says of an objective, as a part of its head."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mcm_compiler.certificate.stored_problem import MalformedError
from mcm_compiler.contracts.objectives import (
    Objective,
    ObjectiveFigures,
    ObjectiveKind,
    ShareBound,
    objective_faults,
)
from mcm_compiler.text.bounded_numbers import Amount, Count


@dataclass(frozen=True)
class ProvenRow:
    """What is proven of one number of pipelines.

    Attributes:
        pipelines: equal pipelines side by side.
        devices_each: devices that each of them may use.
        value: of one of them no placement comes to less; null where none is said to be valid.
        proof: kind of argument; empty where there is none.
        argument: the argument in words.
    """

    pipelines: Count
    devices_each: Count
    value: Amount | None
    proof: str
    argument: str


@dataclass(frozen=True)
class ObjectiveRow:
    """What was asked for, what the placement comes to, and what is claimed of all others.

    Attributes:
        kind: what was to be small.
        max_latency_s: the latest that one inference may be answered, or null.
        throughput_per_s: inferences per second that had to be reached, or null.
        value: what the placement comes to: seconds or chips of the package, joules of an inference.
        bound: no placement comes to less.
        latency_s: when one inference is answered by an empty package; null where nothing tells it.
        proven: of each number of pipelines that could be chosen.
    """

    kind: ObjectiveKind
    max_latency_s: Amount | None
    throughput_per_s: Amount | None
    value: Amount
    bound: Amount
    latency_s: Amount | None
    proven: tuple[ProvenRow, ...]


def objective_row(figures: ObjectiveFigures | None) -> ObjectiveRow | None:
    """The figures as a row of the head; None where there are none."""
    if figures is None:
        return None
    objective = figures.objective
    return ObjectiveRow(
        objective.kind,
        objective.max_latency_s,
        objective.throughput_per_s,
        figures.value,
        figures.bound,
        figures.latency_s,
        tuple(
            ProvenRow(
                one.replicas,
                one.chips_each,
                one.value if math.isfinite(one.value) else None,
                one.proof,
                one.argument,
            )
            for one in figures.proven
        ),
    )


def objective_figures(row: ObjectiveRow | None) -> ObjectiveFigures | None:
    """What `objective_row` stored.

    Raises:
        MalformedError: where it is no objective, or the plain period.
    """
    if row is None:
        return None
    objective = Objective(row.kind, row.max_latency_s, row.throughput_per_s)
    faults = objective_faults(row.kind, row.max_latency_s, row.throughput_per_s)
    if faults or objective.plain:
        raise MalformedError(f"the objective is none: {faults[0] if faults else 'the period'}")
    proven = tuple(
        ShareBound(
            one.pipelines,
            one.devices_each,
            math.inf if one.value is None else one.value,
            one.proof,
            one.argument,
        )
        for one in row.proven
    )
    return ObjectiveFigures(objective, row.value, row.bound, row.latency_s, proven)
