"""How far from the optimum a result can be: the bound, its model, and the results it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcm_compiler.contracts.fabrics.target import FABRIC_SECTION
from mcm_compiler.report.hardware.figures import gap
from mcm_compiler.report.objective_section import OBJECTIVE_SECTION
from mcm_compiler.report.verdict.assumed_trips import assumption_sentence
from mcm_compiler.text.units import count_text, rate_text, seconds_text

if TYPE_CHECKING:
    from mcm_compiler.report.records.verdict import OptimalityClaim

FLIT_SIMULATOR = "flit simulator"


def optimality_of(report: Mapping[str, Any]) -> OptimalityClaim:
    """The claim of a report about the optimum."""
    simulated = gap(report["period_s"], report["analytic_period_s"])
    if (assumption := assumption_sentence(report)) is not None:
        return {**_none(simulated), "scope": [assumption]}
    if report.get(FABRIC_SECTION) is not None:
        return _of_mappings(report)
    if (facts := report.get(OBJECTIVE_SECTION)) is not None:
        return {
            "status": "proven" if facts["bound_proof"] else "stated",
            "of": "number of chips" if facts["kind"] == "chips" else facts["kind"],
            "unit": facts["unit"],
            "reached": facts["value"],
            "bound": facts["bound"],
            "gap": gap(facts["value"], facts["bound"]),
            "model": report["cost_model"],
            "proof": facts["bound_proof"],
            "scope": [*_cuts(report, len(facts["proven"]) > 1), *_asked(facts)],
            "simulated_over_model": simulated,
        }
    if report["lower_bound_s"] is None or report["analytic_gap"] is None:
        return _none(simulated)
    considered = (report.get("replication") or {}).get("considered")
    proof = report.get("bound_proof")  # reports of the first release lack it
    return {
        "status": "proven" if proof else "stated",
        "of": "period",
        "unit": "s",
        "reached": report["analytic_period_s"],
        "bound": report["lower_bound_s"],
        "gap": report["analytic_gap"],
        "model": report["cost_model"],
        "proof": proof,
        "scope": _cuts(report, bool(considered)),
        "simulated_over_model": simulated,
    }


def _none(simulated: float | None) -> OptimalityClaim:
    return {
        "status": "none",
        "of": "period",
        "unit": "s",
        "reached": None,
        "bound": None,
        "gap": None,
        "model": None,
        "proof": None,
        "scope": [],
        "simulated_over_model": simulated,
    }


def _of_mappings(report: Mapping[str, Any]) -> OptimalityClaim:
    """On fabrics the mapping of the slowest chip: the cost model knows no places and routes."""
    chips = report[FABRIC_SECTION]["chips"]
    replicas = (report.get("replication") or {"replicas": 1})["replicas"]
    # A period that may be wrong by some share is taken at its longest.
    reached_s = max(row["period_s"] * (1.0 + row["error"]) for row in chips) / replicas
    bound_s = max(row["bound_s"] for row in chips) / replicas
    return {
        "status": "proven",
        "of": "period of the slowest chip",
        "unit": "s",
        "reached": reached_s,
        "bound": bound_s,
        "gap": gap(reached_s, bound_s),
        "model": FLIT_SIMULATOR,
        "proof": "units_and_channels",
        "scope": ["mappings of these units", "with this partition and these shares of units"],
        "simulated_over_model": None,
    }


def _cuts(report: Mapping[str, Any], any_count: bool) -> list[str]:
    """The partitions that a bound of a cost model is about."""
    replication, options = report.get("replication"), report.get("options") or {}
    chips = report["target"]["chips"]
    if any_count or replication is None:
        chips = options.get("chips") or chips
        each = f"partitions of these kernels, undivided, onto {count_text(chips, 'chip')}"
        scope = [each, "any number of equal replicas"] if any_count else [each]
    else:
        each = count_text(replication["chips_each"] or chips, "chip")
        scope = [f"partitions of these kernels, undivided, onto {each}"]
        scope.append("one pipeline" if replication["replicas"] == 1 else
                     f"{replication['replicas']} equal replicas")  # fmt: skip
    if report["routing"] == "strict" and report["target"].get("family") is None:
        scope.append("strict routing")
    if options.get("forbidden_chips"):
        scope.append("without the chips left out")
    if options.get("pins"):
        scope.append("with the given pins")
    return scope


def _asked(facts: Mapping[str, Any]) -> list[str]:
    """Limits that an objective has besides."""
    if (limit_s := facts.get("max_latency_s")) is not None:
        return [f"latency of at most {seconds_text(limit_s)}"]
    if (rate := facts.get("throughput_per_s")) is not None:
        return [f"at least {rate_text(rate)}"]
    return []
