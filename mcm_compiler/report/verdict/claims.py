"""The verdict of a report, derived from its other fields and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcm_compiler.additions import Optimum, shown_by
from mcm_compiler.report import objective_section, sentences, state_section
from mcm_compiler.report.cost_section import COST_SECTION, STORAGE_SECTION
from mcm_compiler.report.hardware.figures import gap
from mcm_compiler.report.records import sections, verdict
from mcm_compiler.report.verdict import assumed_trips, bottleneck_line, words
from mcm_compiler.text.units import bytes_text, count_text, percent_text, rate_text, seconds_text


def optimality_of(report: Mapping[str, Any]) -> verdict.OptimalityClaim:
    """The claim of a report about the optimum."""
    simulated = gap(report["period_s"], report["analytic_period_s"])
    period: tuple[str, sections.ObjectiveUnit] = ("period", "s")
    model = report["cost_model"]
    if (assumption := assumed_trips.assumption_sentence(report)) is not None:
        return _claim(period, (None, None), (None, None), [assumption], simulated)
    if (added := shown_by(report)) is not None and (best := added.optimum(report)) is not None:
        return _of_optimum(best, report)
    if (facts := report.get(objective_section.OBJECTIVE_SECTION)) is not None:
        of = "number of chips" if facts["kind"] == "chips" else facts["kind"]
        scope = [*_cuts(report, len(facts["proven"]) > 1), *_asked(facts)]
        values = facts["value"], facts["bound"]
        return _claim((of, facts["unit"]), values, (model, facts["bound_proof"]), scope, simulated)
    if report["lower_bound_s"] is None or report["analytic_gap"] is None:
        return _claim(period, (None, None), (None, None), [], simulated)
    options = report.get("options") or {}
    over = report.get(sentences.DIVISION_SECTION)
    if over is not None and not (options.get("pins") or options.get("forbidden_chips")):
        values, by = (report["analytic_period_s"], over["bound_s"]), (model, "divisions")
        chips = count_text(options.get("chips") or report["target"]["chips"], "chip")
        scope = [f"all divisions, numbers of copies and placements of the kernels on {chips}"]
        return _claim(period, values, by, scope, simulated)
    scope = _cuts(report, bool((report.get("replication") or {}).get("considered")))
    values = report["analytic_period_s"], report["lower_bound_s"]
    proof = report.get("bound_proof")  # reports of the first release lack it
    claim = _claim(period, values, (model, proof), scope, simulated)
    return {**claim, "gap": report["analytic_gap"]}


def _claim(
    of: tuple[str, sections.ObjectiveUnit],
    values: tuple[float | None, float | None],
    by: tuple[str | None, str | None],
    scope: list[str],
    simulated: float | None,
) -> verdict.OptimalityClaim:
    """A claim; none where nothing was reached.

    Args:
        of: the quantity, and its unit.
        values: what was reached, and the bound.
        by: the model of both, and the kind of proof.
        scope: as in the claim.
        simulated: `simulated_over_model`.
    """
    reached, bound = values
    model, proof = by
    return {
        "status": "none" if reached is None else "proven" if proof else "stated",
        "of": of[0],
        "unit": of[1],
        "reached": reached,
        "bound": bound,
        "gap": gap(reached, bound),
        "model": model,
        "model_kind": "cost model" if model else None,
        "proof": proof,
        "scope": scope,
        "simulated_over_model": simulated,
    }


def _of_optimum(best: Optimum, report: Mapping[str, Any]) -> verdict.OptimalityClaim:
    at_once = _replicas(report) * sentences.round_of(report)
    values = best.reached_s / at_once, best.bound_s / at_once
    claim = _claim((best.of, "s"), values, (best.model, best.proof), [*best.scope], None)
    return {**claim, "model_kind": best.model_kind}


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
    if (classes := sentences.round_of(report)) > 1:
        scope.append(f"rounds of {classes} inferences")
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


def latency_load(classes: int) -> verdict.LatencyLoad:
    """The load of every latency: the simulator's first round never waits for a later one."""
    return "one inference, empty package" if classes == 1 else "one round, empty package"


def verdict_of(report: Mapping[str, Any]) -> verdict.Verdict:
    """All claims of a report's headline.

    Args:
        report: its own verdict, where it has one, is not read.
    """
    fit, rate = _fit(report), _rate(report)
    optimality, limit = optimality_of(report), bottleneck_line.limit_of(report)
    verified = words.verified_of(report["verification"])
    lines = (
        _fit_line(report, fit),
        _rate_line(report, rate),
        _serving_line(report),
        _lost_states_line(report),
        words.optimality_line(optimality),
        bottleneck_line.limit_line(report, limit),
        bottleneck_line.idle_line(report),
        bottleneck_line.next_line(report),
        words.verified_line(report["verification"], verified, report.get(STORAGE_SECTION)),
    )
    return {
        "basis": _basis(report),
        "good": fit["fits"] is not False and verified["state"] != "failed",
        "fit": fit,
        "rate": rate,
        "optimality": optimality,
        "limit": limit,
        "verified": verified,
        "lines": [line for line in lines if line is not None],
    }


def _basis(report: Mapping[str, Any]) -> str:
    """Where figures come from: no chip is ever measured, kernels may be."""
    how = "simulated" if report["period_model"] is not None else "analytic model only"
    coverage = (report.get(COST_SECTION) or {}).get("coverage")
    if coverage and coverage["measured_share"] > 0:
        return f"{how}; given times for {percent_text(coverage['measured_share'])} of kernel time"
    return f"{how}, no hardware measured"


def _fit(report: Mapping[str, Any]) -> verdict.FitClaim:
    rows = [row for row in report["chips"] or () if row["sram_bytes"]]
    planned = [row for row in rows if row["sram_high_water_bytes"] is not None]
    fullest = max(
        planned, key=lambda row: row["sram_high_water_bytes"] / row["sram_bytes"], default=None
    )
    weights = [row["weight_bytes"] for row in report["chips"] or ()]
    known = bool(weights) and None not in weights
    return {
        "fits": all(row["sram_high_water_bytes"] <= row["sram_bytes"] for row in planned)
        if planned
        else None,
        "chips_used": report["chips_used"],
        "chips": report["target"]["chips"],
        "fullest_chip": fullest["chip"] if fullest else None,
        "fullest_bytes": fullest["sram_high_water_bytes"] if fullest else None,
        "fullest_sram_bytes": fullest["sram_bytes"] if fullest else None,
        "file_weight_bytes": report["model"]["weight_bytes"],
        "stored_weight_bytes": sum(weights) if known else None,
        "stored_widths": report.get(STORAGE_SECTION) or [],
    }


def _fit_line(report: Mapping[str, Any], fit: verdict.FitClaim) -> verdict.VerdictLine:
    used = "-" if fit["chips_used"] is None else f"{fit['chips_used']:,}"
    headline = f"{used} of {count_text(fit['chips'], 'chip')}"
    details: list[str] = []
    if fit["fits"] is None:
        details.append("memory not planned")
    else:
        need, have = bytes_text(fit["fullest_bytes"]), bytes_text(fit["fullest_sram_bytes"])
        details.append(f"fullest is chip {fit['fullest_chip']}: {need} of {have}")
    if fit["fits"] is False:
        headline = f"does NOT fit {headline}"
    details.append(weights_phrase(report, fit))
    tones: dict[bool | None, verdict.Tone] = {None: "warn", True: "good", False: "bad"}
    return words.line_of("fits", headline, details, tones[fit["fits"]])


def _lost_states_line(report: Mapping[str, Any]) -> verdict.VerdictLine | None:
    lost = state_section.lost_states(report)
    headline = "LOST: a cache crosses the host's link"
    return words.line_of("states", headline, lost, "bad") if lost else None


def _serving_line(report: Mapping[str, Any]) -> verdict.VerdictLine | None:
    claim = state_section.serving_claim(report)
    return words.line_of("serves", *claim) if claim is not None else None


def weights_phrase(report: Mapping[str, Any], fit: verdict.FitClaim) -> str:
    """The weights in the file and as chips store them, with the widths."""
    kind = "placeholder weights" if report["model"]["shape_only"] else "weights"
    text = f"{kind} {bytes_text(fit['file_weight_bytes'])} in the file"
    if fit["stored_weight_bytes"] is None:
        return text
    each = " per replica" if _replicas(report) > 1 else ""
    text += f", {bytes_text(fit['stored_weight_bytes'])} as stored{each}"
    widths = words.width_phrase(fit["stored_widths"])
    return f"{text} ({widths})" if widths else text


def _replicas(report: Mapping[str, Any]) -> int:
    return int((report.get("replication") or {"replicas": 1})["replicas"])


def _rate(report: Mapping[str, Any]) -> verdict.RateClaim:
    replication = report.get("replication")  # reports of the first release lack it
    claim: verdict.RateClaim = {
        "throughput_per_s": report["throughput_per_s"],
        "period_s": report["period_s"],
        "latency_s": report["latency_s"],
        "latency_load": latency_load(sentences.round_of(report)),
        "replicas": _replicas(report),
        "chips_each": replication["chips_each"] if replication else None,
        "simulator": report["period_model"],
    }
    if (classes := sentences.round_of(report)) > 1:
        claim["round"] = classes
    return claim


def _rate_line(report: Mapping[str, Any], rate: verdict.RateClaim) -> verdict.VerdictLine:
    details: list[str] = []
    if rate["throughput_per_s"] is None:
        if report["analytic_period_s"] is not None:
            period = seconds_text(report["analytic_period_s"])
            details.append(f"period {period} under {report['cost_model']}")
        return words.line_of("throughput", "not simulated", details, "warn")
    if rate["replicas"] > 1:
        each = count_text(rate["chips_each"], "chip")
        details.append(f"{rate['replicas']} replicas x {each}")
    if (classes := rate.get("round", 1)) > 1:
        details.append(f"{classes} inferences a round")
    details += [
        f"one inference every {seconds_text(rate['period_s'])}",
        f"latency {seconds_text(rate['latency_s'])} ({rate['latency_load']})",
        *(f"{label}: {text}" for label, text in state_section.state_sentences(report)),
    ]
    return words.line_of("throughput", state_section.throughput_text(report), details)
