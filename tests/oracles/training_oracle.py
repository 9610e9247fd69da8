"""The least load of all placements of a training graph, from the definitions of the paper.

Shares nothing with the compiler: plain data in, a number out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def least_load(data: dict[str, Any]) -> float:
    """By trying all placements; infinite where none is valid."""
    nodes, accelerators = data["nodes"], data["maxFPGAs"]
    colors = sorted({node["colorClass"] for node in nodes})
    place = {color: k for k, color in enumerate(colors)}
    own = [place[node["colorClass"]] for node in nodes]
    loads = list[tuple[float, list[int]]]()
    for choice in _choices(len(colors), accelerators, data["maxCPUs"]):
        device = [choice[k] for k in own]
        load = _load(data, device)
        if load < float("inf"):
            loads.append((load, device))
    for load, device in sorted(loads):
        if _flows_one_way(data, device) and _contiguous(data, device):
            return load
    return float("inf")


def _choices(count: int, accelerators: int, cpus: int) -> Iterator[list[int]]:
    """Devices of the colors, of accelerators that only differ by name the first ones."""

    def grow(chosen: list[int], used: int) -> Iterator[list[int]]:
        if len(chosen) == count:
            yield chosen
            return
        for d in range(min(used + 1, accelerators)):
            yield from grow([*chosen, d], max(used, d + 1))
        for d in range(accelerators, accelerators + cpus):
            yield from grow([*chosen, d], used)

    return grow([], 0)


def _load(data: dict[str, Any], device: list[int]) -> float:
    """Section 3: operators and transfers of a device add up; CPUs pay for no transfers."""
    accelerators = data["maxFPGAs"]
    load = [0.0] * (accelerators + data["maxCPUs"])
    size = [0.0] * len(load)
    for node, d in zip(data["nodes"], device, strict=True):
        on_cpu = d >= accelerators
        if not on_cpu and not node["supportedOnFpga"]:
            return float("inf")
        load[d] += node["cpuLatency" if on_cpu else "fpgaLatency"]
        size[d] += node["size"]
    if any(need > data["maxSizePerFPGA"] for need in size[:accelerators]):
        return float("inf")
    transfers = set[tuple[int, int]]()
    cost = dict[int, float]()
    for edge in data["edges"]:
        u, v = edge["sourceId"], edge["destId"]
        if device[u] != device[v]:
            cost[u] = edge["cost"]
            transfers |= {(u, device[u]), (u, device[v])}
    for u, d in transfers:
        if d < accelerators:
            load[d] += cost[u]
    return max(load)


def _flows_one_way(data: dict[str, Any], device: list[int]) -> bool:
    """Forward data, and mirrored data of colors that no forward operator has, in no circle."""
    nodes = data["nodes"]
    mated = {node["colorClass"] for node in nodes if not node["isBackwardNode"]}
    after: dict[int, set[int]] = {d: set() for d in device}
    for edge in data["edges"]:
        u, v = edge["sourceId"], edge["destId"]
        back = nodes[u]["isBackwardNode"], nodes[v]["isBackwardNode"]
        alone = nodes[u]["colorClass"] not in mated or nodes[v]["colorClass"] not in mated
        if back == (0, 0):
            after[device[u]].add(device[v])
        elif back == (1, 1) and alone:
            after[device[v]].add(device[u])
    for d, others in after.items():
        others.discard(d)
    while gone := [d for d in after if not after[d]]:
        for d in gone:
            del after[d]
        for others in after.values():
            others.difference_update(gone)
    return not after


def _contiguous(data: dict[str, Any], device: list[int]) -> bool:
    """Definition 3.1 for the backward pass: no path leaves a device's part and comes back."""
    nodes = data["nodes"]
    following: dict[int, list[int]] = {}
    for edge in data["edges"]:
        u, v = edge["sourceId"], edge["destId"]
        if nodes[u]["isBackwardNode"] and nodes[v]["isBackwardNode"]:
            following.setdefault(u, []).append(v)
    for start, home in enumerate(device):
        outside = [v for v in following.get(start, []) if device[v] != home]
        seen = set(outside)
        while outside:
            for w in following.get(outside.pop(), []):
                if device[w] == home:
                    return False
                if w not in seen:
                    seen.add(w)
                    outside.append(w)
    return True
