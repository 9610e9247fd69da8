"""List scheduling: the op that can start first starts first, where it can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_passes.families.box.clusters.adjacency import edge_bytes, fastest_times
from mcm_passes.families.box.clusters.slack_classes import tails
from mcm_passes.families.box.search.judge import judge_of


@dataclass(frozen=True)
class EarliestTaskFirst:
    """Ops one by one, where each ends first (Hwang et al. 1989, *Scheduling Precedence Graphs*).

    Ops are taken by the longest path to the end, copies cost their time and wait for no channel,
    and memory is not looked at. Ops that run together follow the first of them.
    """

    name: ClassVar[str] = "etf"
    summary: ClassVar[str] = "ops one by one where each ends first, a rival"

    def place(
        self,
        problem: StepProblem,
        box: Box,
        evaluator: StepEvaluator,
        request: PlacerRequest,
        progress: Callable[[str], None],
    ) -> PlacerAnswer:
        """Simulates the schedule's placement."""
        progress("earliest task first")
        duration = fastest_times(problem, box)
        tail = tails(np.ascontiguousarray(problem.edges), duration)
        # Longest paths fall along edges; where they do not, times of 0, numbers order them.
        order = np.lexsort((np.arange(problem.num_ops), -tail))
        times = np.where(problem.allowed, problem.time_s[:, box.kind_of], np.inf)
        may = np.ones((problem.num_groups, box.num_devices), np.bool_)
        np.logical_and.at(may, problem.together, problem.allowed)
        pairs = problem.edges
        by_reader = np.argsort(pairs[:, 1], kind="stable")
        begin = np.zeros(problem.num_ops + 1, np.int64)
        np.cumsum(np.bincount(pairs[:, 1], minlength=problem.num_ops), out=begin[1:])
        device_of = _schedule(
            order,
            times,
            (begin, np.ascontiguousarray(pairs[by_reader, 0]), edge_bytes(problem)[by_reader]),
            problem.together.copy(),
            may,
            (1.0 / box.copy_bytes_per_s, box.copy_latency_s.copy()),
        )
        judge = judge_of((evaluator,), request)
        judge.score(device_of)
        return judge.answer("earliest task first")


@njit(cache=True, nogil=True)
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
    per_byte, latency = copying
    place = np.full(num_ops, -1, np.int32)
    ends = np.zeros(num_ops)
    free = np.zeros(devices)
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
            for e in range(begin[n], begin[n + 1]):
                s = source[e]
                at = place[s] if place[s] >= 0 else bound[together[s]]
                arrives = ends[s]
                if at >= 0 and at != d:
                    arrives += latency[at, d] + moved[e] * per_byte[at, d]
                ready = max(ready, arrives)
            if ready + times[n, d] < best:
                best, chosen = ready + times[n, d], d
        place[n], ends[n], free[chosen] = chosen, best, best
        bound[together[n]] = chosen
        for e in range(begin[n], begin[n + 1]):
            group = together[source[e]]
            if bound[group] < 0 and may[group, chosen]:
                bound[group] = chosen
    return place
