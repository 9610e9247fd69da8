"""The verdict in words, for surfaces that have it: nothing here reads a model or a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mcm_compiler.text.units import percent_text

if TYPE_CHECKING:
    from mcm_compiler.report.records.verdict import OptimalityClaim, VerdictLine

VERDICT: Final = "verdict"
"""Name of the field of a report; those of earlier releases lack it."""

NEAR = 0.05
"""A gap below which a better result can gain little."""


def verdict_lines(verdict: Mapping[str, Any]) -> list[str]:
    """The verdict where there is no column for labels: a text per line."""
    return [f"{line['label']}: {line_text(line)}" for line in verdict["lines"]]


def line_text(line: Mapping[str, Any]) -> str:
    """A line of the verdict without its label."""
    return "; ".join([line["headline"], *line["details"]])


def optimality_line(claim: OptimalityClaim) -> VerdictLine:
    """The claim in words."""
    share = claim["gap"]
    if claim["status"] == "none" or share is None:
        return {
            "label": "optimality",
            "headline": "unknown",
            "details": [*(claim["scope"] or ["no bound is proven"]), *_played(claim)],
            "tone": "warn",
        }
    how = f"{claim['status']}, {claim['model']}"
    if share <= 0.0:
        headline = f"optimal {claim['of']} ({how})"
    else:
        headline = f"{at_most_text(share)} above the optimal {claim['of']} ({how})"
    return {
        "label": "optimality",
        "headline": headline,
        "details": [f"among {', '.join(claim['scope'])}", *_played(claim)],
        "tone": "good" if share <= NEAR else "plain",
    }


def at_most_text(share: float | None) -> str:
    """A gap as a claim: `at most 0.4 %`; a small one is not called none."""
    if share is not None and 0.0 < share < 0.0005:
        return "less than 0.1 %"
    return f"at most {percent_text(share)}"


def gap_text(claim: OptimalityClaim) -> str:
    """The same for tables, where the head names it: `0.4 %`, `< 0.1 %`, or `-`."""
    share = claim["gap"]
    if claim["status"] == "none" or share is None:
        return "-"
    return "< 0.1 %" if 0.0 < share < 0.0005 else percent_text(share)


def _played(claim: OptimalityClaim) -> list[str]:
    """How the simulated period compares with that under the cost model."""
    over = claim["simulated_over_model"]
    if over is None:
        return []
    model = claim["model"] or "cost model"
    if abs(over) < 0.0005:
        return [f"simulation agrees with {model} within 0.1 %"]
    side = "slower" if over > 0 else "faster"
    return [f"simulation is {percent_text(abs(over))} {side} than {model}"]
