"""What the report says of an objective that is not the plain period."""

# ruff: noqa: UP013 - an object of JSON is one definition here, as a class it were one per key

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from mcm_compiler.contracts.objectives import ObjectiveKind
from mcm_compiler.text.json_text import Amount, Count

ObjectiveUnit = Literal["s", "chips", "J"]

ProvenFacts = TypedDict(
    "ProvenFacts",
    {"replicas": Count, "chips_each": Count, "bound": Amount | None, "proof": str | None},
)
"""What is proven of one number of equal pipelines.

Attributes:
    replicas: pipelines side by side.
    chips_each: chips that each of them may use.
    bound: one of them comes to no less, in the unit of the value; null where none is valid at all.
    proof: kind of argument, or null.
"""

ObjectiveFacts = TypedDict(
    "ObjectiveFacts",
    {
        "kind": ObjectiveKind,
        "unit": ObjectiveUnit,
        "max_latency_s": NotRequired[Amount],
        "throughput_per_s": NotRequired[Amount],
        "value": Amount,
        "bound": Amount | None,
        "bound_argument": str,
        "bound_proof": str | None,
        "gap": float | None,
        "analytic_latency_s": Amount | None,
        "simulated_latency_s": Amount | None,
        "margin": NotRequired[float],
        "simulated_margin": NotRequired[float | None],
        "proven": list[ProvenFacts],
    },
)
"""An objective, what the placement comes to, and what no placement comes to less than.

Attributes:
    kind: what was to be small: period (within a latency), latency, chips or energy.
    unit: of value and bound.
    max_latency_s: the latest that one inference may be answered; missing where nothing was said.
    throughput_per_s: inferences per second that had to be reached; missing likewise.
    value: what the placement comes to under cost_model, all pipelines together; joules are those of
        one inference.
    bound: no placement comes to less under cost_model, of all numbers of pipelines that could be
        chosen; null where times rest on assumed trip counts.
    bound_argument: why; empty without a bound.
    bound_proof: kind of the argument, as a checker knows it.
    gap: value / bound - 1.
    analytic_latency_s: when one inference is answered by an empty package, under cost_model.
    simulated_latency_s: the same as the simulator plays it.
    margin: of a limit, the share of it that is left under cost_model: of the latency, or of the
        seconds per inference that the throughput allows.
    simulated_margin: the same as the simulator plays it; negative where it is not kept there.
    proven: of each number of equal pipelines.
"""
