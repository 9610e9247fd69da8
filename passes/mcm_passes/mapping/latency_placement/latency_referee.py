"""When a placement answers one sample, by Tarnawski et al. 2020, and whether it is valid.

This is the referee: it looks at single operators and edges, and shares nothing with the search.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints
from mcm_compiler.contracts.placement import PlacementProblem
from mcm_compiler.diagnostics import quote
from mcm_passes.mapping.device_placement.device_loads import misplaced, overfull

MOST_REPORTED = 5


@dataclass(frozen=True, eq=False)
class LatencyOutcome:
    """How one sample passes through a placement.

    Attributes:
        finish: `[N]`, when the output of each operator is in the host's memory; infinite for those
            that wait for themselves.
        core_of: `[N]`, the CPU core that runs each operator; -1 on accelerators.
        busy: `[max_accelerators + max_cpus]`, time at work of each device.
        violations: what is not allowed about the placement, in words.
    """

    finish: Floats
    core_of: Ints
    busy: Floats
    violations: tuple[str, ...]

    @property
    def latency(self) -> float:
        """When the last operator is done."""
        return float(self.finish.max(initial=0.0))


def latency_outcome(problem: PlacementProblem, device_of: Ints) -> LatencyOutcome:
    """Runs one sample.

    An accelerator works on all its operators in one go, when all that they read from elsewhere is
    in the host's memory. It takes the transfer times of those outputs, the times of its operators
    and the transfer times of its own outputs that are read elsewhere, each output once. Then all
    its operators are done (section 4 and appendix A with one part per accelerator). CPU operators
    start when what they read is there and a core is free, the earliest ready first, among those
    the first in the file. The published program gives each a core of its own, which is the same as
    long as no more are ready than there are cores.

    Not allowed are too much memory on an accelerator, an operator on one that cannot run it, and
    operators of one color on two devices, of which the CPU cores together are one. Nor are parts
    that are not contiguous or wait for each other.

    Args:
        problem: the problem.
        device_of: `[N]`, accelerators first; any number from `max_accelerators` on is a CPU.

    Raises:
        ValueError: if a device is negative, or a CPU where there is none.
    """
    accelerators, n = problem.max_accelerators, problem.num_operators
    place = np.minimum(device_of, accelerators).tolist()
    if min(place) < 0 or (max(place) == accelerators and not problem.max_cpus):
        raise ValueError(f"devices {min(place)} to {max(place)}")

    def names(one: int, other: int) -> str:
        first, second = (
            "the CPU" if d == accelerators else f"accelerator {d}" for d in (one, other)
        )
        return f"{first} and {second}"

    run = _Run(problem, place)
    run.to_the_end()
    finish = np.array(run.finish)
    home = np.array(place)
    violations = [*misplaced(problem, home, names)[:MOST_REPORTED], *overfull(problem, home)]
    waiting = [v for v in range(n) if np.isinf(finish[v])]
    if waiting:
        parts = sorted({place[v] for v in waiting} - {accelerators})
        violations.append(
            f"{len(waiting)} nodes from {quote(problem.names[waiting[0]])} on never start: parts "
            f"of the accelerators {', '.join(map(str, parts))} are not contiguous or wait for "
            "each other"
        )
    core = np.array(run.core, np.int32)
    return LatencyOutcome(finish, core, np.array(run.busy), tuple(violations))


class _Run:
    """One sample under way."""

    def __init__(self, problem: PlacementProblem, place: list[int]) -> None:
        n, accelerators = problem.num_operators, problem.max_accelerators
        self.problem, self.place, self.accelerators = problem, place, accelerators
        self.readers: list[list[int]] = [[] for _ in range(n)]
        # Edges from elsewhere that an accelerator, and edges that a CPU operator waits for.
        self.part_waits = [0] * accelerators
        self.waits = [0] * n
        arrivals = [set[int]() for _ in range(accelerators)]
        leaving = [set[int]() for _ in range(accelerators)]
        edges = zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True)
        for u, v in edges:
            self.readers[u].append(v)
            if place[v] == accelerators:
                self.waits[v] += 1
            elif place[u] != place[v]:
                self.part_waits[place[v]] += 1
                arrivals[place[v]].add(u)
            if place[u] != place[v] and place[u] < accelerators:
                leaving[place[u]].add(u)
        self.members: list[list[int]] = [[] for _ in range(accelerators)]
        for v in range(n):
            if place[v] < accelerators:
                self.members[place[v]].append(v)
        time, transfer = problem.accelerator_time, problem.transfer_time
        self.load = [
            sum(float(transfer[u]) for u in sorted(arrivals[a]))
            + sum(float(time[v]) for v in self.members[a])
            + sum(float(transfer[u]) for u in sorted(leaving[a]))
            for a in range(accelerators)
        ]
        self.finish = [float("inf")] * n
        self.core = [-1] * n
        self.busy = [0.0] * (accelerators + problem.max_cpus)
        self.events: list[tuple[float, int, int]] = []
        self.ready: list[tuple[float, int]] = []
        self.idle = list(range(problem.max_cpus))

    def to_the_end(self) -> None:
        """Runs until nothing is left that could start."""
        for a in range(self.accelerators):
            if self.members[a] and not self.part_waits[a]:
                self._start_part(a, 0.0)
        for v, home in enumerate(self.place):
            if home == self.accelerators and not self.waits[v]:
                heapq.heappush(self.ready, (0.0, v))
        self._start_operators(0.0)
        while self.events:
            now = self.events[0][0]
            # All that ends now, so that what becomes ready at one time starts in the file's order.
            while self.events and self.events[0][0] == now:
                _, kind, which = heapq.heappop(self.events)
                if kind:
                    heapq.heappush(self.idle, self.core[which])
                    self._done([which], now)
                else:
                    self._done(self.members[which], now)
            self._start_operators(now)

    def _start_part(self, a: int, now: float) -> None:
        self.busy[a] = self.load[a]
        heapq.heappush(self.events, (now + self.load[a], 0, a))

    def _start_operators(self, now: float) -> None:
        while self.ready and self.idle:
            (_, v), core = heapq.heappop(self.ready), heapq.heappop(self.idle)
            self.core[v] = core
            time = float(self.problem.cpu_time[v])
            self.busy[self.accelerators + core] += time
            heapq.heappush(self.events, (now + time, 1, v))

    def _done(self, operators: list[int], now: float) -> None:
        for u in operators:
            self.finish[u] = now
        for u in operators:
            for v in self.readers[u]:
                home = self.place[v]
                if home == self.accelerators:
                    self.waits[v] -= 1
                    if not self.waits[v]:
                        heapq.heappush(self.ready, (now, v))
                elif home != self.place[u]:
                    self.part_waits[home] -= 1
                    if not self.part_waits[home]:
                        self._start_part(home, now)
