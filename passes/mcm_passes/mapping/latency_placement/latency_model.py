"""The latency problem for CP-SAT: an optimum, or a bound, for graphs of some hundred units.

After the integer program of Tarnawski et al. 2020, appendix A with one part per accelerator, with
`done[v] >= done[u] + ...` along edges added, which carries transfers along paths. Times and bytes
are whole ticks, rounded down, so that what is proven of them is proven of the problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mcm_compiler.contracts.partition import Budget, Ints
from mcm_passes.mapping.latency_placement.latency_kernels import LatencyArrays

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
        readers = p.readers[p.reader_ptr[u] : p.reader_ptr[u + 1]].tolist()
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
