"""Sentences and tables of a report below its verdict, which all its forms share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcm_compiler.report import cost_section, host_section, objective_section, sentences
from mcm_compiler.report.advice.replica_limit import limit_sentence
from mcm_compiler.report.hardware.energy_section import area_sentence, energy_sentence
from mcm_compiler.text.units import UNKNOWN, bytes_text, percent_text, seconds_text


def details_of(report: Mapping[str, Any]) -> dict[str, str]:
    """The sentences by label, without those of which the report has nothing to say."""
    worst, simulator = report["bottleneck"], report["period_model"]
    asked = dict(objective_section.objective_rows(report))
    found = {
        "model": sentences.model_phrase(report),
        "simulation": simulator and sentences.simulator_sentence(simulator, report),
        "bottleneck": worst and worst["text"],
        **asked,
        f"lower bound{' of the period' if asked else ''}": sentences.bound_sentence(report),
        "over all divisions": sentences.division_sentence(report),
        "shared channels": sentences.shared_sentence(report["links"]),
        "replicas": limit_sentence(report),
        "found by": sentences.search_phrase(report),
        "options": sentences.options_phrase(report),
        "learned search": sentences.learned_sentence(report),
        "cost model": cost_section.cost_model_phrase(report),
        "on the host": "; ".join(host_section.host_sentences(report)),
        "energy": energy_sentence(report),
        "area": area_sentence(report),
        "added": sentences.changes_sentence(report),
        "diagnostics": (rows := report["diagnostics"]) and sentences.diagnostics_sentence(rows),
    }
    return {label: text for label, text in found.items() if text}


KERNEL_HEADS = ("kernel", "time", "launch", "array", "vector", "SRAM", "lane ops")


def kernel_cells(worst: Mapping[str, Any] | None) -> list[tuple[str, ...]]:
    """The longest kernels of a bottleneck's chip as texts in the order of `KERNEL_HEADS`."""
    return [
        (
            sentences.kernel_phrase(op),
            seconds_text(op["seconds"]),
            seconds_text(op.get("launch_s")),
            *(seconds_text(busy.get(engine)) for engine in ("array", "vector", "memory")),
            f"{op['lane_ops']:,}" if "lane_ops" in op else UNKNOWN,
        )
        for op in (worst["heaviest_ops"] if worst else ())
        if op["seconds"] > 0  # views take none
        for busy in [op.get("engines_s") or {}]
    ]


def kernel_title(report: Mapping[str, Any]) -> str:
    """The title of that table: which chip, and under which model its engines are busy, if known."""
    worst, model = report["bottleneck"], report["cost_model"]
    known = "engines" if any(op.get("engines_s") for op in worst["heaviest_ops"]) else "no engines"
    return f"Longest kernels of chip {worst['chip']} ({known} under the cost model '{model}')"


LINK_HEADS = ("from", "to", "busy", "time", "per inference", "queueing")


def link_cells(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The links as texts in the order of `LINK_HEADS`."""
    return [
        (
            sentences.place_name(link["source"]),
            sentences.place_name(link["destination"]),
            percent_text(link["utilisation"]),
            seconds_text(link["busy_s"]),
            bytes_text(link["bytes_per_inference"]),
            seconds_text(link.get("queue_s")),
        )
        for link in report["links"] or ()
    ]


def added_cells(report: Mapping[str, Any]) -> dict[str, list[tuple[str, ...]]]:
    """Copied ops, relays and divided operators as texts, by their key in the report."""
    keys = {"clones": ("node", "clone", "chip"), "relays": ("tensor", "relay", "chip")}
    found: dict[str, list[tuple[str, ...]]] = {
        kind: [tuple(str(row[name]) for name in names) for row in report[kind] or ()]
        for kind, names in keys.items()
    }
    found["sharded_operators"] = [
        (
            row["node"],
            row["weight"],
            bytes_text(row["weight_bytes"]),
            str(row["axis"]),
            str(len(row["pieces"])),
        )
        for row in report["sharded_operators"] or ()
    ]
    return found
