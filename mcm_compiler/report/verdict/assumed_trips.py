"""Reports of models whose loops run as often as data decide: what is assumed, and no claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import onnx_ir as ir

from mcm_compiler.graph.trip_counts import assumed_trips, assumption_text

ASSUMED_SECTION = "assumed_trips"
"""Its key in a report; missing where all trip counts are known."""


def assumptions_of(graphs: Iterable[ir.Graph]) -> dict[str, int]:
    """Assumed trip counts in the models of all chips, by the names of loops."""
    found: dict[str, int] = {}
    for graph in graphs:
        found |= assumed_trips(graph)
    return found


def withdraw_claims(report: Any, assumed: Mapping[str, int]) -> None:
    """Records what is assumed, and takes out bounds and gaps, which would rest on it.

    Args:
        report: changed in place; as `build_report` and `derive_report` make it.
        assumed: of `assumptions_of`.
    """
    if not assumed:
        return
    report[ASSUMED_SECTION] = dict(assumed)
    for name in ("lower_bound_s", "bound_argument", "bound_proof", "gap", "analytic_gap"):
        report[name] = None
    report.pop("divisions", None)
    if (replication := report.get("replication")) is not None:
        replication["pipeline_bound_s"] = None
        for row in replication["considered"]:
            row["lower_bound_s"] = row["bound_proof"] = None
    for row in report.get("sensitivities") or ():
        row["lower_bound_s"] = row["gap"] = None
    if (facts := report.get("objective")) is not None:
        facts |= {"bound": None, "bound_argument": "", "bound_proof": None, "gap": None}
        facts["proven"] = []


def assumption_sentence(report: Mapping[str, Any]) -> str | None:
    """The assumed counts in words; None where all are known."""
    assumed = report.get(ASSUMED_SECTION)
    return assumption_text(assumed) if assumed else None
