"""The contract of `mcmc partition`: placement problems from files, and what solves them.

The problem is that of Tarnawski et al. 2020, *Efficient Algorithms for Device Placement of DNN
Graph Operators*, section 3: a graph of operators with given times, accelerators with a memory
limit, and CPU cores. Times are in the unit of the file, whatever that is. The problem has no
machine: transfers have a time each, whichever devices they join, and no tensor has a route. Answers
have no folder either: a problem is no model that could run, so nothing is left to check later.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Literal, Protocol, cast, get_args

import numpy as np

from mcm_compiler.arrays.types import ReadOnlyArrays
from mcm_compiler.contracts import requests
from mcm_compiler.contracts.described import Named
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.partition import Bools, Budget, Floats, Ints
from mcm_compiler.registry import PLACEMENT_COSTS

Objective = Literal["period", "latency"]
"""Figure to minimise: the time per sample of a full pipeline, or the time of one sample alone."""


@dataclass(frozen=True, eq=False)
class PlacementProblem(ReadOnlyArrays):
    """N operators and E dependencies, to be placed on accelerators and CPU cores.

    Attributes:
        source: name of the file, for messages.
        names: `[N]`, distinct.
        ids: `[N]`, as in the file.
        accelerator_time: `[N]`.
        cpu_time: `[N]`.
        on_accelerator: `[N]`, False where only CPUs run the operator.
        backward: `[N]`, True for the backward pass of training.
        size_bytes: `[N]`, memory on an accelerator.
        color: `[N]`; operators of one color stay on one device.
        transfer_time: `[N]`, of each operator's output, between an accelerator and the host.
        edge_source: `[E]`, distinct pairs.
        edge_target: `[E]`.
        max_accelerators: devices with limited memory.
        max_cpus: devices without a limit, which pay for no transfers.
        memory_bytes: of each accelerator.
    """

    source: str
    names: tuple[str, ...]
    ids: tuple[int, ...]
    accelerator_time: Floats
    cpu_time: Floats
    on_accelerator: Bools
    backward: Bools
    size_bytes: Floats
    color: Ints
    transfer_time: Floats
    edge_source: Ints
    edge_target: Ints
    max_accelerators: int
    max_cpus: int
    memory_bytes: float

    @property
    def num_operators(self) -> int:
        """N."""
        return len(self.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class PlacementRequest(requests.SearchRequest):
    """Request to the search of a cost: candidates are placements, and the time limit is wall time.

    Attributes:
        problem: what is placed.
        rule: interconnect of the accelerators.
        partitioner: text of a partition strategy, or None for the cost's own method.
        effort_s: deterministic seconds of exact solvers.
        gap: share by which a period may exceed a bound for the search to end there.
    """

    problem: PlacementProblem
    evaluations: int = 10_000
    rule: requests.Rule = "none"
    partitioner: str | None = None
    effort_s: float = Budget.effort_s
    gap: float = Budget.gap

    @classmethod
    def of(cls, problem: PlacementProblem, options: requests.PlacementOptions) -> PlacementRequest:
        """The request that options make of a problem.

        Raises:
            CompileError: as `load_level`.
        """
        level = load_level(options.level)
        return cls(
            problem=problem,
            evaluations=options.evaluations or level.evaluations(problem.num_operators),
            seed=options.seed,
            budget_s=options.budget_s,
            rule=options.rule,
            partitioner=options.partitioner,
            effort_s=level.effort_s,
            gap=level.gap,
        )

    @property
    def budget(self) -> Budget:
        """The same for a partition strategy."""
        return Budget(self.evaluations, self.budget_s, self.effort_s, gap=self.gap)


@dataclass(frozen=True, eq=False)
class Placement(requests.SearchAnswer[Ints]):
    """An answer with its certificate; `found` is `[N]`, the device of each operator.

    Accelerators come first, then CPU cores; along the ring or, under the rule `none`, in an order
    in which the data flows.

    Attributes:
        device_load: `[max_accelerators + max_cpus]`.
        period: the largest load; of a cost of latency, when the last operator is done.
        lower_bound: no valid placement has a smaller one under the same cost and rule.
        argument: why the bound holds.
        price: what the ring's rule adds to the period, as a share of the best known period under
            the rule `none`; None under that rule, and where it is not known.
        proof: name of the kind of argument; empty where the cost names none.
    """

    _: KW_ONLY
    device_load: Floats
    period: float
    lower_bound: float
    argument: str
    price: float | None = None
    proof: str = ""

    @property
    def device_of(self) -> Ints:
        """`[N]`, the device of each operator."""
        return self.found

    @property
    def gap(self) -> float:
        """`period / lower_bound - 1`; 0 where both are 0, infinite where only the bound is."""
        if self.lower_bound > 0.0:
            return self.period / self.lower_bound - 1.0
        return 0.0 if self.period == 0.0 else float("inf")


class PlacementCost(Named, Protocol):
    """Cost of a placement, and the search for a cheap one.

    Registered as kind `placement-cost`. A cost of latency has the class attribute
    `objective` (see `Objective` and `objective_of`); without one it is about the period.
    """

    def place(self, request: PlacementRequest) -> Placement:
        """Places the operators.

        Raises:
            CompileError: if no placement exists or none is found, or the request is not one that
                this cost can answer.
        """
        ...


def placement_cost(name: str) -> PlacementCost:
    """The registered cost of a name.

    Raises:
        CompileError: MCM-U003 for an unknown name, MCM-X003 and MCM-X007 for one that cannot be
            imported or made, or makes something else small.
    """
    make = PLACEMENT_COSTS.get(name)
    with PLACEMENT_COSTS.at_work(name):
        cost = cast("PlacementCost", make())
        if objective_of(cost) not in get_args(Objective):
            raise ValueError(f"its objective is {objective_of(cost)!r}")
    return cost


def placement_by(name: str, cost: PlacementCost, request: PlacementRequest) -> Placement:
    """Run the search of a cost, and check the form of its result.

    Args:
        name: by which the cost is registered.
        cost: the cost.
        request: what is to be placed, and how.

    Raises:
        CompileError: MCM-X007 where it fails, or answers in another form.
    """
    with PLACEMENT_COSTS.at_work(name):
        return _in_form(cost.place(request), request.problem)


def _in_form(found: object, problem: PlacementProblem) -> Placement:
    """A placement on devices that exist, with finite numbers.

    Raises:
        TypeError: for a field of another type.
        ValueError: for devices and numbers that cannot be.
    """
    devices = problem.max_accelerators + problem.max_cpus

    def device_of(given: object) -> Ints:
        row = np.asarray(given)
        if row.size and row.dtype.kind not in "iu":
            raise TypeError(f"device_of holds {row.dtype}, no whole numbers")
        if row.shape != (len(problem.ids),):
            raise ValueError(f"device_of has the shape {row.shape}, not ({len(problem.ids)},)")
        if row.size and not 0 <= row.min() <= row.max() < devices:
            raise ValueError(f"device_of names a device that is none of {devices}")
        return row.astype(np.int32)

    def device_load(given: object) -> Floats:
        load = np.asarray(given, np.float64)
        if load.shape != (devices,) or not np.isfinite(load).all():
            raise ValueError(f"device_load is not one number for each of {devices} devices")
        return load

    answer = requests.in_form(found, Placement, found=device_of, device_load=device_load)
    bound, period = answer.lower_bound, answer.period
    if not bound <= period < math.inf:
        raise ValueError(f"it says that nothing is below {bound!r}, and found {period!r}")
    if answer.price == math.inf:
        raise ValueError("price is inf")
    return answer


def objective_of(cost: PlacementCost) -> Objective:
    """Objective that a cost minimises."""
    return getattr(cost, "objective", "period")
