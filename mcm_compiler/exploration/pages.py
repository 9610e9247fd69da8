"""An exploration as a page: for each model its front, as pictures and as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mcm_compiler.exploration.texts import (
    fault_lines,
    front_rows,
    setting_text,
    settings_text,
    summary_text,
)
from mcm_compiler.page.contents import NOT_MEASURED, Page, Section, Table
from mcm_compiler.page.html import page_bytes
from mcm_compiler.page.scatter import Dot, scatter
from mcm_compiler.text.units import bytes_text, number_text, percent_text, seconds_text

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
        (
            NOT_MEASURED,
            f"Made with {versions}",
        ),
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
