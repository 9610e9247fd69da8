"""Small training graphs in the form of the published files."""

from __future__ import annotations

from typing import Any

import numpy as np


def training_graph(seed: int, *, mirrored: bool) -> tuple[dict[str, Any], bool]:
    """A small training graph in the form of the files, and whether it lists edges along.

    Up to 6 forward operators, most of them with a backward operator of their color. The backward
    pass mirrors the forward pass, listed along it or against it, or has edges of its own. Where it
    is listed against, some backward operators have no forward operator of their color.
    """
    rng = np.random.default_rng([seed, int(mirrored)])
    n = int(rng.integers(2, 7))
    along = bool(rng.random() < 0.5)
    color = list(range(n))
    if rng.random() < 0.3:
        color[int(rng.integers(n))] = color[0]
    chance = rng.uniform(0.2, 0.8)
    forward = [(u, v) for u in range(n) for v in range(u + 1, n) if rng.random() < chance]
    mates = {v: n + k for k, v in enumerate(np.flatnonzero(rng.random(n) < 0.85).tolist())}
    colors = color + [color[v] for v in mates]
    if mirrored:
        pairs = [(mates[u], mates[v]) for u, v in forward if u in mates and v in mates]
        back = pairs if along else [(v, u) for u, v in pairs]
    else:
        order = rng.permutation(list(mates.values())).tolist()
        back = [
            (order[i], order[k])
            for k in range(len(order))
            for i in range(k)
            if rng.random() < chance
        ]
    if mirrored and not along and mates and rng.random() < 0.4:
        other = list(mates.values())[int(rng.integers(len(mates)))]
        back.append((other, len(colors)) if rng.random() < 0.5 else (len(colors), other))
        colors.append(n)
    saved = [(u, v) for u, v in mates.items() if rng.random() < 0.3]
    time = rng.integers(0, 20, len(colors)).astype(float).tolist()
    cost = (rng.integers(0, 6, len(colors)) / 2).tolist()
    size = rng.integers(0, 5, len(colors)).astype(float).tolist()
    devices = int(rng.integers(2, 4))
    memory = np.ceil(sum(size) / devices * rng.uniform(1.0, 1.6)) if rng.random() < 0.4 else 1e3
    nodes = [
        {
            "id": v,
            "fpgaLatency": time[v],
            "cpuLatency": time[v] * float(rng.integers(1, 4)),
            "size": size[v],
            "supportedOnFpga": int(rng.random() < 0.95),
            "isBackwardNode": int(v >= n),
            "colorClass": colors[v],
        }
        for v in range(len(colors))
    ]
    return {
        "maxFPGAs": devices,
        "maxCPUs": int(rng.random() < 0.3),
        "maxSizePerFPGA": max(float(memory), 1.0),
        "nodes": nodes,
        "edges": [{"sourceId": u, "destId": v, "cost": cost[u]} for u, v in forward + back + saved],
    }, along
