"""Placers that follow a rule, and a rival: list scheduling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, expanded_njit
from mcm_compiler.arrays.rows import starts
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_passes.families.box.clusters.weight_clusters import (
    edge_bytes,
    fastest_times,
    heads_and_tails,
)
from mcm_passes.families.box.search.annealing import judge_of
from mcm_passes.families.box.search.units import (
    STACKS,
    fallbacks,
    layered_placements,
)


@dataclass(frozen=True)
class Cpu:
    """All ops on the host; those that it may not run where they run fastest."""

    name: ClassVar[str] = "cpu"
    summary: ClassVar[str] = "all ops on the host"

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Simulates one placement."""
        problem, box, judge = request.problem, request.box, judge_of(request)
        request.progress("all on the host")
        judge.score(fallbacks(problem, box).placement(np.full(problem.num_ops, box.host)))
        return judge.answer("all on the host")


@dataclass(frozen=True)
class Single:
    """All ops on one device, the best one; those that it may not run where they run fastest."""

    name: ClassVar[str] = "single"
    summary: ClassVar[str] = "all ops on one device, the best"

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Simulates one placement for each device; of equal ones the first."""
        problem, box, judge = request.problem, request.box, judge_of(request)
        request.progress("all on one device, each in turn")
        ways = fallbacks(problem, box)
        scores = [
            judge.score(ways.placement(np.full(problem.num_ops, device)))
            for device in range(box.num_devices)
        ]
        return judge.answer(f"all on {box.devices[int(np.argmin(scores))]}")


@dataclass(frozen=True)
class Expert:
    """Layers in order over the fast devices, as many on each, in one stack or in two.

    Experts placed recurrent networks so (Wu et al. 2016, *Google's Neural Machine Translation
    System*, section 3.2; Mirhoseini et al. 2018, section 4). Each layer is on a GPU of its own, the
    embedding with the first, softmax and loss with the last. An encoder and a decoder each use all
    devices. Names do not show how many stacks there are, so the better of both is taken. Ops whose
    names have no layer go with the nearest op of a known layer, updates with their variables.
    """

    name: ClassVar[str] = "expert"
    summary: ClassVar[str] = "layers in order over the fast devices, by names"

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Simulates two placements.

        Raises:
            CompileError: MCM-D050 where no op has a layer.
        """
        request.progress("layers in order")
        placements = layered_placements(request.problem, request.box)
        judge = judge_of(request)
        scores = [judge.score(placement) for placement in placements]
        stacks = STACKS[int(np.argmin(scores))]
        layers = int(request.problem.layer.max()) + 1
        return judge.answer(f"{layers} layers, in {stacks} stacks over the fast devices")


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
