"""The package map: a strip per chip (busy by engine, memory), channels by load, of all replicas.

A mesh or a torus is drawn as a grid, a line or a circle as a row, which turns back where it is
long. Anything else is drawn by stress majorisation
(Gansner, Koren, North 2004, "Graph Drawing by Stress Majorization"), with hops as distances.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.target import kind_names_of, machine_of
from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE, OFF_PACKAGE_ROOT, place_text
from mcm_compiler.page.contents import STALLS, Compiled, Section, Table, View
from mcm_compiler.report.details import LINK_HEADS, link_cells
from mcm_compiler.report.sentences import kernel_phrase, place_name, role_sentence, round_of
from mcm_compiler.report.verdict.bottleneck_line import ENGINES, busy_parts
from mcm_compiler.text.units import bytes_text, percent_text, seconds_text

Row = Mapping[str, Any]

_OUTSIDE = {HOST_ROOT: HOST, OFF_PACKAGE_ROOT: OFF_PACKAGE}
"""Drawn names of the two ends of a channel that all chips share."""


def package_section(compiled: Compiled) -> Section | None:
    """The map with a table of chips and one of links; None where nothing is known of chips."""
    report = compiled.report
    if not report["chips"]:
        return None
    lead = [_lead(compiled)]
    if (roles := role_sentence(report)) is not None:
        lead.append(f"Replicas: {roles}.")
    tables = [_chip_table(report["chips"], compiled.replicas, _kinds(compiled))]
    if report["links"]:
        tables.append(Table(LINK_HEADS, tuple(link_cells(report)), frozenset(range(2, 6)), "Links"))
    return Section(
        "package",
        "Package",
        tuple(lead),
        View("package", _data(compiled), "Map of the package: how busy and full each chip is"),
        tuple(tables),
        folded=True,
    )


def _lead(compiled: Compiled) -> str:
    used, report = len(compiled.roles), compiled.report
    text = (
        f"{used} of {report['target']['chips']} chips run the model. Of each chip, "
        "the left bar is the share of the period for which it is busy, the right bar its SRAM."
    )
    links = [row for row in report["links"] or () if row["utilisation"] is not None]
    if not links:
        return text
    busiest = max(links, key=lambda row: row["utilisation"])
    ends: list[int] = [busiest["source"], busiest["destination"]]
    source, target = (place_text(_OUTSIDE.get(end, end), "chip") for end in ends)
    share = percent_text(busiest["utilisation"])
    return f"{text} The busiest link leads from {source} to {target} and is busy {share}."


def _data(compiled: Compiled) -> dict[str, Any]:
    report, devices = compiled.report, compiled.report["target"]["chips"]
    channels = _channels(compiled, devices)
    drawn = layout_of(devices, channels)
    rows = {row["chip"]: row for row in report["chips"]}
    role_of = {chip: (pipeline, runs) for chip, pipeline, runs in compiled.roles}
    worst = report["bottleneck"] or {"chip": None, "source": None, "destination": None}
    kinds = {engine for row in rows.values() for engine, share in _engines(row).items() if share}
    engines = [*(one for one in ENGINES if one in kinds), *sorted(kinds - ENGINES.keys())]
    return {
        "shape": drawn.shape,
        "word": "chip",
        "places": [[round(float(x), 4), round(float(y), 4)] for x, y in drawn.places],
        "details": {
            str(chip): _details(row, _kinds(compiled))
            + _served(report, chip)
            + _measured(compiled, chip)
            for chip, row in rows.items()
        },
        "engines": [ENGINES.get(engine, engine) for engine in engines] or ["busy"],
        "chips": [_chip(chip, role_of, rows, worst, engines) for chip in range(devices)],
        "links": _links(compiled, channels, worst),
        "pipelines": compiled.replicas,
        "kinds": _kinds(compiled),
    }


def _served(report: Row, chip: int) -> list[list[Any]]:
    """The classes of a round that a chip of the first pipeline serves."""
    roles = (report.get("replication") or {}).get("chips", [])
    classes = next((r.get("classes") for r in roles if r["chip"] == chip), None)
    served = ", ".join(map(str, classes or ()))
    return [["inferences", f"{served} of each {round_of(report)}"]] if classes else []


def _measured(compiled: Compiled, chip: int) -> list[list[Any]]:
    """Busy time of a chip of the first pipeline as a process."""
    rows = (compiled.measured or {"chips": ()})["chips"]
    return [["as a process", seconds_text(r["busy_s"])] for r in rows if r["chip"] == chip]


def _kinds(compiled: Compiled) -> list[str]:
    """The kind of each chip of the package; empty where all are of one kind."""
    names, target = kind_names_of(compiled.target), compiled.target
    kinds = None if target is None else machine_of(target).device_kind
    return [] if kinds is None else [names[int(kind)] for kind in kinds if names]


def _channels(compiled: Compiled, devices: int) -> list[tuple[int, int]]:
    """Ends of the channels between devices."""
    if compiled.target is not None:
        machine = machine_of(compiled.target)
        ends = [(int(a), int(b)) for a, b in machine.channel_ends]
        if machine.num_devices == devices:
            return sorted({(a, b) for a, b in ends if min(a, b) >= 0})
    if compiled.report["target"].get("family") is None:
        return [(chip, chip + 1) for chip in range(devices - 1)]
    between = [(k["source"], k["destination"]) for k in compiled.report["links"] or ()]
    return sorted({(a, b) for a, b in between if min(a, b) >= 0 and max(a, b) < devices})


def _chip(
    chip: int,
    role_of: Mapping[int, tuple[int, int]],
    rows: Mapping[int, Row],
    worst: Row,
    engines: Sequence[str],
) -> dict[str, Any]:
    pipeline, runs = role_of.get(chip, (None, None))
    row = rows.get(runs) if runs is not None else None
    return {
        "busy": None if row is None else row["utilisation"],
        "parts": [] if row is None else _parts(row, engines),
        "memory": None if row is None else _full(row),
        "pipeline": pipeline,
        "runs": runs,
        "worst": runs is not None and runs == worst["chip"],
    }


def _engines(row: Row) -> Mapping[str, float | None]:
    """Shares of the period of each engine; reports of the first release do not have them."""
    return row.get("engine_utilisation") or {}


def _parts(row: Row, engines: Sequence[str]) -> list[float]:
    """Shares of the period for which a chip is busy, by engine where these are known."""
    shares = _engines(row)
    if not any(shares.values()):
        return [row["utilisation"] or 0.0]
    return [round(shares.get(engine) or 0.0, 6) for engine in engines]


def _full(row: Row) -> float | None:
    """The share of a chip's SRAM that is in use at most."""
    used, limit = row["sram_high_water_bytes"], row["sram_bytes"]
    return None if used is None or not limit else round(used / limit, 6)


def _links(compiled: Compiled, channels: list[tuple[int, int]], worst: Row) -> list[dict[str, Any]]:
    """Channels between chips, used or not, and those to places outside that carry something."""
    each, devices = compiled.chips_each, compiled.report["target"]["chips"]
    loads: dict[tuple[int, int], tuple[Row, tuple[int, int]]] = {}
    for row in compiled.report["links"] or ():
        ends = (row["source"], row["destination"])
        # What all chips share is one channel, whichever pipeline it serves.
        alike = 1 if min(ends) < 0 and max(ends) < 0 else compiled.replicas
        for pipeline in range(alike):
            a, b = (e + pipeline * each if e >= 0 else e for e in ends)
            if max(a, b) < devices:
                loads[a, b] = (row, ends)
    found: list[dict[str, Any]] = []
    for ends in sorted({*channels, *loads}):
        row, own = loads.get(ends, (None, None))
        found.append(
            {
                "from": ends[0],
                "to": ends[1],
                "busy": None if row is None else row["utilisation"],
                "name": f"{_place(ends[0])} to {_place(ends[1])}",
                "load": None if row is None else bytes_text(row["bytes_per_inference"]),
                "worst": own is not None and own == (worst["source"], worst["destination"]),
            }
        )
    return found


def _place(end: int) -> str:
    return place_name(_OUTSIDE.get(end, end))


def _details(row: Row, kinds: Sequence[str]) -> list[list[Any]]:
    """Label and text of each fact of a chip."""
    period = _period(row)
    stalls = [
        [f"waits {STALLS.get(reason, 'for ' + reason)}", percent_text(seconds / period)]
        for reason, seconds in (row["stall_s"] or {}).items()
        if period and seconds / period >= 5e-4
    ]
    heaviest = row["heaviest_op"]
    facts = [["busy", f"{percent_text(row['utilisation'])} ({seconds_text(row['busy_s'])})"]]
    if kinds:
        facts.insert(0, ["kind", kinds[int(row["chip"])]])
    facts += [["of which", parts]] if (parts := busy_parts(row)) else []
    facts += stalls
    facts += [["ops", "-" if row["ops"] is None else f"{row['ops']:,}"]]
    facts += [["kernels", "-" if row["kernels"] is None else f"{row['kernels']:,}"]]
    facts += [
        ["SRAM", f"{bytes_text(row['sram_high_water_bytes'])} of {bytes_text(row['sram_bytes'])}"],
        ["weights", bytes_text(row["weight_bytes"])],
    ]
    if heaviest:
        facts.append(
            ["longest kernel", f"{kernel_phrase(heaviest)} ({seconds_text(heaviest['seconds'])})"]
        )
    return facts


def _period(row: Row) -> float | None:
    """Seconds of a pipeline's period, from what the row says of it."""
    return row["busy_s"] / row["utilisation"] if row["busy_s"] and row["utilisation"] else None


def _chip_table(rows: list[Row], replicas: int, kinds: Sequence[str]) -> Table:
    cells: list[tuple[str, ...]] = []
    for row in rows:
        period = _period(row)
        stalls = row["stall_s"] or {}
        cells.append(
            (
                str(row["chip"]),
                *([kinds[int(row["chip"])]] if kinds else []),
                percent_text(row["utilisation"]),
                seconds_text(row["busy_s"]),
                *(
                    percent_text(stalls[reason] / period if period and reason in stalls else None)
                    for reason in STALLS
                ),
                bytes_text(row["sram_high_water_bytes"]),
                bytes_text(row["weight_bytes"]),
                "-" if row["ops"] is None else f"{row['ops']:,}",
                kernel_phrase(row["heaviest_op"]) if row["heaviest_op"] else "-",
            )
        )
    return Table(
        (
            "chip", *(["kind"] if kinds else ()), "busy", "time", "waits for input", "for links",
            "for buffers", "SRAM", "weights", "ops", "longest kernel",
        ),
        tuple(cells),
        frozenset({0, *range(2, 10)} if kinds else range(9)),
        "Chips of the first replica" if replicas > 1 else "Chips",
    )  # fmt: skip


Shape = Literal["grid", "free"]

Pairs = frozenset[tuple[int, int]]
"""Devices that a channel joins, the lower one first."""

ROUNDS = 200
"""Of stress majorisation; packages of some hundred devices have long settled by then."""

_LEAST_ROW = 3

_LONGEST_ROW = 9


class Layout(NamedTuple):
    """Where devices are drawn.

    Attributes:
        shape: what was found.
        places: `[D, 2]`, x to the right and y down; neighbours are about 1 apart.
    """

    shape: Shape
    places: Floats


def layout_of(devices: int, channels: list[tuple[int, int]]) -> Layout:
    """Places of devices, from the channels between them.

    Args:
        devices: how many.
        channels: the ends of each channel; those to or from other places than devices are ignored.
    """
    pairs = frozenset((min(a, b), max(a, b)) for a, b in channels if a != b and min(a, b) >= 0)
    if _is_row(devices, pairs):
        return Layout("grid", _row(devices))
    if (columns := _grid_columns(devices, pairs)) is not None:
        place = np.arange(devices)
        return Layout("grid", np.stack([place % columns, place // columns], 1).astype(np.float64))
    return Layout("free", _by_stress(devices, pairs))


def _is_row(devices: int, pairs: Pairs) -> bool:
    """Return whether each device is joined to the next one, and the last at most to the first."""
    row = frozenset((i, i + 1) for i in range(devices - 1))
    return devices >= _LEAST_ROW and bool(pairs) and pairs - {(0, devices - 1)} == row


def _row(devices: int) -> Floats:
    """A row that turns back after `_LONGEST_ROW` devices, or earlier to have equal parts."""
    lines = -(-devices // _LONGEST_ROW)
    length = -(-devices // lines)
    line, at = np.divmod(np.arange(devices), length)
    return np.stack([np.where(line % 2, length - 1 - at, at), line], 1).astype(np.float64)


def _grid_columns(devices: int, pairs: Pairs) -> int | None:
    """Columns of a mesh or a torus that is numbered row by row; None where it is neither."""
    for columns in range(2, devices // 2 + 1):
        if devices % columns:
            continue
        across = frozenset((i, i + 1) for i in range(devices) if (i + 1) % columns)
        down = frozenset((i, i + columns) for i in range(devices - columns))
        last = devices - columns
        closing = {(r, r + columns - 1) for r in range(0, devices, columns) if columns > 2}
        closing |= {(c, last + c) for c in range(columns) if devices > 2 * columns}
        if across | down <= pairs <= across | down | closing:
            return columns
    return None


def _by_stress(devices: int, pairs: Pairs) -> Floats:
    """Places whose distances are the hops between devices, as far as a plane allows."""
    hops = _hops(devices, pairs)
    angle = 2 * np.pi * np.arange(devices) / max(devices, 1)
    places = max(devices / 6, 1.0) * np.stack([np.cos(angle), np.sin(angle)], 1)
    if devices < _LEAST_ROW:
        return np.stack([np.arange(devices), np.zeros(devices)], 1).astype(np.float64)
    weight = np.divide(1.0, hops**2, out=np.zeros_like(hops), where=hops > 0)
    laplacian = np.diag(weight.sum(1)) - weight
    inverse = np.linalg.pinv(laplacian)
    for _ in range(ROUNDS):
        apart = np.linalg.norm(places[:, None] - places[None], axis=2)
        scaled = np.divide(weight * hops, apart, out=np.zeros_like(hops), where=apart > 1e-9)
        pull = np.diag(scaled.sum(1)) - scaled
        places = inverse @ (pull @ places)
    return places - places.mean(0)


def _hops(devices: int, pairs: Pairs) -> Floats:
    """`[D, D]`, channels on the way; devices without a way are one more than any apart."""
    beside: list[list[int]] = [[] for _ in range(devices)]
    for a, b in sorted(pairs):
        beside[a].append(b)
        beside[b].append(a)
    hops = np.full((devices, devices), -1.0)
    for start in range(devices):
        hops[start, start] = 0
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            for other in beside[here]:
                if hops[start, other] < 0:
                    hops[start, other] = hops[start, here] + 1
                    waiting.append(other)
    hops[hops < 0] = hops.max(initial=0) + 1
    return hops
