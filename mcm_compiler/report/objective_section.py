"""The part of a report about an objective that is not the plain period."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mcm_compiler.contracts.objectives import Objective, ObjectiveFigures
from mcm_compiler.contracts.program import SimulationResult
from mcm_compiler.report.hardware.figures import gap
from mcm_compiler.report.records.sections import ObjectiveFacts, ObjectiveUnit
from mcm_compiler.report.sentences import bound_status
from mcm_compiler.report.verdict.assumed_trips import assumption_sentence
from mcm_compiler.text.units import count_text, energy_text, percent_text, seconds_text

OBJECTIVE_SECTION = "objective"
"""Its key in a report."""

UNITS: Mapping[str, ObjectiveUnit] = {"chips": "chips", "energy": "J"}
"""Units of the values of objectives that are not in seconds."""


def objective_facts(
    figures: ObjectiveFigures | None,
    period_s: float | None,
    simulation: SimulationResult | None,
    replicas: int,
) -> ObjectiveFacts | None:
    """The section of a report on an objective; None where it is the plain period.

    Args:
        figures: of the placement.
        period_s: seconds between inferences of one pipeline under the cost model.
        simulation: of one pipeline.
        replicas: pipelines side by side.
    """
    if figures is None:
        return None
    objective, weakest = figures.objective, figures.weakest
    simulated_s = simulation.latency_s if simulation is not None else None
    facts: ObjectiveFacts = {
        "kind": objective.kind,
        "unit": UNITS.get(objective.kind, "s"),
        "value": figures.value,
        "bound": figures.bound,
        "bound_argument": _argument(figures),
        "bound_proof": (weakest.proof or None) if weakest is not None else None,
        "gap": gap(figures.value, figures.bound),
        "analytic_latency_s": figures.latency_s,
        "simulated_latency_s": simulated_s,
        "proven": [
            {
                "replicas": one.replicas,
                "chips_each": one.chips_each,
                "bound": one.value if math.isfinite(one.value) else None,
                "proof": one.proof or None,
            }
            for one in figures.proven
        ],
    }
    if objective.max_latency_s is not None:
        facts["max_latency_s"] = objective.max_latency_s
        facts["margin"] = _left(objective.max_latency_s, figures.latency_s) or 0.0
        facts["simulated_margin"] = _left(objective.max_latency_s, simulated_s)
    if objective.throughput_per_s is not None:
        facts["throughput_per_s"] = objective.throughput_per_s
        most_s = replicas / objective.throughput_per_s
        facts["margin"] = _left(most_s, period_s) or 0.0
        played_s = simulation.period_s if simulation is not None else None
        facts["simulated_margin"] = _left(most_s, played_s)
    return facts


def _argument(figures: ObjectiveFigures) -> str:
    """Why the bound holds."""
    weakest = figures.weakest
    if figures.objective.kind == "chips":
        fewer = count_text(int(figures.bound) - 1, "chip")
        if weakest is None:
            return "there is no fewer than one chip"
        return (
            f"none of the {count_text(len(figures.proven), 'number')} of equal pipelines reaches "
            f"it on up to {fewer}; closest are {weakest.replicas} of "
            f"{count_text(weakest.chips_each, 'chip')}: {weakest.argument}"
        )
    if weakest is None:
        return ""
    if len(figures.proven) == 1:
        return weakest.argument
    each = count_text(weakest.chips_each, "chip")
    return (
        f"the weakest of the bounds of all numbers of equal pipelines, that of {weakest.replicas} "
        f"with {each} each: {weakest.argument}"
    )


def _left(most_s: float, seconds: float | None) -> float | None:
    """The share of a limit that is left."""
    return None if seconds is None else 1.0 - seconds / most_s


def objective_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Labels and sentences about the objective; none where it is the plain period."""
    facts = report.get(OBJECTIVE_SECTION)
    if facts is None:
        return []
    asked = Objective(facts["kind"], facts.get("max_latency_s"), facts.get("throughput_per_s"))
    bound = assumption_sentence(report) or (
        f"{_amount(facts['bound'], facts['unit'])}: {facts['bound_argument']} "
        f"({bound_status(report, facts['bound_proof'])})"
    )
    return [
        ("objective", f"{asked}: {_amount(facts['value'], facts['unit'])}{_limit(facts)}"),
        ("its bound", bound),
        ("one inference", _latencies(facts)),
    ]


def _latencies(facts: Mapping[str, Any]) -> str:
    """When one inference is answered by an empty package, by both models."""
    parts: list[str] = []
    if facts["analytic_latency_s"] is not None:
        parts.append(f"{seconds_text(facts['analytic_latency_s'])} under the cost model")
    if facts["simulated_latency_s"] is not None:
        parts.append(f"{seconds_text(facts['simulated_latency_s'])} simulated")
    return (", ".join(parts) or "-") + ", in an empty package"


def _limit(facts: Mapping[str, Any]) -> str:
    """By how much a limit is kept."""
    margin, simulated = facts.get("margin"), facts.get("simulated_margin")
    if margin is None:
        return ""
    text = f"; the limit is kept with {percent_text(margin)} to spare"
    if simulated is None:
        return text
    if simulated < 0.0:
        return f"{text}, simulated it is missed by {percent_text(-simulated)}"
    return f"{text}, simulated with {percent_text(simulated)}"


def _amount(value: float, unit: str) -> str:
    if unit == "J":
        return energy_text(value)
    return seconds_text(value) if unit == "s" else count_text(int(value), "chip")
