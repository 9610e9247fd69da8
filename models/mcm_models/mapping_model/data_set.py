"""Measured mappings: problems with what a simulator said of some mappings of each.

A data set holds all that learning and every analytic model need, so that figures can be worked out
again from the file alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.legality import faults_of_mapping, faults_of_problem

MAKE = (
    "macs_per_cycle",
    "lanes",
    "flit_elements",
    "element_bytes",
    "banks",
    "hop_cycles",
    "fifo_flits",
    "window_flits",
    "output_flits",
)
"""Numbers of a fabric that decide how it behaves, whatever its size."""


@dataclass(frozen=True)
class Learned:
    """The source of a model's labels, as hashes.

    Attributes:
        make: `make_of` the fabric.
        lowering: `MapsChips.lowering_hash`.
        physics: `MappingJudge.physics`.
    """

    make: str
    lowering: str
    physics: str


def make_of(fabric: Fabric) -> str:
    """A hash of the numbers of `MAKE`.

    Rows, columns, the number of memory channels, the clock and the bytes of memory units are not in
    it: features are over the bound and over the sides of the mesh.
    """
    numbers = {name: getattr(fabric, name) for name in MAKE}
    return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]


RANDOM, FORMULA, MODEL = 0, 1, 2
"""Where mappings come from: drawn at random, on the way of a search by a formula, and on that of a
search by a learned model."""

ORIGINS = ("random", "formula", "model")
"""Names of these."""

SLACK = 1e-6
"""Share by which a period may lie below the bound: labels are sums of floating-point numbers."""


@dataclass(frozen=True, eq=False)
class MeasuredGraph:
    """B mappings of one problem.

    Attributes:
        family: such as `mlp`; parts of data sets are compared by it.
        problem: what was laid out.
        bound_cycles: no mapping has a shorter period.
        mappings: B of them.
        period_cycles: `[B]`, measured.
        latency_cycles: `[B]`, measured.
        error: `[B]`, by which share the period may be wrong.
        origin: `[B]`, one of `RANDOM`, `FORMULA` and `MODEL`.
    """

    family: str
    problem: MappingProblem
    bound_cycles: float
    mappings: Mappings
    period_cycles: Floats
    latency_cycles: Floats
    error: Floats
    origin: Ints

    def __len__(self) -> int:
        """B."""
        return len(self.mappings)


@dataclass(frozen=True, eq=False)
class MappingData:
    """Measured graphs of one fabric.

    Attributes:
        learned: make of the fabric, lowering and physics.
        fabric: that was measured.
        graphs: with at least one mapping each; none only where all were left out.
        seed: from which they were drawn.
        left_out: graphs that were drawn in addition to these and could not be measured.
    """

    learned: Learned
    fabric: Fabric
    graphs: tuple[MeasuredGraph, ...]
    seed: int = 0
    left_out: int = 0

    @property
    def measurements(self) -> int:
        """Mappings of all graphs."""
        return sum(len(graph) for graph in self.graphs)


def faults_of_data(fabric: Fabric, graphs: Sequence[MeasuredGraph]) -> list[str]:
    """Why nothing should be learned from graphs: one sentence each; empty for good ones."""
    faults: list[str] = []
    for number, graph in enumerate(graphs):
        found = faults_of_problem(graph.problem, fabric) or _faults_of_labels(fabric, graph)
        faults += [f"graph {number}: {fault}" for fault in found[:1]]
    return faults


def _faults_of_labels(fabric: Fabric, graph: MeasuredGraph) -> list[str]:
    count = len(graph)
    if count == 0:
        return ["it has no mapping"]
    faults = faults_of_mapping(graph.problem, fabric, graph.mappings)
    if faults:
        return faults
    for name in ("period_cycles", "latency_cycles", "error", "origin"):
        label = getattr(graph, name)
        if label.shape != (count,):
            return [f"{name} has {label.size} entries for {count} mappings"]
        for row in np.flatnonzero(~np.isfinite(label))[:1]:
            return [f"{name} of mapping {row} is {label[row]}"]
    bound = graph.bound_cycles
    if not (np.isfinite(bound) and bound > 0):
        return [f"its bound is {bound}"]
    for row in np.flatnonzero(graph.period_cycles < bound * (1 - SLACK))[:1]:
        return [f"mapping {row} has a period of {graph.period_cycles[row]}, below {bound}"]
    for row in np.flatnonzero((graph.latency_cycles <= 0) | (graph.error < 0))[:1]:
        return [f"latency or error of mapping {row} is negative"]
    for row in np.flatnonzero((graph.origin < 0) | (graph.origin >= len(ORIGINS)))[:1]:
        return [f"the origin of mapping {row} is {graph.origin[row]}"]
    return []
