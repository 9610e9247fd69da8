"""The contracts of components that re-prove a certificate.

The core imports no component. Components that are found by name supply its facts about a problem
and the proofs of lower bounds, so a plug-in can bring its own model or kind of proof.
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
"""The problem model of the built-in passes."""


class ProofChecker(Protocol):
    """Re-runs one kind of proof, without code of the search that found it.

    Registered as kind `proof-checker`, by the name in
    `LowerBound.proof`.
    """

    @property
    def summary(self) -> str: ...

    @property
    def undecided(self) -> str:
        """Reason why `rules_out` may return None, in a few words."""
        ...

    @property
    def effort(self) -> int:
        """0 if `rules_out` is about linear in the problem, 1 if about quadratic, 2 if a search."""
        ...

    def rules_out(self, problem: PartitionProblem, period_s: float) -> bool | None:
        """Check that no valid placement is faster than a period.

        Args:
            problem: the placement problem.
            period_s: the period.

        Returns:
            True if the proof shows it, False if it does not, None if the proof cannot be run (the
            problem is too large, or the proof has no steps to follow).
        """
        ...


class ObjectiveChecker(Protocol):
    """Re-runs a proof about an objective other than the plain period.

    Registered as kind `objective-proof`, by the name in
    `ShareBound.proof`. For the objectives `period` within a latency and `chips`, a bound on the
    period is valid as well, which a `ProofChecker` proves.
    """

    @property
    def summary(self) -> str: ...

    @property
    def undecided(self) -> str:
        """Reason why `rules_out` may return None, in a few words."""
        ...

    def rules_out(
        self, problem: PartitionProblem, objective: Objective, value: float
    ) -> bool | None:
        """Check that a value is a lower bound for every valid placement of one replica.

        Args:
            problem: of the replica.
            objective: the objective of the value; placements beyond its limit do not count.
            value: seconds, or joules; infinite for the claim that no placement keeps the limit.

        Returns:
            As `ProofChecker.rules_out`.
        """
        ...


class ProblemModel(Protocol):
    """Derivation of a placement problem from a graph, and costs of a placement.

    Registered as kind `problem-model`.
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
            CompileError: if the graph has no such problem.
        """
        ...

    def refusal(self, problem: PartitionProblem) -> str:
        """Code of the diagnostic that proves that no placement exists; empty if none does."""
        ...

    def period_s(self, problem: PartitionProblem, placement: Ints) -> float:
        """Seconds between inferences of a placement `[N]`; infinite if it breaks a rule."""
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
        """The evaluator of one of N replicas; None for a target that does not support it.

        Args:
            model: the graph before anything was added for its placement.
            problem: of one replica.
            target: the package.
            plan: which ops run as one kernel.
            pipelines: number of replicas.
        """
        ...


@runtime_checkable
class PricesEnergy(Protocol):
    """A model of problems with the energy of units and tensors."""

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
            CompileError: MCM-P064 if the target has no energy costs.
        """
        ...


@runtime_checkable
class KnowsChannels(Protocol):
    """A model of problems with the traffic of placements on each channel of a machine."""

    def channel_bytes(
        self, problem: PartitionProblem, placement: Ints, machine: Machine
    ) -> Longs | None:
        """`[L]`, bytes of one inference of one replica, without streamed weights; or None."""
        ...


@runtime_checkable
class KnowsValues(Protocol):
    """A model of problems with latencies and energies of placements."""

    def latency_s(self, problem: PartitionProblem, placement: Ints) -> float | None:
        """Seconds of one inference in an empty package; None if unknown."""
        ...

    def objective_value(
        self, problem: PartitionProblem, placement: Ints, objective: Objective
    ) -> float:
        """Figure of one replica that an objective minimises; infinite beyond a limit."""
        ...
