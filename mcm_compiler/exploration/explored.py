"""The result of an exploration, its verdict and its points as rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from mcm_compiler.exploration.journal import Exploration, ExploredModel, Journal
from mcm_compiler.exploration.texts import settings_text, summary_text
from mcm_compiler.report.records.verdict import VerdictLine
from mcm_compiler.report.verdict.words import line_of
from mcm_compiler.text.headline import Headline, Shown
from mcm_compiler.text.units import number_text


@dataclass(frozen=True)
class ExploredRow:
    """A model on one combination of values; figures are None where it has none.

    Attributes:
        model: its name.
        settings: value of each swept key.
        front: whether it is on the Pareto front of its model.
        throughput_per_s: inferences per second, simulated.
        period_s: its inverse.
        latency_s: of one inference, simulated.
        lower_bound_s: proven bound on the period under the cost model.
        gap: of the period over the bound, less 1.
        chips: usable chips of the package.
        chips_used: chips with at least one op.
        sram_bytes: SRAM of all usable chips.
        energy_j: of one inference.
        package_mm2: area of all usable chips.
        fault: code and message of the first reason why there are no figures.
    """

    model: str
    settings: Mapping[str, bool | float | str]
    front: bool
    throughput_per_s: float | None
    period_s: float | None
    latency_s: float | None
    lower_bound_s: float | None
    gap: float | None
    chips: int | None
    chips_used: int | None
    sram_bytes: int | None
    energy_j: float | None
    package_mm2: float | None
    fault: str | None


_FIGURES = tuple(ExploredRow.__dataclass_fields__)[3:-1]


@dataclass(frozen=True, repr=False)
class Explored(Shown):
    """Result of `explore`.

    Attributes:
        data: as `mcmc explore --json` writes it.
        journal: of the exploration, which is to be ended when the result is kept; None without.
    """

    data: Exploration
    journal: Journal | None = None

    @property
    def points(self) -> list[ExploredRow]:
        """Points of all models, in the order of the sweeps."""
        return [
            ExploredRow(
                model=model["name"],
                settings=point["settings"],
                front=point["front"],
                **{name: cast("Mapping[str, Any]", point).get(name) for name in _FIGURES},
                fault=next((f"{one['code']}: {one['message']}" for one in point["faults"]), None),
            )
            for model in self.data["models"]
            for point in model["points"]
        ]

    @property
    def front(self) -> list[ExploredRow]:
        """Points on the front of their model, the fastest first."""
        front = [point for point in self.points if point.front]
        return sorted(front, key=lambda one: (one.model, -(one.throughput_per_s or 0.0)))

    @property
    def complete(self) -> bool:
        """True if each model runs on a variant."""
        return all(_runs(model) for model in self.data["models"])

    @property
    def headline(self) -> Headline:
        """Number of points and the fastest of each model."""
        models = self.data["models"]
        lines = [self._line(model) for model in models]
        summary = "; ".join(line["headline"] for line in lines)
        names, target = ", ".join(one["name"] for one in models), self.data["target"]["name"]
        ends = names, f"variants of {target}", "simulated, no hardware measured"
        return Headline(ends, lines, self.complete, summary)

    def _line(self, model: ExploredModel) -> VerdictLine:
        if not _runs(model):
            faults = [*model["faults"], *(f for p in model["points"] for f in p["faults"])]
            details = [f"{one['code']}: {one['message']}" for one in faults[:1]]
            return line_of(model["name"], "runs on no variant", details, "bad")
        best = max(model["points"], key=lambda point: point["throughput_per_s"] or 0.0)
        rate = number_text(best["throughput_per_s"] or 0.0)
        fastest = f"fastest {rate} inferences/s with {settings_text(best)}"
        found = summary_text(cast("Mapping[str, Any]", model))
        return line_of(model["name"], found, [fastest], "good")


def _runs(model: ExploredModel) -> bool:
    return any(not point["faults"] for point in model["points"])
