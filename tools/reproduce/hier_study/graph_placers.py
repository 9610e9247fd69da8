"""Plug-in: list scheduling, METIS and Scotch as placers (the latter two: extra `baselines`).

    mcmc place m.onnx --plugin tools/reproduce/hier_study/graph_placers.py --placer metis

`local_search` is ahead of all three on every graph of the record (`hier_physics.py`), so that the
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
from mcm_compiler.arrays.kernels import entry_njit, expanded_njit
from mcm_compiler.arrays.rows import starts
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.text.option_fields import at_least, checked
from mcm_passes.families.box.clusters.weight_clusters import (
    Adjacency,
    edge_bytes,
    fastest_times,
    heads_and_tails,
    quotient,
    sums_of,
)
from mcm_passes.families.box.search.annealing import judge_of
from mcm_passes.families.box.search.units import device_speeds, fallbacks, fast_devices


@register("placer")
@dataclass(frozen=True)
class EarliestTaskFirst:
    """Ops one by one, where each ends first (Hwang et al. 1989, *Scheduling Precedence Graphs*).

    Ops are taken by the longest path to the end. What an op makes goes to each other device once,
    and waits for what left the op's device before. Memory is not looked at. Ops that run together
    follow the first of them.
    """

    name: ClassVar[str] = "etf"
    summary: ClassVar[str] = "ops one by one where each ends first, a rival"

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Simulates the schedule's placement."""
        problem, box, judge = request.problem, request.box, judge_of(request)
        request.progress("earliest task first")
        duration = fastest_times(problem, box)
        tail = duration + heads_and_tails(problem.edges, duration)[1]
        # Longest paths fall along edges; where they do not, times of 0, numbers order them.
        order = np.lexsort((np.arange(problem.num_ops), -tail))
        pairs = problem.edges
        by_reader = np.argsort(pairs[:, 1], kind="stable")
        begin = starts(np.bincount(pairs[:, 1], minlength=problem.num_ops))
        device_of = _schedule(
            order,
            problem.device_times(box),
            (begin, np.ascontiguousarray(pairs[by_reader, 0]), edge_bytes(problem)[by_reader]),
            problem.together.copy(),
            problem.group_allowed,
            (1.0 / box.copy_bytes_per_s, box.copy_latency_s.copy()),
        )
        judge.score(device_of)
        return judge.answer("earliest task first")


@entry_njit
def _schedule(
    order: Longs,
    times: Floats,
    sources: tuple[Longs, Ints, Floats],
    together: Ints,
    may: Bools,
    copying: tuple[Floats, Floats],
) -> Ints:
    num_ops, devices = times.shape
    begin, source, moved = sources
    place = np.full(num_ops, -1, np.int32)
    ends, arrived = np.zeros(num_ops), np.full((num_ops, devices), np.inf)
    free, channel, lane = np.zeros(devices), np.zeros(devices), np.zeros(devices)
    bound = np.full(len(may), -1, np.int32)
    for turn in range(2 * num_ops):
        n = order[turn % num_ops]
        waits = begin[n] == begin[n + 1] and bound[together[n]] < 0 and times[n].min() == 0.0
        # What takes no time and reads nothing, such as a variable, waits for its first reader.
        if place[n] >= 0 or (waits and turn < num_ops):
            continue
        best, chosen = np.inf, -1
        for d in range(devices):
            if not may[together[n], d] or (bound[together[n]] >= 0 and bound[together[n]] != d):
                continue
            ready = free[d]
            lane[:] = channel
            for e in range(begin[n], begin[n + 1]):
                s = source[e]
                at = int(place[s] if place[s] >= 0 else bound[together[s]])
                ready = max(ready, _arrival((s, at, d), moved[e], ends, arrived, lane, copying))
            if ready + times[n, d] < best:
                best, chosen = ready + times[n, d], d
        for e in range(begin[n], begin[n + 1]):
            s = source[e]
            at = int(place[s] if place[s] >= 0 else bound[together[s]])
            route = (s, at, chosen)
            arrived[s, chosen] = _arrival(route, moved[e], ends, arrived, channel, copying)
            if bound[together[s]] < 0 and may[together[s], chosen]:
                bound[together[s]] = chosen
        place[n], ends[n], free[chosen] = chosen, best, best
        bound[together[n]] = chosen
    return place


@expanded_njit
def _arrival(
    route: tuple[int, int, int],
    moved: float,
    ends: Floats,
    arrived: Floats,
    channel: Floats,
    copying: tuple[Floats, Floats],
) -> float:
    """When what an op makes is on a device; a copy takes the channel of the op's device.

    Args:
        route: the op, where it runs, below 0 where nobody knows yet, and where the value goes.
        moved: bytes.
        ends: `[N]`, of ops.
        arrived: `[N, D]`, of copies that are made already; else infinite.
        channel: `[D]`, when the channel of each device is free; written.
        copying: seconds per byte and latencies, both `[D, D]`.
    """
    source, at, to = route
    if at < 0 or at == to:
        return ends[source]
    if arrived[source, to] == np.inf:
        took = copying[1][at, to] + moved * copying[0][at, to]
        channel[at] = max(channel[at], ends[source]) + took
        return channel[at]
    return arrived[source, to]


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
