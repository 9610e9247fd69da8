"""Small placement problems, and all their placements."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from mcm_compiler.contracts.placement import PlacementProblem
from mcm_compiler.placements.placement_file import placement_from_json
from mcm_passes.mapping.device_placement.device_loads import device_loads

PUBLISHED = Path(__file__).parents[1] / "data" / "device_placement"


def node(ident: int, time: float, **fields: Any) -> dict[str, Any]:
    return {
        "id": ident,
        "supportedOnFpga": 1,
        "cpuLatency": 10.0 * time,
        "fpgaLatency": time,
        "isBackwardNode": 0,
        "size": 1.0,
        **fields,
    }


def problem_data(nodes: list[dict[str, Any]], edges: list[tuple[int, int, float]], **fields: Any):
    return {
        "maxSizePerFPGA": 100.0,
        "maxFPGAs": 2,
        "maxCPUs": 0,
        "nodes": nodes,
        "edges": [{"sourceId": u, "destId": v, "cost": cost} for u, v, cost in edges],
        **fields,
    }


def example(nodes: list[dict[str, Any]], edges: list[tuple[int, int, float]], **fields: Any):
    return placement_from_json(problem_data(nodes, edges, **fields), "example.json")


def random_problem(rng: np.random.Generator, **fields: Any) -> PlacementProblem:
    """Up to 7 operators with dependencies, of which some are free, share a color or need a CPU."""
    n = int(rng.integers(2, 8))
    cost = np.where(rng.random(n) < 0.3, 0.0, rng.integers(1, 5, n)).tolist()
    pairs = [(u, v) for u, v in itertools.combinations(range(n), 2) if rng.random() < 0.4]
    nodes = []
    for v in range(n):
        time = 0.0 if rng.random() < 0.3 else float(rng.integers(1, 9))
        extra: dict[str, Any] = {"size": float(rng.integers(0, 4))}
        if rng.random() < 0.3:
            extra["colorClass"] = int(rng.integers(0, 2))
        nodes.append(node(v, time, **extra))
    return example(nodes, [(u, v, cost[u]) for u, v in pairs], **fields)


def random_file(seed: int, *, backward: bool = False) -> dict[str, Any]:
    """Up to 5 operators, with colors that make cycles, CPUs that alone run some, few devices.

    With `backward` up to two operators of a backward pass, most of them of a forward color.
    """
    rng = np.random.default_rng([seed, 45])
    n = int(rng.integers(2, 6))
    m = int(rng.integers(1, 3)) if backward else 0
    colored, colors = rng.choice([0.0, 0.3, 0.7]), int(rng.integers(1, 4))
    color = [int(rng.integers(colors)) if rng.random() < colored else 50 + v for v in range(n)]
    color += [color[int(rng.integers(n))] if rng.random() < 0.8 else 90 + v for v in range(m)]
    times = np.round(rng.uniform(0.0, 9.0, (n + m, 3)), int(rng.integers(2))).tolist()
    nodes = [
        node(
            v,
            times[v][0],
            cpuLatency=3.0 * times[v][1],
            supportedOnFpga=int(rng.random() < 0.8),
            isBackwardNode=int(v >= n),
            size=float(rng.integers(0, 4)),
            colorClass=color[v],
        )
        for v in range(n + m)
    ]
    chance = rng.uniform(0.2, 0.8)
    pairs = [(u, v) for u, v in itertools.combinations(range(n + m), 2) if rng.random() < chance]
    limits = {"maxFPGAs": int(rng.integers(0, 3)), "maxCPUs": int(rng.integers(0, 4 - m))}
    edges = [(u, v, times[u][2] / 2) for u, v in pairs]
    return problem_data(nodes, edges, maxSizePerFPGA=float(rng.integers(2, 12)), **limits)


def least_period(problem: PlacementProblem, rule: Any) -> float:
    """By trying all placements; infinite where none is valid."""
    devices = range(problem.max_accelerators + problem.max_cpus)
    best = float("inf")
    for placement in itertools.product(devices, repeat=problem.num_operators):
        loads = device_loads(problem, np.array(placement, np.int32), rule)
        if loads.period < best and not loads.violations:
            best = loads.period
    return best
