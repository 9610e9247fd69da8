"""The contracts of what re-proves a certificate.

The core imports no component. What it needs to know of a problem, and the arguments behind lower
bounds, come from components that are found by name, so that a plug-in can bring a model or a kind
of proof of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import onnx_ir as ir

from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem
from mcm_compiler.contracts.target import Routing, Target
from mcm_compiler.machines.machine import Machine

DEFAULT_PROBLEM_MODEL = "pipeline"
"""The model that the built-in passes place models under."""


class ProofChecker(Protocol):
    """Carries out one kind of argument again, sharing no code with what found it.

    Found through the entry points of `mcm_compiler.proof_checkers`, by the name that
    `LowerBound.proof` gives.
    """

    @property
    def summary(self) -> str: ...

    @property
    def undecided(self) -> str:
        """Why `rules_out` may say nothing, in a few words."""
        ...

    @property
    def effort(self) -> int:
        """0 where `rules_out` is about linear in the problem, 1 about quadratic, 2 a search."""
        ...

    def rules_out(self, problem: PartitionProblem, period_s: float) -> bool | None:
        """Whether no valid placement is faster than a period.

        Args:
            problem: what was placed.
            period_s: the period.

        Returns:
            True where the argument shows it, False where it does not, None where it could not be
            carried out (too large, or nothing that could be followed).
        """
        ...


class ObjectiveChecker(Protocol):
    """Carries out an argument about an objective that is not the plain period again.

    Found through the entry points of `mcm_compiler.objective_proofs`, by the name that
    `ShareBound.proof` gives. Of the objectives `period` within a latency and `chips` a bound may as
    well be one on the period, which a `ProofChecker` shows.
    """

    @property
    def summary(self) -> str: ...

    @property
    def undecided(self) -> str:
        """Why `rules_out` may say nothing, in a few words."""
        ...

    def rules_out(
        self, problem: PartitionProblem, objective: Objective, value: float
    ) -> bool | None:
        """Whether no valid placement of one pipeline comes to less than a value.

        Args:
            problem: of the pipeline.
            objective: what the value is of; where it has a limit, placements beyond do not count.
            value: seconds, or joules; infinite where no placement is said to keep the limit.

        Returns:
            As `ProofChecker.rules_out`.
        """
        ...


class ProblemModel(Protocol):
    """How a placement problem follows from a graph, and what a placement costs.

    Found through the entry points of `mcm_compiler.problem_models`.
    """

    def problem(
        self,
        model: ir.Model,
        target: Target,
        routing: Routing,
        plan: FusionPlan,
        pins: Sequence[tuple[str, int]],
    ) -> PartitionProblem:
        """The problem of a model on all devices of a target.

        Args:
            model: the graph before anything was added for its placement.
            target: gives costs and limits.
            routing: the rule for long dependencies.
            plan: which ops run as one kernel.
            pins: names or patterns of ops or groups, and the device of each.

        Raises:
            CompileError: where the graph has none.
        """
        ...

    def refusal(self, problem: PartitionProblem) -> str:
        """Code of the diagnostic that proves that nothing can be placed; empty where none does."""
        ...

    def period_s(self, problem: PartitionProblem, placement: Ints) -> float:
        """Seconds between inferences of a placement `[N]`; infinite where it breaks a rule."""
        ...


@runtime_checkable
class LowersPlacements(Protocol):
    """A model of problems that simulates placements on targets without a batch evaluator."""

    def lowering_evaluator(
        self,
        model: ir.Model,
        problem: PartitionProblem,
        target: Target,
        plan: FusionPlan,
        pipelines: int,
    ) -> BatchEvaluator | None:
        """The evaluator of one of N pipelines; None for a target that cannot be asked.

        Args:
            model: the graph before anything was added for its placement.
            problem: of one pipeline.
            target: the package.
            plan: which ops run as one kernel.
            pipelines: that run side by side.
        """
        ...


@runtime_checkable
class PricesEnergy(Protocol):
    """A model of problems that tells what units and tensors cost in joules."""

    def with_energy(
        self, problem: PartitionProblem, model: ir.Model, target: Target, plan: FusionPlan
    ) -> PartitionProblem:
        """The same problem with its `energy`, derived from the target alone.

        Args:
            problem: of the model.
            model: the graph that the problem follows from.
            target: gives costs and joules.
            plan: which ops run as one kernel.

        Raises:
            CompileError: MCM-P064 where the target says nothing of energy.
        """
        ...


@runtime_checkable
class KnowsChannels(Protocol):
    """A model of problems that gives what placements put on each channel of a machine."""

    def channel_bytes(
        self, problem: PartitionProblem, placement: Ints, machine: Machine
    ) -> Longs | None:
        """`[L]`, bytes of one inference of one pipeline, but for streamed weights; or None."""
        ...


@runtime_checkable
class KnowsValues(Protocol):
    """A model of problems that tells what placements come to beside their period."""

    def latency_s(self, problem: PartitionProblem, placement: Ints) -> float | None:
        """When one inference is answered by an empty package; None where nothing tells it."""
        ...

    def objective_value(
        self, problem: PartitionProblem, placement: Ints, objective: Objective
    ) -> float:
        """What an objective wants small, of one pipeline; infinite beyond a limit."""
        ...
