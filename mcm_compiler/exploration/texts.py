"""The result of an exploration: its verdict, its points as rows, as text, CSV and a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from mcm_compiler.exploration.journal import Exploration, ExploredModel, Journal
from mcm_compiler.page.contents import NOT_MEASURED, Page, Section, Table, page_bytes
from mcm_compiler.page.scatter import Dot, scatter
from mcm_compiler.report.records.verdict import VerdictLine
from mcm_compiler.report.verdict.words import line_of
from mcm_compiler.text.headline import Headline, Shown
from mcm_compiler.text.units import (
    UNKNOWN,
    bytes_text,
    count_text,
    energy_text,
    number_text,
    percent_text,
    seconds_text,
)

LISTED_FAULTS = 8
"""Reasons why points have no figures that are spelled out."""


def front_rows(model: Mapping[str, Any], *, whole: bool = False) -> list[tuple[str, ...]]:
    """Heads, and a row for each point on the front, the fastest first.

    Args:
        model: as `ExploredModel`.
        whole: also those that are not on the front; those that are have a star then.
    """
    ran = [point for point in model["points"] if not point["faults"]]
    shown = [point for point in ran if point["front"] or whole]
    shown.sort(key=lambda point: -(point["throughput_per_s"] or 0.0))
    keys = list(shown[0]["settings"]) if shown else []
    columns: list[tuple[str, Callable[[Mapping[str, Any]], str]]] = [
        *([("front", lambda point: "*" if point["front"] else "")] if whole else []),
        *((key, lambda point, key=key: setting_text(point["settings"][key])) for key in keys),
        ("inferences/s", _rate_text),
        ("bound", bound_rate_text),
        ("above bound", lambda point: percent_text(point["gap"])),
        ("latency", lambda point: seconds_text(point["latency_s"])),
        ("chips", lambda point: str(point["chips"])),
        ("SRAM", lambda point: bytes_text(point["sram_bytes"])),
    ]
    if any("package_mm2" in point for point in shown):
        columns.append(("mm2", lambda point: _known(point.get("package_mm2"), "{:,.0f}".format)))
    if any("energy_j" in point for point in shown):
        columns.append(("energy", lambda point: energy_text(point.get("energy_j"))))
    heads = tuple(head for head, _ in columns)
    return [heads, *(tuple(text(point) for _, text in columns) for point in shown)]


def _rate_text(point: Mapping[str, Any]) -> str:
    idle = ", idle" if point.get("idle") else ""
    return f"{_known(point['throughput_per_s'], number_text)}{idle}"


def _known(number: float | None, text: Callable[[float], str]) -> str:
    return UNKNOWN if number is None else text(number)


def bound_rate_text(point: Mapping[str, Any]) -> str:
    """The throughput that no partition can exceed, under the cost model."""
    seconds = point["lower_bound_s"]
    return UNKNOWN if not seconds else number_text(1.0 / seconds)


def setting_text(value: bool | float | str) -> str:
    """A value as descriptions write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value:.12g}"


def settings_text(point: Mapping[str, Any]) -> str:
    """Settings of a point as text, such as `package.num_chips=4, chip.sram_mib=16`."""
    return ", ".join(f"{key}={setting_text(value)}" for key, value in point["settings"].items())


def summary_text(model: Mapping[str, Any]) -> str:
    """How many points there are, and what the front is of."""
    points = model["points"]
    ran = [point for point in points if not point["faults"]]
    front = sum(point["front"] for point in ran)
    same = sum(point["same_as"] is not None for point in points)
    text = f"{count_text(len(points), 'point')}, {front} on the front of "
    text += ", ".join(model["measures"]) or "nothing"
    if failed := len(points) - len(ran):
        text += f"; {failed} without figures"
    return f"{text}; {same} with the content of another" if same else text


def fault_lines(model: Mapping[str, Any]) -> list[str]:
    """Why points have no figures: each reason once, with how many and the first of them."""
    reasons: dict[str, list[Mapping[str, Any]]] = {}
    for point in model["points"]:
        for fault in point["faults"][:1]:
            reasons.setdefault(fault["code"], []).append(point)
    lines: list[str] = []
    for code, points in list(reasons.items())[:LISTED_FAULTS]:
        first = points[0]
        count = count_text(len(points), "point")
        fault = first["faults"][0]
        lines.append(
            f"{count} without figures, {code}; with {settings_text(first)}: {fault['message']}"
        )
        if fault["hint"]:
            lines.append(f"  hint: {fault['hint']}")
    if len(reasons) > LISTED_FAULTS:
        lines.append(f"{len(reasons) - LISTED_FAULTS} more reasons are in the JSON")
    return lines


def csv_text(models: Sequence[Mapping[str, Any]]) -> str:
    """All points of all models: a line each, with the swept keys, the figures, and the faults."""
    keys = [key for model in models for point in model["points"][:1] for key in point["settings"]]
    keys = list(dict.fromkeys(keys))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    idle = any(point.get("idle") for model in models for point in model["points"])
    figures = (*_FIGURES, "idle") if idle else _FIGURES
    writer.writerow(["model", *keys, "front", *figures, "fault"])
    for model in models:
        for point in model["points"]:
            faults = "; ".join(f"{one['code']}: {one['message']}" for one in point["faults"])
            writer.writerow(
                [
                    _inert(model["name"]),
                    *(_inert(setting_text(point["settings"][key])) for key in keys),
                    int(point["front"]),
                    *("" if point.get(name) is None else point[name] for name in figures),
                    _inert(faults),
                ]
            )
    return stream.getvalue()


def _inert(text: str) -> str:
    """A text that no program for tables takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "@", "\t", "\r") else text


_AXES: Final[tuple[tuple[str, Callable[[Mapping[str, Any]], float | None]], ...]] = (
    ("latency in ms", lambda point: _scaled(point["latency_s"], 1e3)),
    ("chips of the package", lambda point: _scaled(point["chips"], 1.0)),
    ("SRAM of all chips in MiB", lambda point: _scaled(point["sram_bytes"], 2.0**-20)),
    ("area in mm2", lambda point: _scaled(point.get("package_mm2"), 1.0)),
    ("energy of an inference in mJ", lambda point: _scaled(point.get("energy_j"), 1e3)),
)


def exploration_page(found: Mapping[str, Any]) -> bytes:
    """The page of an `Exploration`. Equal explorations give equal bytes."""
    swept = ", ".join(
        f"{one['key']} = {', '.join(map(setting_text, one['values']))}" for one in found["sweeps"]
    )
    names = ", ".join(model["name"] for model in found["models"])
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    page = Page(
        f"{names} on variants of {found['target']['name']}",
        (swept,),
        (),
        tuple(_section(at, model) for at, model in enumerate(found["models"])),
        (NOT_MEASURED, f"Made with {versions}"),
    )
    return page_bytes(page)


def _section(at: int, model: Mapping[str, Any]) -> Section:
    key = f"model-{at}"
    if model["faults"]:
        lead = tuple(f"{one['code']}: {one['message']}" for one in model["faults"])
        return Section(key, model["name"], lead)
    ran = [point for point in model["points"] if not point["faults"]]
    lead = (
        summary_text(model),
        "Discs are on the front, rings are not. The bar above a point is the throughput that is "
        "proven to be out of reach there.",
        *fault_lines(model),
    )
    drawings: list[str] = []
    for across, of in _AXES:
        places = [(of(point), point) for point in ran]
        if len({x for x, _ in places if x is not None}) > 1:
            dots = [_dot(x, point) for x, point in places if x is not None]
            drawings.append(scatter(dots, across, "inferences per second"))
    heads, *rows = front_rows(model, whole=True)
    table = Table(heads, tuple(rows), frozenset(range(1, len(heads))), "Points, the fastest first")
    return Section(key, model["name"], lead, tables=(table,), drawings=tuple(drawings))


def _dot(x: float, point: Mapping[str, Any]) -> Dot:
    label = (
        f"{settings_text(point)}: {number_text(point['throughput_per_s'])} inferences/s, latency "
        f"{seconds_text(point['latency_s'])}, {point['chips']} chips, "
        f"{bytes_text(point['sram_bytes'])} of SRAM, {percent_text(point['gap'])} above the bound"
    )
    bound_s = point["lower_bound_s"]
    return Dot(
        x, point["throughput_per_s"], 1.0 / bound_s if bound_s else None, point["front"], label
    )


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


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
        bound_proof: kind of its argument.
        gap: of the period over the bound, less 1.
        chips: usable chips of the package.
        chips_used: chips with at least one op.
        sram_bytes: SRAM of all usable chips.
        package_mm2: area of all usable chips.
        energy_j: of one inference.
        energy_delay_js: that energy times the latency.
        fault: code and message of the first reason why there are no figures.
    """

    model: str
    settings: Mapping[str, bool | float | str]
    front: bool
    throughput_per_s: float | None
    period_s: float | None
    latency_s: float | None
    lower_bound_s: float | None
    bound_proof: str | None
    gap: float | None
    chips: int | None
    chips_used: int | None
    sram_bytes: int | None
    package_mm2: float | None
    energy_j: float | None
    energy_delay_js: float | None
    fault: str | None


_FIGURES = tuple(ExploredRow.__dataclass_fields__)[3:-1]
"""Also columns of the CSV, between the swept keys and the faults."""


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
