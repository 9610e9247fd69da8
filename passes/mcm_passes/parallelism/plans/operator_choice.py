"""Which variables and inputs of a model are divided, by the objective asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.planning import PlanOptions
from mcm_compiler.contracts.sharding.parallel_plan import REPLICATED, SearchRecord
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses
from mcm_passes.parallelism.decisions import constraints, decision_problem
from mcm_passes.parallelism.decisions.count_oracle import OracleDecision, best_decision
from mcm_passes.parallelism.decisions.step_cost import (
    BACKWARD_PER_FORWARD,
    DeviceGroup,
    StepCost,
    batch_class_of,
    seconds_by_model,
    step_cost,
)

LEAST_DEGREE = 2


@dataclass(frozen=True, eq=False)
class OperatorChoice:
    """Variables and inputs that a group of devices divides.

    Attributes:
        degree: devices of the group.
        dims: of each variable the dimension that is divided, or `REPLICATED`.
        time_share: time of a step with it, as a share of that on one device.
        memory_share: weights on a device, as a share of all.
        records: how it was found.
        problem: what was decided, or None where nothing is divided.
        objective: what was maximised: divided variables, or seconds that are saved.
        cost: seconds of decisions, where these are what counts.
        forced: `[K]` bool, what was asked for.
    """

    degree: int
    dims: Mapping[str, int]
    time_share: float = 1.0
    memory_share: float = 1.0
    records: tuple[SearchRecord, ...] = ()
    problem: decision_problem.DecisionProblem | None = None
    objective: decision_problem.DecisionObjective | None = None
    cost: StepCost | None = None
    forced: NDArray[np.bool_] | None = None

    @classmethod
    def none(cls, model: ir.Model, classes: DimensionClasses) -> OperatorChoice:
        """Nothing is divided."""
        names = decision_problem.opp_problem(model, LEAST_DEGREE, classes).tensors
        return cls(1, dict.fromkeys(names, REPLICATED))


@dataclass(frozen=True)
class InputChoice:
    """Which inputs replicas divide among them.

    Attributes:
        dims: of each input the dimension that is divided, or `REPLICATED`.
        records: how it was found.
        rows: that there are to divide, of the dimension with the fewest; 1 where none is divided.
    """

    dims: Mapping[str, int]
    records: tuple[SearchRecord, ...] = ()
    rows: int = 1


def best_inputs(
    model: ir.Model, classes: DimensionClasses, options: PlanOptions, replicas: int = 1
) -> InputChoice:
    """The batch dimensions of the inputs.

    Args:
        model: with shapes.
        classes: those of the model.
        options: how it is to be found.
        replicas: that divide them: each gets a row at least.
    """
    # One replica divides nothing; what it could divide is as for two.
    problem = decision_problem.adp_problem(
        model, max(options.data or 0, replicas, LEAST_DEGREE), classes
    )
    objective = decision_problem.count_objective(problem)
    exact = best_decision(problem, objective)
    decision, gap = exact.partitioned, 0.0 if exact.proven else None
    records = [SearchRecord("ADP", "cp-sat", options.seed, exact.value, exact.bound, gap)]
    rows = int(problem.size[decision].min()) if decision.any() else 1
    return InputChoice(problem.partitioned_dims(decision), tuple(records), rows)


def asks_to_divide(model: ir.Model, classes: DimensionClasses, options: PlanOptions) -> bool:
    """Return whether some variable must be divided; checks requests, also without divisions.

    Raises:
        CompileError: as `constrained`, and MCM-S025 for a division over one device.
    """
    if not options.shards:
        return False
    asked = [constraints.parse_constraint(text) for text in options.shards]
    fixed = constraints.constrained(
        decision_problem.opp_problem(model, LEAST_DEGREE, classes), classes, asked
    )
    constraints.require_devices(asked, options.operator or LEAST_DEGREE)
    return bool(fixed.forced.any())


def choose_operators(
    model: ir.Model,
    classes: DimensionClasses,
    group: DeviceGroup,
    options: PlanOptions,
    cost_model: CostModel,
    *,
    batch: bool = True,
    known: Mapping[str, int] | None = None,
) -> OperatorChoice | None:
    """The best decision over a group of devices, by an exact method, or a known one.

    What the group does not divide, its devices do for a part of the batch each, where there is one
    and `batch` says that they may. `known` has the dim that is divided of each variable.

    Returns:
        None where nothing is worth dividing.

    Raises:
        CompileError: as `constrained`, and MCM-S027 for a degree that is asked for and that nothing
            can take.
    """
    asked = [constraints.parse_constraint(text) for text in options.shards]
    problem = decision_problem.opp_problem(model, group.devices, classes)
    if options.operator is not None:
        constraints.require_divisible(problem, group.devices)
    fixed = constraints.constrained(problem, classes, asked)
    seconds = seconds_by_model(classes, cost_model)
    batch_class = None
    if batch:
        batch_class = batch_class_of(
            classes, decision_problem.adp_problem(model, group.devices, classes)
        )
    cost = step_cost(
        model,
        fixed.problem,
        classes,
        seconds,
        group,
        training=options.training,
        batch_class=batch_class,
    )
    alone_s = float(seconds.sum()) * (1.0 + BACKWARD_PER_FORWARD * options.training)
    counts = options.objective == "paper-count"
    objective = decision_problem.count_objective(fixed.problem) if counts else cost.objective()
    if known is None:
        exact = best_decision(fixed.problem, objective, forced=fixed.forced)
    else:
        divided = fixed.problem.decision_of(known)
        exact = OracleDecision(divided, objective.value(divided), math.inf, proven=False)
    partitioned = exact.partitioned
    if not partitioned.any():
        return None
    found = exact.value if counts else cost.seconds(partitioned)
    oracle, gap = (found, 0.0) if exact.proven else (exact.value if counts else None, None)
    if known is not None:
        oracle = None
    method = "cp-sat" if known is None else "known"
    return OperatorChoice(
        degree=group.devices,
        dims=fixed.problem.partitioned_dims(partitioned),
        time_share=cost.seconds(partitioned) / alone_s if alone_s > 0 else 1.0,
        memory_share=cost.memory_bytes(partitioned) / cost.base_bytes if cost.base_bytes else 1.0,
        records=(SearchRecord("OPP", method, options.seed, found, oracle, gap),),
        problem=fixed.problem,
        objective=objective,
        cost=None if counts else cost,
        forced=fixed.forced,
    )
