"""Whether the figures of other placements, which a certificate stores, are what these come to."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from mcm_compiler.certificate.claims import Certificate, ClaimScope
from mcm_compiler.certificate.joined import JoinedModel, differs
from mcm_compiler.components.capabilities import batch_evaluation_of
from mcm_compiler.contracts.evaluation import BatchEvaluator, ResultKind
from mcm_compiler.contracts.partition import Floats, Ints, LearnedGain, PartitionProblem
from mcm_compiler.contracts.proofs import LowersPlacements, ProblemModel
from mcm_compiler.contracts.replication import PipelineCount
from mcm_compiler.contracts.target import PackageLimits, Target
from mcm_compiler.machines.equal_shares import equal_shares

MARGIN = 1e-9
"""Relative room for what the simulator adds up in another order."""


def check_other_placements(
    certificate: Certificate,
    problem: PartitionProblem,
    joined: JoinedModel,
    target: Target,
    model: ProblemModel,
) -> None:
    """Derives the seconds of each placement that was looked at, and what learning added.

    Args:
        certificate: of the folder; its problem holds.
        problem: of one pipeline on all devices of the package.
        joined: the model that it follows from.
        target: the package.
        model: says what a placement costs.

    Raises:
        CompileError: MCM-V070 for the first figure that differs.
    """
    work = _Work(problem, target, model, _LateEvaluator(problem, joined, target, model))
    shares = [(one.replicas, one.chips_each) for one in certificate.considered]
    if shares and shares != equal_shares(certificate.scope.devices, certificate.problem.machine):
        raise differs(
            f"it lists {len(shares)} numbers of pipelines, and not all equal shares of "
            f"{certificate.scope.devices} devices once, fewest pipelines first",
            "considered",
        )
    for index, one in enumerate(certificate.considered):
        work.check_count(f"considered[{index}]", one)
    if certificate.learned is not None:
        work.check_learned(certificate.learned, certificate.scope)


class _LateEvaluator:
    """The simulator of the package for many placements, built when it is first asked."""

    def __init__(
        self, problem: PartitionProblem, joined: JoinedModel, target: Target, model: ProblemModel
    ) -> None:
        self._of = (joined.model, problem, joined.plan.group_names)
        self._joined, self._target, self._model = joined, target, model
        self._evaluation = batch_evaluation_of(target)
        self._made: BatchEvaluator | None = None

    def periods(
        self, placements: Ints, place: str, pipelines: int, share: PartitionProblem
    ) -> Floats:
        """Seconds between inferences of each of N pipelines on shares of the package, `[R]`.

        Infinite where a placement does not run.
        """
        if self._made is None and self._evaluation is not None:
            self._made = self._evaluation.batch_evaluator(*self._of)
        made = self._made
        if made is None and isinstance(self._model, LowersPlacements):
            joined = self._joined
            made = self._model.lowering_evaluator(
                joined.model, share, self._target, joined.plan, pipelines
            )
        if made is None:
            raise differs("the target simulates no placements, and some were", place)
        found = made.evaluate(placements)
        runs = found.kind == ResultKind.RUNS
        return np.where(runs, found.periods_of(pipelines), np.inf)


@dataclasses.dataclass(frozen=True, eq=False)
class _Work:
    problem: PartitionProblem
    target: Target
    model: ProblemModel
    evaluator: _LateEvaluator

    def check_count(self, place: str, one: PipelineCount) -> None:
        """What is said of a number of pipelines."""
        problem = _on(self.problem, self.target.limits, one.chips_each, one.replicas)
        if one.ruled_out:
            found = self.model.refusal(problem)
            if found != one.ruled_out or one.bound or one.partitions is not None:
                raise differs(
                    f"{one.ruled_out} is said to rule it out, {found or 'nothing'} does", place
                )
            return
        if one.partitions is None:
            if one.analytic_s is not None or one.simulated_s is not None:
                raise differs("it has seconds, and no placement", place)
            return
        seconds = self.model.period_s(problem, one.partitions[0]) / one.replicas
        if seconds != one.analytic_s:
            raise differs(f"its placement takes {seconds!r} s, it says {one.analytic_s!r}", place)
        if one.simulated_s is not None:
            periods = self.evaluator.periods(one.partitions, place, one.replicas, problem)
            seconds = float(periods.min()) / one.replicas
            if not math.isclose(seconds, one.simulated_s, rel_tol=MARGIN):
                raise differs(
                    f"its placements take {seconds!r} s simulated, it says {one.simulated_s!r}",
                    place,
                )

    def check_learned(self, gain: LearnedGain, scope: ClaimScope) -> None:
        """The share of throughput that learned search is said to have added."""
        rows = [gain.classical, *([] if gain.learned is None else [gain.learned])]
        without_s, with_s = self._seconds(rows, gain.simulated, scope)
        share = max(without_s / with_s - 1.0, 0.0)
        if not math.isclose(share, gain.share, rel_tol=MARGIN, abs_tol=MARGIN):
            raise differs(f"its placements give {share!r}, it says {gain.share!r}", "learned.share")

    def _seconds(
        self, rows: Sequence[Ints], simulated: bool, scope: ClaimScope
    ) -> tuple[float, float]:
        """Of the placement without learning and of that with it; infinite where there is none."""
        limits = self.target.limits
        problem = _on(self.problem, limits, scope.devices_each, scope.pipelines)
        if simulated:
            asked = np.stack(rows), "learned", scope.pipelines, problem
            found = self.evaluator.periods(*asked).tolist()
        else:
            found = [self.model.period_s(problem, row) for row in rows]
        if not math.isfinite(found[0]):
            raise differs("its placement without learning does not run", "learned")
        return found[0], found[1] if len(found) > 1 else math.inf


def _on(
    problem: PartitionProblem, limits: PackageLimits, devices: int, pipelines: int
) -> PartitionProblem:
    return dataclasses.replace(problem, limits=limits.first(devices, pipelines))
