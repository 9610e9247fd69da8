"""The least latency of a problem file with few CPU cores: plain data in, a number out.

Shares nothing with the compiler.
"""

from __future__ import annotations

import itertools
from typing import Any


def least_latency(data: dict[str, Any]) -> float:
    """By trying all placements; infinite where none is valid."""
    devices = range(data["maxFPGAs"] + (data["maxCPUs"] > 0))
    colors = sorted({_color(node) for node in data["nodes"]}, key=str)
    return min(
        (
            latency(data, [choice[colors.index(_color(node))] for node in data["nodes"]])
            for choice in itertools.product(devices, repeat=len(colors))
        ),
        default=float("inf"),
    )


def _color(node: dict[str, Any]) -> tuple[str, int]:
    own = node.get("colorClass")
    return ("own", node["id"]) if own is None else ("class", own)


def latency(data: dict[str, Any], device: list[int]) -> float:
    """Latency of one placement, any device from `maxFPGAs` on being a CPU; or infinity."""
    nodes, count = data["nodes"], data["maxFPGAs"]
    place = {node["id"]: min(d, count) for node, d in zip(nodes, device, strict=True)}
    by_id = {node["id"]: node for node in nodes}
    # A job is a part on an accelerator, or one operator on a CPU.
    job = {v: ("part", d) if d < count else ("cpu", v) for v, d in place.items()}
    for a in range(count):
        part = [by_id[v] for v, d in place.items() if d == a]
        if sum(node.get("size", 0.0) for node in part) > data["maxSizePerFPGA"]:
            return float("inf")
        if not all(node["supportedOnFpga"] for node in part):
            return float("inf")
    waits: dict[Any, set[Any]] = {name: set() for name in job.values()}
    carried: dict[Any, set[int]] = {name: set() for name in job.values()}
    cost = {edge["sourceId"]: edge["cost"] for edge in data["edges"]}
    for edge in data["edges"]:
        u, v = edge["sourceId"], edge["destId"]
        if job[u] != job[v]:
            waits[job[v]].add(job[u])
            carried[job[u]].add(u)
            carried[job[v]].add(u)
    time = {
        name: sum(by_id[v]["fpgaLatency"] for v, own in job.items() if own == name)
        + sum(cost[u] for u in carried[name])
        if name[0] == "part"
        else by_id[name[1]]["cpuLatency"]
        for name in waits
    }
    return _run(waits, time, {node["id"]: i for i, node in enumerate(nodes)}, data["maxCPUs"])


def _run(
    waits: dict[Any, set[Any]], time: dict[Any, float], place: dict[int, int], cores: int
) -> float:
    """Jobs start when all before are done, those of CPUs the earliest ready first."""
    end: dict[Any, float] = {}
    free = [0.0] * cores
    while len(end) < len(waits):
        ready = {
            name: max((end[b] for b in before), default=0.0)
            for name, before in waits.items()
            if name not in end and before <= end.keys()
        }
        if not ready:
            return float("inf")
        # The job that can start first: nothing that is not ready yet becomes ready before it.
        start = {
            name: at if name[0] == "part" else max(at, min(free)) for name, at in ready.items()
        }
        name = min(start, key=lambda one: (start[one], ready[one], place.get(one[1], -1)))
        end[name] = start[name] + time[name]
        if name[0] == "cpu":
            free[free.index(min(free))] = end[name]
    return max(end.values())
