"""The contract of `mcmc partition`: placement problems from files, and what solves them.

The problem is that of Tarnawski et al. 2020, *Efficient Algorithms for Device Placement of DNN
Graph Operators*, section 3: a graph of operators with given times, accelerators with a memory
limit, and CPU cores. Times are in the unit of the file, whatever that is. The problem has no
machine: transfers have a time each, whichever devices they join, and no tensor has a route.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol, cast, get_args

import numpy as np

from mcm_compiler.arrays.types import ReadOnlyArrays
from mcm_compiler.contracts.described import Named
from mcm_compiler.contracts.partition import Bools, Floats, Ints
from mcm_compiler.contracts.requests import PlacementRequest
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
        output_bytes: `[N]`, of each operator's output; 0 where the file does not say.
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
    output_bytes: Floats
    edge_source: Ints
    edge_target: Ints
    max_accelerators: int
    max_cpus: int
    memory_bytes: float

    @property
    def num_operators(self) -> int:
        """N."""
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Placement:
    """An answer with its certificate.

    Attributes:
        device_of: `[N]`, accelerators first, then CPU cores; along the ring or, under the rule
            `none`, in an order in which the data flows.
        device_load: `[max_accelerators + max_cpus]`.
        period: the largest load; of a cost of latency, when the last operator is done.
        lower_bound: no valid placement has a smaller one under the same cost and rule.
        argument: why the bound holds.
        method: what found it.
        proof: name of the kind of argument; empty where the cost names none.
        price: what the ring's rule adds to the period, as a share of the best known period under
            the rule `none`; None under that rule, and where it is not known.
    """

    device_of: Ints
    device_load: Floats
    period: float
    lower_bound: float
    argument: str
    method: str
    price: float | None = None
    proof: str = ""

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

    def place(self, problem: PlacementProblem, request: PlacementRequest) -> Placement:
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


def placement_by(
    name: str, cost: PlacementCost, problem: PlacementProblem, request: PlacementRequest
) -> Placement:
    """Run the search of a cost, and check the form of its result.

    Args:
        name: by which the cost is registered.
        cost: the cost.
        problem: what is to be placed.
        request: how.

    Raises:
        CompileError: MCM-X007 where it fails, or answers in another form.
    """
    with PLACEMENT_COSTS.at_work(name):
        return _in_form(cost.place(problem, request), problem)


def _in_form(found: object, problem: PlacementProblem) -> Placement:
    """A placement on devices that there are, whose numbers are some.

    Raises:
        TypeError: for a field of another type.
        ValueError: for devices and numbers that cannot be.
    """
    if not isinstance(found, Placement):
        raise TypeError(f"it gave a {type(found).__name__}, not a Placement")
    devices = problem.max_accelerators + problem.max_cpus
    device_of = np.asarray(found.device_of)
    if device_of.size and device_of.dtype.kind not in "iu":
        raise TypeError(f"device_of holds {device_of.dtype}, no whole numbers")
    if device_of.shape != (len(problem.ids),):
        raise ValueError(f"device_of has the shape {device_of.shape}, not ({len(problem.ids)},)")
    if device_of.size and not 0 <= device_of.min() <= device_of.max() < devices:
        raise ValueError(f"device_of names a device that is none of {devices}")
    load = np.asarray(found.device_load, np.float64)
    if load.shape != (devices,) or not np.isfinite(load).all():
        raise ValueError(f"device_load is not one number for each of {devices} devices")
    period, bound = float(found.period), float(found.lower_bound)
    if not 0.0 <= bound <= period < math.inf:
        raise ValueError(f"it says that nothing is below {bound!r}, and found {period!r}")
    price = None if found.price is None else float(found.price)
    if price is not None and not math.isfinite(price):
        raise ValueError(f"price is {price!r}")
    return Placement(
        device_of.astype(np.int32),
        load,
        period,
        bound,
        str(found.argument),
        str(found.method),
        price,
        str(found.proof),
    )


def objective_of(cost: PlacementCost) -> Objective:
    """Objective that a cost minimises."""
    return getattr(cost, "objective", "period")
