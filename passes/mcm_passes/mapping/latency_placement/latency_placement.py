"""The cost `device-latency`: when one sample is answered, by Tarnawski et al. 2020.

CP-SAT gives an optimum, or a bound, for graphs of some hundred units, by a model after the integer
program of Tarnawski et al. 2020, appendix A with one part per accelerator, with `done[v] >= done[u]
+ ...` along edges added, which carries transfers along paths. Times and bytes are whole ticks,
rounded down, so that what is proven of them is proven of the problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.contracts.partition import Budget, Ints, LowerBound
from mcm_compiler.contracts.placement import (
    Objective,
    Placement,
    PlacementProblem,
    PlacementRequest,
)
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.text.units import count_text
from mcm_passes.mapping.device_placement.device_groups import (
    device_groups,
    no_device,
    not_found,
    refuse_impossible,
)
from mcm_passes.mapping.latency_placement.chain_bound import chain_bound
from mcm_passes.mapping.latency_placement.latency_kernels import LatencyArrays, latency_arrays, walk
from mcm_passes.mapping.latency_placement.latency_referee import LatencyOutcome, latency_outcome

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar


TICKS = 10_000
"""Of the latency that is known; the bound is loose by up to one tick for each node of a path."""

EFFORT_S = 4.0
"""Least effort of the solver without a time limit, in its deterministic unit."""

BYTE_TICKS = 100_000_000
"""Of an accelerator's memory."""


@dataclass(frozen=True, eq=False)
class ModelOutcome:
    """Answer of the solver.

    Attributes:
        device_of: `[U]`, or None where it found nothing.
        bound: no placement has a smaller latency.
        optimal: whether the bound was reached, up to rounding.
    """

    device_of: Ints | None
    bound: float
    optimal: bool


def solve_latency(p: LatencyArrays, start: Ints, latency: float, budget: Budget) -> ModelOutcome:
    """Searches from a known placement for a better one, and for a proof that there is none.

    Args:
        p: the problem.
        start: `[U]`, a valid placement.
        latency: its latency with a core for each operator, above 0.
        budget: with a wall time, on all cores, results need not be reproducible; without one, of
            its effort, and at least `EFFORT_S`.
    """
    from ortools.sat.python import cp_model

    built = _Model(p, latency)
    built.hint(start)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.random_seed = 0
    if budget.seconds is None:
        parameters.num_workers = 8
        parameters.interleave_search = True
        parameters.max_deterministic_time = max(budget.effort_s, EFFORT_S)
    else:
        parameters.max_time_in_seconds = budget.seconds
    status = solver.solve(built.model)
    bound = max(solver.best_objective_bound, 0.0) / built.ticks
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ModelOutcome(None, bound, False)
    devices = range(p.accelerators + 1)
    chosen = [next(d for d in devices if solver.value(row[d])) for row in built.on]
    return ModelOutcome(np.array(chosen, np.int32), bound, status == cp_model.OPTIMAL)


class _Model:
    """Variables: `on[u][d]`, whether unit u is on device d; times in ticks."""

    def __init__(self, p: LatencyArrays, latency: float) -> None:
        from ortools.sat.python import cp_model

        self.p, self.ticks = p, TICKS / latency
        self.model: CpModel = cp_model.CpModel()
        units, n, k = p.size_bytes.size, p.unit_of.size, p.accelerators
        model, most = self.model, TICKS + 1
        self.on = [[model.new_bool_var("") for _ in range(k + 1)] for _ in range(units)]
        self.done = [model.new_int_var(0, most, "") for _ in range(n)]
        self.path = [model.new_int_var(0, most, "") for _ in range(n)]
        self.start = [model.new_int_var(0, most, "") for _ in range(k)]
        self.finish = [model.new_int_var(0, most, "") for _ in range(k)]
        self.load: list[list[Any]] = [[] for _ in range(k)]
        self._devices()
        time = [self._time(v) for v in range(n)]
        for v in range(n):
            model.add(self.path[v] >= time[v])
            model.add(self.done[v] >= self.path[v])
            for d in range(k):
                row = self.on[p.unit_of[v]]
                model.add(self.done[v] >= self.finish[d]).only_enforce_if(row[d])
        for u in range(n):
            self._output(u, time)
        for d in range(k):
            model.add(self.finish[d] >= self.start[d] + sum(self.load[d]))
        last: IntVar = model.new_int_var(0, most, "")
        model.add_max_equality(last, self.done)
        if p.cores:
            work = sum(
                self._whole(float(p.cpu_time[v])) * self.on[p.unit_of[v]][k] for v in range(n)
            )
            model.add(last * p.cores >= work)
        model.minimize(last)

    def hint(self, start: Ints) -> None:
        """Gives a placement, its accelerators numbered as the model numbers them."""
        k, number = self.p.accelerators, dict[int, int]()
        for u, device in enumerate(start.tolist()):
            to = k if device == k else number.setdefault(device, len(number))
            for d in range(k + 1):
                self.model.add_hint(self.on[u][d], d == to)

    def _whole(self, time: float) -> int:
        return int(time * self.ticks)

    def _devices(self) -> None:
        """One device a unit, memory, and one numbering of equal accelerators."""
        p, model, k = self.p, self.model, self.p.accelerators
        share = BYTE_TICKS / max(p.memory_bytes, 1.0)
        size = [int(min(float(size) * share, BYTE_TICKS + 1.0)) for size in p.size_bytes]
        for u, row in enumerate(self.on):
            model.add_exactly_one(row)
            for d in range(k):
                # Of the first units at most as many accelerators are in use.
                if d > u or not p.allowed[u]:
                    model.add(row[d] == 0)
            if not p.cores:
                model.add(row[k] == 0)
        for d in range(k):
            model.add(sum(size[u] * row[d] for u, row in enumerate(self.on)) <= BYTE_TICKS)

    def _time(self, v: int) -> Any:
        p, row, k = self.p, self.on[self.p.unit_of[v]], self.p.accelerators
        accelerator = self._whole(float(p.accelerator_time[v]))
        cpu = self._whole(float(p.cpu_time[v]))
        for d in range(k):
            self.load[d].append(accelerator * row[d])
        return accelerator * sum(row[:k]) + cpu * row[k]

    def _output(self, u: int, time: list[Any]) -> None:
        """Time of reading the output of operator u, on both sides."""
        p, model, k = self.p, self.model, self.p.accelerators
        own, cost = int(p.unit_of[u]), self._whole(float(p.transfer_time[u]))
        readers = p.readers.row(u).tolist()
        elsewhere = sorted({int(p.unit_of[v]) for v in readers} - {own})
        leaves: list[IntVar] = []
        for d in range(k if elsewhere else 0):
            arrives, sent = model.new_bool_var(""), model.new_bool_var("")
            for unit in elsewhere:
                model.add(arrives >= self.on[unit][d] - self.on[own][d])
                model.add(sent >= self.on[own][d] - self.on[unit][d])
            model.add(self.start[d] >= self.done[u]).only_enforce_if(arrives)
            self.load[d] += [cost * arrives, cost * sent]
            leaves.append(sent)
        enters = {unit: model.new_bool_var("") for unit in elsewhere}
        for unit, literal in enters.items():
            for d in range(k):
                model.add(literal >= self.on[unit][d] - self.on[own][d])
        for v in readers:
            unit = int(p.unit_of[v])
            on_way = cost * enters[unit] + cost * sum(leaves) if unit != own else 0
            model.add(self.path[v] >= self.path[u] + time[v] + on_way)
            cpu = self._whole(float(p.cpu_time[v]))
            model.add(self.done[v] >= self.done[u] + cpu * self.on[unit][k])


def topological_fill(p: LatencyArrays) -> Ints:
    """`[U]` devices: each accelerator takes units in order while they fit, CPUs take the rest.

    The order goes deep first: the unit that became ready last is next. A unit that no accelerator
    can hold goes to the CPUs and ends nothing (appendix F, "greedy").
    """
    device_of = np.full(p.size_bytes.size, p.accelerators, np.int32)
    used, room, is_open = 0, 0.0, False
    for unit in _deep_first(p):
        if is_open and (not p.allowed[unit] or p.size_bytes[unit] > room):
            is_open = False
            used += 1
        if not is_open and p.allowed[unit] and used < p.accelerators:
            is_open, room = True, p.memory_bytes
        if is_open:
            device_of[unit] = used
            room -= float(p.size_bytes[unit])
    return device_of


def _deep_first(p: LatencyArrays) -> list[int]:
    units = p.size_bytes.size
    following: list[list[int]] = [[] for _ in range(units)]
    waits = [0] * units
    for u in range(p.unit_of.size):
        for v in p.readers.row(u).tolist():
            before, behind = int(p.unit_of[u]), int(p.unit_of[v])
            if before != behind:
                following[before].append(behind)
                waits[behind] += 1
    ready = [unit for unit in range(units) if not waits[unit]]
    order: dict[int, None] = {}
    for first in range(units):
        # Where nothing is ready, units wait for each other on a cycle: the first of them is next.
        if not ready and first not in order:
            ready.append(first)
        while ready:
            done = ready.pop()
            if done in order:
                continue
            order[done] = None
            for unit in following[done]:
                waits[unit] -= 1
                if not waits[unit]:
                    ready.append(unit)
    return list(order)


STEPS_PER_EVALUATION = 100
"""Steps of a walk that count as one evaluation: each costs microseconds."""

MOST_WORK = 4_000_000_000
"""Steps times operators and edges of all walks."""

RESTARTS = 2
"""Walks from each start."""

HOT, COLD = 0.05, 0.0005
"""Temperatures at first and at last, as shares of the start's latency."""

MOST_MODELLED = 1_500
"""Units times accelerators up to which CP-SAT looks for a proof."""

SLACK = 1e-9
"""Relative space for sums that are taken in another order."""


@dataclass(frozen=True, eq=False)
class _Found:
    device_of: Ints
    outcome: LatencyOutcome
    method: str


@dataclass(frozen=True)
class DeviceLatency:
    """Each accelerator does its part in one go; the answer is there when the last operator is done.

    Walks at random from some starts, then CP-SAT where the graph is small; what they find is
    simulated by `latency_outcome`, which shares nothing with them.
    """

    name: ClassVar[str] = "device-latency"
    summary: ClassVar[str] = "one sample, each accelerator in one go (Tarnawski et al. 2020)"
    objective: ClassVar[Objective] = "latency"

    def place(self, request: PlacementRequest) -> Placement:
        """Places the operators; MCM-F006, MCM-F007, MCM-F021."""
        problem = request.problem
        refuse_request(request)
        refuse_impossible(problem, device_groups(problem))
        arrays = latency_arrays(problem)
        found = _walks(arrays, request)
        if found is None:
            reason = "none was met in random walks, which is no proof that there is none"
            raise not_found(problem, "none", reason)
        bound = chain_bound(arrays)
        latency = found.outcome.latency
        small = arrays.size_bytes.size * max(arrays.accelerators, 1) <= MOST_MODELLED
        if small and bound.seconds < latency * (1.0 - SLACK):
            found, bound = _proven(arrays, request, found, bound)
            latency = found.outcome.latency
        device_of = _numbered(problem, arrays, found)
        return Placement(
            device_of,
            found.method,
            request.evaluations,
            device_load=latency_outcome(problem, device_of).busy,
            period=latency,
            lower_bound=bound.seconds if bound.seconds < latency * (1.0 - SLACK) else latency,
            argument=bound.argument,
            proof=bound.proof,
        )


def refuse_request(request: PlacementRequest) -> None:
    """Refuses what makes no sense for one sample.

    Raises:
        CompileError: MCM-F021 for a rule of the ring, a strategy, or a backward pass; MCM-F006 for
            no device.
    """
    problem, faults = request.problem, list[Diagnostic]()
    at = problem.source
    if request.rule != "none":
        message = f"the rule {request.rule} is about rings, and latency about devices at a host"
        faults.append(Diagnostic("MCM-F021", message, at=at, hint="give --rule none"))
    if request.partitioner is not None:
        message = f"strategy '{request.partitioner}' searches for short periods, not for latency"
        faults.append(Diagnostic("MCM-F021", message, at=at, hint="give no --partitioner"))
    if problem.backward.any():
        message = (
            f"{count_text(int(problem.backward.sum()), 'node')} of a backward pass: the latency of "
            "one sample is one of inference"
        )
        hint = "leave the backward pass out, or give --objective period"
        faults.append(Diagnostic("MCM-F021", message, at=at, hint=hint))
    CompileError.raise_any([*faults, *no_device(problem)])


def _judged(
    problem: PlacementProblem, p: LatencyArrays, device_of: Ints, method: str
) -> _Found | None:
    if not p.cores and (device_of == p.accelerators).any():
        return None
    outcome = latency_outcome(problem, device_of[p.unit_of])
    return None if outcome.violations else _Found(device_of, outcome, method)


def _better(one: _Found | None, other: _Found | None) -> _Found | None:
    if one is None or other is None:
        return one or other
    return other if other.outcome.latency < one.outcome.latency else one


def _walks(p: LatencyArrays, request: PlacementRequest) -> _Found | None:
    """The best of walks from the filled accelerators, from one accelerator, and from CPUs."""
    problem = request.problem
    filled = topological_fill(p)
    starts = {"fill": filled}
    if p.accelerators:
        starts["one"] = np.where(p.allowed, 0, p.accelerators).astype(np.int32)
    if p.cores:
        starts["cpu"] = np.full(filled.size, p.accelerators, np.int32)
    elif p.accelerators:
        rest = filled == p.accelerators
        starts["fill"] = np.where(rest, p.accelerators - 1, filled).astype(np.int32)
    size = p.unit_of.size + p.readers.entries.size
    steps = min(request.evaluations * STEPS_PER_EVALUATION, MOST_WORK // size)
    steps = max(steps // (len(starts) * RESTARTS), 1)
    best: _Found | None = None
    work = float(p.accelerator_time.sum())
    for name, start in starts.items():
        best = _better(best, _judged(problem, p, start, f"walk-{name}"))
        for again in range(RESTARTS):
            rng = seeded_generator(request.seed, f"latency/{name}/{again}")
            outcome = latency_outcome(problem, start[p.unit_of]).latency
            scale = max(outcome if np.isfinite(outcome) else work, 1e-300)
            draws = rng.random((steps, 4))
            device_of, least = walk(p, start, draws, HOT * scale, COLD * scale)
            if np.isfinite(least):
                best = _better(best, _judged(problem, p, device_of, f"walk-{name}"))
    return best


def _proven(
    p: LatencyArrays, request: PlacementRequest, found: _Found, bound: LowerBound
) -> tuple[_Found, LowerBound]:
    """Improve a placement and a bound by CP-SAT."""
    outcome = solve_latency(p, found.device_of, found.outcome.latency, request.budget)
    if outcome.device_of is not None:
        better = _better(found, _judged(request.problem, p, outcome.device_of, "cpsat"))
        found = better or found
    if outcome.bound > bound.seconds:
        units = count_text(p.size_bytes.size, "unit")
        how = "no placement is done before" if outcome.optimal else "what was excluded"
        text = f"CP-SAT over {units}, times rounded down: {how}"
        bound = LowerBound(outcome.bound, text, "cpsat")
    return found, bound


def _numbered(problem: PlacementProblem, p: LatencyArrays, found: _Found) -> Ints:
    """`[N]`, accelerators in the order in which they are done, and CPU cores."""
    k, finish = problem.max_accelerators, found.outcome.finish
    place = found.device_of[p.unit_of]
    done = [(float(finish[place == d].max()), int(d)) for d in np.unique(place[place < k])]
    number = np.arange(k + 1, dtype=np.int32)
    # Those without operators come last.
    rest = sorted(set(range(k)) - {d for _, d in done})
    for i, d in enumerate([*(d for _, d in sorted(done)), *rest]):
        number[d] = i
    return np.where(place < k, number[place], k + found.outcome.core_of).astype(np.int32)
