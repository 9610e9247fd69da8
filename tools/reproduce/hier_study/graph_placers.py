"""Plug-in: METIS and Scotch as placers (extra `baselines`).

    mcmc place m.onnx --plugin tools/reproduce/hier_study/graph_placers.py --placer metis

`local_search` is ahead of both on every graph of the record (`hier_physics.py`), so that the
compiler itself is without them.
"""

from __future__ import annotations

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mcm_compiler import register
from mcm_compiler.arrays.types import Floats, Longs
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.families.box.clusters.weight_clusters import (
    Adjacency,
    edge_bytes,
    fastest_times,
    quotient,
    sums_of,
)
from mcm_passes.families.box.search.annealing import judge_of
from mcm_passes.families.box.search.units import device_speeds, fallbacks, fast_devices

FINENESS = 10_000
"""Weights of nodes and edges are integers up to about so much for libraries."""

SEED_LIMIT = 1 << 30

_LONG_BYTES = 8

_THREADS = "SCOTCH_PTHREAD_NUMBER"


@contextmanager
def _one_thread_of_scotch() -> Generator[None]:
    # Read whenever Scotch maps; its Python package passes on no other way to say so.
    known = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        if known is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = known


@dataclass(frozen=True)
@checked(seeds=at_least(1))
class GraphPartitions(ABC):
    """Base of the rivals that divide the graph of ops.

    Attributes:
        seeds: partitions, the best of which is taken, at least 1.
        host: whether the host takes part, with a share by its speed.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    package: ClassVar[str]
    extra: ClassVar[str] = "baselines"

    seeds: int = 20
    host: bool = False

    @abstractmethod
    def parts(
        self, library: Any, graph: Adjacency, weight: Floats, shares: Floats, seed: int
    ) -> Any:
        """The part of each node.

        Args:
            library: the Python package.
            graph: the graph of sets of ops that run together.
            weight: of its nodes.
            shares: of the parts.
            seed: of the partition.
        """

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Simulates the partition of each seed."""
        problem, box, judge = request.problem, request.box, judge_of(request)
        library = importlib.import_module(self.package)
        request.progress(f"{self.title}, {self.seeds} seeds")
        duration = fastest_times(problem, box)
        speeds = device_speeds(duration, problem.time_s, box.kind_of)
        devices = fast_devices(speeds)
        if self.host:
            devices = np.union1d(devices, [box.host]).astype(np.int32)
        shares = speeds[devices] / speeds[devices].sum()
        groups = problem.num_groups
        graph = quotient(problem.edges, edge_bytes(problem), problem.together, groups)
        weight = sums_of(problem.together, duration, groups)
        ways = fallbacks(problem, box)
        rng = np.random.default_rng(request.seed)
        for _ in range(self.seeds):
            if len(judge.best) and not judge.may_ask:
                break
            drawn = int(rng.integers(1, SEED_LIMIT))
            chosen = np.zeros(groups, np.int64)
            if len(devices) > 1 and groups > 1:
                with _one_thread_of_scotch():
                    found = self.parts(library, graph, weight, shares, drawn)
                chosen = np.asarray(found, np.int64)
            judge.score(ways.placement(devices[chosen[problem.together]]))
        return judge.answer(f"{self.title}, best of {self.seeds} seeds")


@register("placer")
@dataclass(frozen=True)
class Metis(GraphPartitions):
    """K-way partitions of METIS (Karypis and Kumar 1998): equal time, few bytes between parts.

    Nodes are ops that run together, weighted with their time on the fastest device; edges weigh
    the bytes of values. It knows no directions and thus no critical path. Needs the extra
    `baselines`.
    """

    name: ClassVar[str] = "metis"
    summary: ClassVar[str] = "METIS on the graph of ops, a rival (needs the extra 'baselines')"
    title: ClassVar[str] = "METIS"
    package: ClassVar[str] = "pymetis"

    def parts(
        self, library: Any, graph: Adjacency, weight: Floats, shares: Floats, seed: int
    ) -> Any:
        """The parts that METIS finds."""
        adjacency = library.CSRAdjacency(graph.begin.tolist(), graph.other.tolist())
        return library.part_graph(
            len(shares),
            adjacency=adjacency,
            vweights=_whole(weight).tolist(),
            eweights=_whole(graph.weight).tolist(),
            tpwgts=shares.tolist(),
            options=library.Options(seed=seed),
        ).vertex_part


@register("placer")
@dataclass(frozen=True)
class Scotch(GraphPartitions):
    """Static mapping of Scotch (Pellegrini 1994) onto a complete graph of weighted devices.

    The graph is that of `metis`. Scotch runs on one thread, because on several the same seed gives
    other mappings each time. Needs the extra `baselines`.
    """

    name: ClassVar[str] = "scotch"
    summary: ClassVar[str] = "static mapping by Scotch, a rival (needs the extra 'baselines')"
    title: ClassVar[str] = "Scotch"
    package: ClassVar[str] = "scotchpy"

    def parts(
        self, library: Any, graph: Adjacency, weight: Floats, shares: Floats, seed: int
    ) -> Any:
        """The parts that Scotch maps onto each device."""
        library.common.random_seed(seed)
        library.common.random_reset()
        made = library.Graph()
        kind = np.int64 if library.num_sizeof() == _LONG_BYTES else np.int32
        made.build(
            verttab=graph.begin.astype(kind),
            edgetab=graph.other.astype(kind),
            velotab=_whole(weight).astype(kind),
            edlotab=_whole(graph.weight).astype(kind),
        )
        devices = library.Arch()
        devices.cmpltw(_whole(shares).astype(kind))
        found = np.zeros(len(weight), kind)
        made.map(devices, parttab=found)
        return found


def _whole(weight: Floats) -> Longs:
    """Weights as integers from 1 to about `FINENESS`."""
    most = float(weight.max(initial=0.0))
    return np.maximum(np.rint(weight * (FINENESS / max(most, 1e-300))), 1).astype(np.int64)
