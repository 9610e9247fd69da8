"""Host section of the report: ops that chips lack and the host runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import onnx_ir as ir

from mcm_compiler.components.op_support import runs_on_host, unsupported_ops
from mcm_compiler.contracts.chips import kernels_of
from mcm_compiler.contracts.cost import KnowsHostOps, NodeCost
from mcm_compiler.contracts.program import SimulationResult
from mcm_compiler.contracts.target import HOST, Target, cost_model_on, machine_of
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.report.records.sections import HostFacts, LackingRow, TripRow
from mcm_compiler.report.sentences import round_of
from mcm_compiler.text.units import bytes_text, count_text, percent_text, seconds_text

HOST_SECTION: Final = "host_fallback"
"""Name of the field; reports lack it where chips run everything."""

FIRST = 3
"""Ops that are named."""


def host_facts(
    target: Target,
    graphs: Mapping[int, ir.Graph],
    simulation: SimulationResult | None,
    replicas: int,
) -> HostFacts | None:
    """Facts about ops that the host runs for chips; None where it runs nothing.

    Args:
        target: the package.
        graphs: the chips' models by chip, those of one pipeline.
        simulation: of one pipeline.
        replicas: pipelines side by side.
    """
    trips = [trip for chip in sorted(graphs) for trip in _trips(target, chip, graphs[chip])]
    if not trips:
        return None
    waits: dict[int, float] = {}
    for chip, _, _, seconds in trips:
        waits[chip] = waits.get(chip, 0.0) + seconds
    chip = max(sorted(waits), key=lambda one: waits[one])
    period_s = simulation.period_s if simulation is not None else 0.0
    rows = _rows(target, trips)
    return {
        "lacking": _lacking(target, [node for _, nodes, _, _ in trips for node in nodes]),
        "round_trips": rows,
        "trips": len(trips),
        "up_bytes": sum(row["up_bytes"] for row in rows),
        "down_bytes": sum(row["down_bytes"] for row in rows),
        "seconds": math.fsum(row["seconds"] for row in rows),
        "on_chips_s": math.fsum(row["on_chips_s"] for row in rows),
        "chip": chip,
        "chip_s": waits[chip],
        "share_of_period": waits[chip] / period_s if period_s > 0 else None,
        "link_share": _link_share(target, trips, simulation, replicas) if simulation else None,
    }


_Trip = tuple[int, Sequence[ir.Node], NodeCost, float]
"""Chip, ops, cost on a chip of speed 1, and seconds on that chip."""


def _trips(target: Target, chip: int, graph: ir.Graph) -> Iterator[_Trip]:
    nodes = placeable_nodes(graph)
    if not unsupported_ops(target, nodes):
        return
    model = cost_model_on(target, chip)
    if not isinstance(model, KnowsHostOps):
        return
    speeds = target.limits.chip_speed
    for members in kernels_of(nodes):
        if runs_on_host(model, members):
            cost = model.group_cost(members)
            yield chip, members, cost, cost.seconds / (speeds[chip] if speeds else 1.0)


def _lacking(target: Target, nodes: Sequence[ir.Node]) -> list[LackingRow]:
    rows: dict[tuple[str, str], LackingRow] = {}
    for node, why in unsupported_ops(target, nodes).items():
        row = rows.setdefault(
            (why.because, why.what),
            {"because": why.because, "what": why.what, "ops": 0, "inside": 0, "first": []},
        )
        row["ops"] += 1
        row["inside"] += why.inside
        if len(row["first"]) < FIRST:
            row["first"].append(node.name or "")
    return list(rows.values())


def _rows(target: Target, trips: Sequence[_Trip]) -> list[TripRow]:
    kinds: dict[tuple[str, ...], list[_Trip]] = {}
    for trip in trips:
        lacking = unsupported_ops(target, trip[1])
        kinds.setdefault(tuple(sorted({node.op_type for node in lacking})), []).append(trip)
    rows = [_row(ops, alike) for ops, alike in kinds.items()]
    return sorted(rows, key=lambda row: (-row["seconds"], row["ops"]))


def _row(ops: Sequence[str], alike: Sequence[_Trip]) -> TripRow:
    costs = [cost.trip for _, _, cost, _ in alike if cost.trip is not None]
    return {
        "ops": list(ops),
        "trips": len(alike),
        "up_bytes": sum(trip.up_bytes for trip in costs),
        "down_bytes": sum(trip.down_bytes for trip in costs),
        "transfer_s": math.fsum(trip.transfer_s for trip in costs),
        "host_s": math.fsum(trip.host_s for trip in costs),
        "seconds": math.fsum(seconds for _, _, _, seconds in alike),
        "on_chips_s": math.fsum(trip.chip_s for trip in costs),
    }


def _link_share(
    target: Target, trips: Sequence[_Trip], simulation: SimulationResult, replicas: int
) -> float | None:
    """See `HostFacts`; None for a target that does not give its channels."""
    machine = machine_of(target)
    if not simulation.period_s > 0:
        return None
    busy = {(link.source, link.destination): link.busy_s for link in simulation.links}
    load: dict[int, float] = {}
    for chip, _, cost, _ in trips:
        if cost.trip is None:
            continue
        ways = ((machine.route(chip, HOST), cost.trip.up_bytes),
                (machine.route(HOST, chip), cost.trip.down_bytes))  # fmt: skip
        for route, size in ways:
            for channel in route:
                seconds = size / float(machine.channel_bytes_per_s[channel])
                # All pipelines cross what all chips share.
                times = replicas if channel in machine.shared_channels else 1
                load[channel] = load.get(channel, 0.0) + seconds * times
    most = 0.0
    for channel, seconds in load.items():
        ends = machine.channel_ends[channel].tolist()
        most = max(most, seconds + busy.get((int(ends[0]), int(ends[1])), 0.0))
    return most / simulation.period_s


def host_sentences(report: Mapping[str, Any]) -> list[str]:
    """Sentences about the host's ops, their reason and cost; empty where it runs nothing."""
    found = report.get(HOST_SECTION)
    if found is None:
        return []
    lacking = [_lacking_phrase(row) for row in found["lacking"] if row["because"] != "table"]
    tables = [_lacking_phrase(row) for row in found["lacking"] if row["because"] == "table"]
    trips = count_text(found["trips"], "round trip")
    unit = "round" if round_of(report) > 1 else "inference"
    cost = (
        f"{trips} per {unit}: {seconds_text(found['seconds'])}, "
        f"{bytes_text(found['up_bytes'])} up and {bytes_text(found['down_bytes'])} down, where "
        f"chips that could run it would take {seconds_text(found['on_chips_s'])}"
    )
    if (share := found["share_of_period"]) is not None:
        cost += f"; chip {found['chip']} waits {percent_text(share)} of its period for it"
    parts = [f"chips lack {', '.join(lacking)}"] if lacking else []
    parts += [f"tables of {', '.join(tables)}, read by rows"] if tables else []
    parts.append(cost)
    if (link := found["link_share"]) is not None and link > 1:
        parts.append(
            f"a channel to the host would need {percent_text(link)} of the period for transfers "
            "and round trips together: the period cannot be kept"
        )
    return parts


def _lacking_phrase(row: Mapping[str, Any]) -> str:
    what = f"type {row['what']}" if row["because"] == "type" else row["what"]
    return f"{what} ({count_text(row['ops'], 'op')})"


def host_table(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The round trips by the ops that share one, as texts in the order of `HOST_HEADS`."""
    sizes, times = ("up_bytes", "down_bytes"), ("transfer_s", "host_s", "seconds", "on_chips_s")
    return [
        (
            ", ".join(row["ops"]),
            str(row["trips"]),
            *(bytes_text(row[key]) for key in sizes),
            *(seconds_text(row[key]) for key in times),
        )
        for row in (report.get(HOST_SECTION) or {"round_trips": []})["round_trips"]
    ]


HOST_HEADS = ("ops", "trips", "up", "down", "on the way", "on the host", "all", "on chips")
