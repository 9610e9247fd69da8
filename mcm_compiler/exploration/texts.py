"""An exploration as a table of text and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

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

_FIGURES = (
    "throughput_per_s",
    "period_s",
    "latency_s",
    "lower_bound_s",
    "bound_proof",
    "above bound",
    "chips",
    "chips_used",
    "sram_bytes",
    "package_mm2",
    "energy_j",
    "energy_delay_js",
)
"""Columns of the CSV between the swept keys and the faults."""


def front_rows(model: Mapping[str, Any], *, whole: bool = False) -> list[tuple[str, ...]]:
    """Heads, and a row for each point on the front, the fastest first.

    Args:
        model: as `ExploredModel`.
        whole: also those that are not on the front; those that are have a star then.
    """
    ran = [point for point in model["points"] if not point["faults"]]
    shown = [point for point in ran if point["front"] or whole]
    shown.sort(key=lambda point: -(point["throughput_per_s"] or 0.0))
    area = any("package_mm2" in point for point in shown)
    energy = any("energy_j" in point for point in shown)
    keys = list(shown[0]["settings"]) if shown else []
    heads = [
        *(["front"] if whole else []),
        *keys,
        "inferences/s",
        "bound",
        "above bound",
        "latency",
    ]
    heads += ["chips", "SRAM", *(["mm2"] if area else []), *(["energy"] if energy else [])]
    rows = [tuple(heads)]
    for point in shown:
        rate, mm2 = point["throughput_per_s"], point.get("package_mm2")
        row = [
            *(["*" if point["front"] else ""] if whole else []),
            *map(setting_text, point["settings"].values()),
            UNKNOWN if rate is None else number_text(rate),
            bound_rate_text(point),
            percent_text(point["gap"]),
            seconds_text(point["latency_s"]),
            str(point["chips"]),
            bytes_text(point["sram_bytes"]),
        ]
        if area:
            row.append(UNKNOWN if mm2 is None else f"{mm2:,.0f}")
        if energy:
            row.append(energy_text(point.get("energy_j")))
        rows.append(tuple(row))
    return rows


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
    """What a point sets, such as `package.num_chips=4, chip.sram_mib=16`."""
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
    writer.writerow(["model", *keys, "front", *_FIGURES, "fault"])
    for model in models:
        for point in model["points"]:
            faults = "; ".join(f"{one['code']}: {one['message']}" for one in point["faults"])
            writer.writerow(
                [
                    _inert(model["name"]),
                    *(_inert(setting_text(point["settings"][key])) for key in keys),
                    int(point["front"]),
                    *("" if point.get(name) is None else point[name] for name in _FIGURES),
                    _inert(faults),
                ]
            )
    return stream.getvalue()


def _inert(text: str) -> str:
    """A text that no program for tables takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "@", "\t", "\r") else text
