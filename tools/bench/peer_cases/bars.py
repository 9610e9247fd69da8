"""What the table promises: no program beats ours, and no chain of pieces goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.bars import Bar

CONTROL = "random parts"
"""What is no program, but tells what repair does by itself."""


def value_s(row: Mapping[str, Any]) -> float | None:
    """The period that counts: as given, else after repair; None where there is none."""
    return row.get("period_s") or row.get("repaired_s")


def ratios(data: Mapping[str, Any], program: str) -> list[float]:
    """A program's periods over ours, of the models that it comes to an answer for."""
    found: list[float] = []
    for model in data["models"]:
        row = model["rows"].get(program)
        seconds = None if row is None else value_s(row)
        if seconds is not None:
            found.append(seconds / model["ours"]["period_s"])
    return found


def bars(data: Mapping[str, Any]) -> list[Bar]:
    """Ours over the best of the others on each model, and how far all is from the bounds."""
    best: list[float] = []
    gaps: list[float] = []
    for model in data["models"]:
        ours = model["ours"]
        rows = [row for name, row in model["rows"].items() if name != CONTROL]
        others = [seconds for row in rows if (seconds := value_s(row)) is not None]
        best.append(ours["period_s"] / min(others, default=float("inf")))
        gaps.append(ours["period_s"] / ours["bound_s"] - 1.0)
    return [
        Bar("ours_over_best_peer", max(best), 1.0 + 1e-3, "below", tuple(best)),
        Bar("ours_gap_to_bound", max(gaps), 0.05, "below", tuple(gaps)),
    ]
