"""The problems of the table, built up to the point where a strategy takes over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from partition_cases.packages import package

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.components.capabilities import required_batch_evaluation_of
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import Routing
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.problem.partition_problem import build_problem
from mcm_passes.mapping.solving.lowered_evaluator import LazyEvaluator

PASSES = "simplify,fuse,annotate_cost,shard_oversized"

Kind = Literal["roomy", "tight", "tight36"]
"""`tight` has the wanted memory over weights on as many chips as possible, `tight36` as little
memory as possible on all chips."""


@dataclass(frozen=True)
class CaseSpec:
    """One model on one package under one rule.

    Attributes:
        model: its name in the table.
        source: its text for the compiler.
        kind: see `Kind`.
        routing: the rule for long dependencies.
        chips: of the package; None for all that it has.
        sram_mib: of each chip; None for what it has.
    """

    model: str
    source: str
    kind: Kind
    routing: Routing
    chips: int | None = None
    sram_mib: float | None = None

    @property
    def key(self) -> str:
        """Tells it from all others."""
        size = "" if self.sram_mib is None else f" {self.chips}x{self.sram_mib:g}"
        return f"{self.model} {self.kind}{size} {self.routing}"


@dataclass(frozen=True, eq=False)
class Case:
    """A case that is ready for a strategy.

    Attributes:
        problem: what to place.
        evaluator: the simulator, built when it is asked first.
    """

    problem: PartitionProblem
    evaluator: LazyEvaluator

    def facts(self) -> dict[str, Any]:
        """What the table tells of the problem, with the best bound that needs no search."""
        bound = lower_bound(self.problem)
        return {
            "bound_s": bound.seconds,
            "argument": bound.argument,
            "units": self.problem.num_units,
            "weights_mib": int(self.problem.weight_bytes.sum()) / 2**20,
            "chips": self.problem.num_chips,
            "sram_mib": max(self.problem.limits.sram_bytes) / 2**20,
        }


def build_case(spec: CaseSpec) -> Case:
    """Compiles a model up to its partitioning problem.

    Raises:
        CompileError: if the model cannot be made to fit.
    """
    target = package(spec.chips, spec.sram_mib)
    model, _, _ = run_passes(spec.source, target, CompileOptions(passes=PASSES))
    plan = FUSION_PLAN.get(model)
    problem = build_problem(model, target, spec.routing, plan)
    groups = plan.group_names
    build = required_batch_evaluation_of(target).batch_evaluator
    return Case(problem, LazyEvaluator(lambda: build(model, problem, groups)))


class Cases:
    """Builds cases when they are asked for, and keeps the last one."""

    def __init__(self) -> None:
        self._spec: CaseSpec | None = None
        self._case: Case | None = None

    def get(self, spec: CaseSpec) -> Case:
        """The case of `spec`; see `build_case`."""
        if self._case is None or spec != self._spec:
            self._case = build_case(spec)
            self._spec = spec
        return self._case
