"""Searches against the classical portfolio at equal processor time."""

from __future__ import annotations

from typing import Any

import numpy as np

from mcm_compiler.contracts.partition import Floats
from mcm_study.curves import Panel, geometric_mean, pair

SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
TIE = 1e-6
"""Relative difference below which two periods count as equal."""


def at_seconds(panel: Panel) -> dict[str, list[Any]]:
    """For each method, mean and deviation of the improvement after each of `SECONDS`."""
    return {
        method: [
            pair([_at(panel, method, seed, seconds) for seed in panel.seeds(method)])
            for seconds in SECONDS
        ]
        for method in panel.methods
    }


def against_classical(panel: Panel) -> dict[str, Any]:
    """For each method, at the time that the portfolio took on each graph.

    `share`: mean and deviation of its throughput over the portfolio's, geometric mean over graphs;
    `below`, `equal`, `above`: graphs, summed over seeds, on which it was slower, as fast, faster.
    """
    table: dict[str, Any] = {}
    if not panel.graphs or any(graph not in panel.classical for graph in panel.graphs):
        return table
    for method in panel.methods:
        shares = np.stack([_shares(panel, method, seed) for seed in panel.seeds(method)])
        table[method] = {
            "share": pair(geometric_mean(shares.T)),
            "below": int((shares < 1.0 - TIE).sum()),
            "equal": int((np.abs(shares - 1.0) <= TIE).sum()),
            "above": int((shares > 1.0 + TIE).sum()),
        }
    return table


def _at(panel: Panel, method: str, seed: int, seconds: float) -> float:
    found = [panel.runs[method, graph, seed].at_cpu(seconds) for graph in panel.graphs]
    return float(geometric_mean(np.array(found)))


def _shares(panel: Panel, method: str, seed: int) -> Floats:
    shares: list[float] = []
    for graph in panel.graphs:
        classical = panel.classical[graph]
        found = panel.runs[method, graph, seed].at_cpu(classical.cpu_s)
        shares.append(found / classical.improvement)
    return np.array(shares)
