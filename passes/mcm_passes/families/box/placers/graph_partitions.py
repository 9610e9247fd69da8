"""METIS and Scotch as rivals: parts of equal work with small cuts."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mcm_compiler.arrays.types import Floats, Longs
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.families.box.clusters.adjacency import (
    Adjacency,
    edge_bytes,
    fastest_times,
    quotient,
    sums_of,
)
from mcm_passes.families.box.search.annealing import Judge, judge_of
from mcm_passes.families.box.search.units import device_speeds, fallbacks, fast_devices

FINENESS = 10_000
"""Weights of nodes and edges are integers up to about so much for libraries."""

SEED_LIMIT = 1 << 30

Parts = Callable[[Adjacency, Floats, Floats, int], Any]
"""From a graph, weights of its nodes, shares of the parts and a seed to the part of each node."""


@dataclass(frozen=True)
@checked(seeds=at_least(1))
class Metis:
    """K-way partitions of METIS (Karypis and Kumar 1998): equal time, few bytes between parts.

    Nodes are ops that run together, weighted with their time on the fastest device; edges weigh
    the bytes of values. It knows no directions and thus no critical path. Needs the extra
    `baselines`.

    Attributes:
        seeds: partitions, the best of which is taken, at least 1.
        host: whether the host takes part, with a share by its speed.
    """

    name: ClassVar[str] = "metis"
    summary: ClassVar[str] = "METIS on the graph of ops, a rival (needs the extra 'baselines')"
    extra: ClassVar[str] = "baselines"

    seeds: int = 20
    host: bool = False

    def place(
        self,
        problem: StepProblem,
        box: Box,
        evaluator: StepEvaluator,
        request: PlacerRequest,
        progress: Callable[[str], None],
    ) -> PlacerAnswer:
        """Simulates the partition of each seed.

        Raises:
            CompileError: MCM-D051 where METIS is not installed.
        """
        pymetis = _package("pymetis", self.name)

        def parts(graph: Adjacency, weight: Floats, shares: Floats, seed: int) -> Any:
            adjacency = pymetis.CSRAdjacency(graph.begin.tolist(), graph.other.tolist())
            return pymetis.part_graph(
                len(shares),
                adjacency=adjacency,
                vweights=_whole(weight).tolist(),
                eweights=_whole(graph.weight).tolist(),
                tpwgts=shares.tolist(),
                options=pymetis.Options(seed=seed),
            ).vertex_part

        progress(f"METIS, {self.seeds} seeds")
        judge = judge_of((evaluator,), request)
        _judge_parts(problem, box, judge, (request.seed, self.seeds, self.host), parts)
        return judge.answer(f"METIS, best of {self.seeds} seeds")


@dataclass(frozen=True)
@checked(seeds=at_least(1))
class Scotch:
    """Static mapping of Scotch (Pellegrini 1994) onto a complete graph of weighted devices.

    The graph is that of `metis`. Scotch runs on one thread, because on several the same seed gives
    other mappings each time. Needs the extra `baselines`.

    Attributes:
        seeds: mappings, the best of which is taken, at least 1.
        host: whether the host takes part, weighted by its speed.
    """

    name: ClassVar[str] = "scotch"
    summary: ClassVar[str] = "static mapping by Scotch, a rival (needs the extra 'baselines')"
    extra: ClassVar[str] = "baselines"

    seeds: int = 20
    host: bool = False

    def place(
        self,
        problem: StepProblem,
        box: Box,
        evaluator: StepEvaluator,
        request: PlacerRequest,
        progress: Callable[[str], None],
    ) -> PlacerAnswer:
        """Simulates the mapping of each seed.

        Raises:
            CompileError: MCM-D051 where Scotch is not installed.
        """
        scotch = _package("scotchpy", self.name)

        def parts(graph: Adjacency, weight: Floats, shares: Floats, seed: int) -> Any:
            scotch.common.random_seed(seed)
            scotch.common.random_reset()
            made = scotch.Graph()
            kind = np.int64 if scotch.num_sizeof() == _LONG_BYTES else np.int32
            made.build(
                verttab=graph.begin.astype(kind),
                edgetab=graph.other.astype(kind),
                velotab=_whole(weight).astype(kind),
                edlotab=_whole(graph.weight).astype(kind),
            )
            devices = scotch.Arch()
            devices.cmpltw(_whole(shares).astype(kind))
            found = np.zeros(len(weight), kind)
            made.map(devices, parttab=found)
            return found

        progress(f"Scotch, {self.seeds} seeds")
        judge = judge_of((evaluator,), request)
        with _one_thread_of_scotch():
            _judge_parts(problem, box, judge, (request.seed, self.seeds, self.host), parts)
        return judge.answer(f"Scotch, best of {self.seeds} seeds")


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


def _package(name: str, placer: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CompileError.of(
            "MCM-D051",
            f"placer '{placer}' needs the package {name}, which cannot be imported",
            at=f"placer {placer}",
        ) from error


def _judge_parts(
    problem: StepProblem, box: Box, judge: Judge, how: tuple[int, int, bool], parts: Parts
) -> None:
    """Judges partitions of several seeds.

    Args:
        problem: what is placed.
        box: where.
        judge: of placements.
        how: seed, how many partitions, and whether the host takes part.
        parts: see there.
    """
    seed, count, host = how
    duration = fastest_times(problem, box)
    speeds = device_speeds(duration, problem.time_s, box.kind_of)
    devices = fast_devices(speeds)
    if host:
        devices = np.union1d(devices, [box.host]).astype(np.int32)
    shares = speeds[devices] / speeds[devices].sum()
    groups = problem.num_groups
    graph = quotient(problem.edges, edge_bytes(problem), problem.together, groups)
    weight = sums_of(problem.together, duration, groups)
    ways = fallbacks(problem, box)
    rng = np.random.default_rng(seed)
    for _ in range(count):
        if len(judge.best) and not judge.may_ask:
            return
        drawn = int(rng.integers(1, SEED_LIMIT))
        chosen = np.zeros(groups, np.int64)
        if len(devices) > 1 and groups > 1:
            chosen = np.asarray(parts(graph, weight, shares, drawn), np.int64)
        judge.score(ways.placement(devices[chosen[problem.together]]))


def _whole(weight: Floats) -> Longs:
    """Weights as integers from 1 to about `FINENESS`."""
    most = float(weight.max(initial=0.0))
    return np.maximum(np.rint(weight * (FINENESS / max(most, 1e-300))), 1).astype(np.int64)
