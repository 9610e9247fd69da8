"""The contract of `mcmc parallelize`: requests to planners, and their answers.

A planner compares degrees of parallelism by formulas within seconds, so that levels of effort say
nothing about it; its evaluations are the combinations of degrees that it compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import onnx_ir as ir

from mcm_compiler.contracts.described import Described, Named
from mcm_compiler.contracts.requests import PlanOptions, SearchAnswer, SearchRequest, in_form
from mcm_compiler.contracts.sharding.parallel_plan import ParallelPlan
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.registry import PLANNERS
from mcm_compiler.text import spec_text


@dataclass(frozen=True)
class PlanEstimate:
    """One configuration of the devices, with its estimated costs.

    Attributes:
        data: replicas.
        operator: devices that ops are divided over.
        stages: stages of the pipeline.
        seconds: of a step, or between inferences; None where it does not fit.
        memory_bytes: of the fullest device, or None where that is not estimated.
        chosen: whether it is the plan's.
    """

    data: int
    operator: int
    stages: int
    seconds: float | None
    memory_bytes: float | None = None
    chosen: bool = False


MOST_COMBINATIONS = 1 << 16
"""Combinations of degrees that a planner may compare where nothing else is said."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanRequest(SearchRequest):
    """Request to a planner: candidates are combinations of degrees. It has the seed of the options.

    Attributes:
        model: prepared; left unchanged.
        name: as the user calls the model.
        target: a package of chips or a cluster.
        options: of the plan.
        start: a plan of the same model and options, for this target or one with less, or None. A
            planner that looks at it answers with nothing slower.
    """

    model: ir.Model
    name: str
    target: Described
    options: PlanOptions
    evaluations: int = MOST_COMBINATIONS
    start: ParallelPlan | None = None


@dataclass(frozen=True, eq=False)
class PlanAnswer(SearchAnswer[ParallelPlan]):
    """Result of a planner: `found` is the plan.

    Attributes:
        estimates: of all combinations that were compared.
        diagnostics: warnings and notes.
    """

    estimates: tuple[PlanEstimate, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def plan(self) -> ParallelPlan:
        """The plan."""
        return self.found


class Planner(Named, Protocol):
    """Makes plans: a frozen dataclass whose fields are its options.

    Registered by name as kind `planner`.
    """

    def prepare(self, model: ir.Model) -> None:
        """Brings a model as the importer gives it into the form that plans speak of, in place."""
        ...

    def plan(self, request: PlanRequest) -> PlanAnswer:
        """Decides how a model uses the devices of a target.

        Raises:
            CompileError: MCM-S### where no plan does what is asked.
        """
        ...

    def why(
        self, model: ir.Model, tensor: str, dim: int, degree: int, plan: ParallelPlan | None
    ) -> str:
        """Explain what forces or forbids dividing a dimension of a tensor.

        Args:
            model: prepared.
            tensor: name of any tensor of it.
            dim: of the tensor.
            degree: devices.
            plan: a plan whose choices count as well, or None.

        Raises:
            CompileError: MCM-S063 for a tensor or dimension that the model does not have.
        """
        ...

    def annotated(self, model: ir.Model, plan: ParallelPlan) -> ir.Model:
        """The model with the plan in ONNX's multi-device fields.

        Raises:
            CompileError: MCM-S021, MCM-S022, MCM-S061 and MCM-S062 for a plan that does not fit.
        """
        ...

    def sharded(self, model: ir.Model, plan: ParallelPlan) -> ir.Model:
        """The model with one op per shard, equal to the whole one but for the order of sums.

        Raises:
            CompileError: as `annotated`.
        """
        ...


def planner_of(text: str) -> Planner:
    """The registered planner that a text such as `auto-map` stands for.

    Args:
        text: its text form.

    Raises:
        CompileError: MCM-U001 to MCM-U003 for text, options and names, MCM-X007 for what is no
            planner.
    """
    return cast("Planner", PLANNERS.made(spec_text.parse_one(text)))


def planned_by(text: str, planner: Planner, request: PlanRequest) -> PlanAnswer:
    """Run a planner, and check the form of its plan.

    Args:
        text: its text form.
        planner: the planner.
        request: the request.

    Raises:
        CompileError: MCM-X007 where it fails, or answers in another form.
    """
    with PLANNERS.at_work(text.partition("{")[0].strip()):
        found = in_form(planner.plan(request), PlanAnswer)
        for kind, given in (
            (ParallelPlan, [found.plan]),
            (PlanEstimate, found.estimates),
            (Diagnostic, found.diagnostics),
        ):
            wrong = [one for one in cast("Any", given) if not isinstance(one, kind)]
            if wrong:
                raise TypeError(f"it gave a {type(wrong[0]).__name__}, not a {kind.__name__}")
        return found
