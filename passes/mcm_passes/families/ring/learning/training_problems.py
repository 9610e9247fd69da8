"""The partitioning problems of a data set, each with the heuristic that rewards relate to."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.api import run_passes
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import Budget, PartitionProblem
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.machines.package_limits import PackageLimits
from mcm_compiler.options import CompileOptions
from mcm_passes.families.ring.analytic.fast_periods import FastPeriods
from mcm_passes.families.ring.contiguous.greedy import Greedy
from mcm_passes.families.ring.learning.rewards import FastRewards
from mcm_passes.families.ring.learning.sized_models import sized_model
from mcm_passes.mapping.problem.partition_problem import build_problem

_PASSES = "simplify,fuse,annotate_cost,shard_oversized"
_PARTITIONING = "MCM-P"
"""Family of the diagnostics that say why a model cannot be placed on a package."""


@dataclass(frozen=True, eq=False)
class TrainingProblem:
    """One problem of a data set; it travels between processes.

    Attributes:
        model: text of the model.
        problem: as a compile would meet it.
        baseline_s: period of the greedy heuristic (MCM, section 5.1) under the fast model.
    """

    model: str
    problem: PartitionProblem
    baseline_s: float

    def rewards(self) -> FastRewards:
        """Throughput over the heuristic's, under the fast model."""
        return FastRewards(FastPeriods(self.problem, few=0), self.baseline_s)


def model_to_partition(model: str, target: Target) -> ir.Model:
    """The model after all passes before `partition`; arguments as of `partition_problem`."""
    sized = sized_model(model)
    return run_passes(sized.model, target, CompileOptions(passes=_PASSES, dims=sized.dims))[0]


def partition_problem(model: str, target: Target) -> PartitionProblem:
    """The problem that `mcmc compile` would hand to a strategy, under the relay rule.

    Args:
        model: as `sized_model` takes it: path of an ONNX file, or `zoo:` and a builder.
        target: the package.
    """
    lowered = model_to_partition(model, target)
    return build_problem(lowered, target, "relay", FUSION_PLAN.get(lowered))


def training_problems(
    models: Sequence[str], target: Target, tell: Callable[[int], None]
) -> tuple[tuple[TrainingProblem, ...], tuple[str, ...]]:
    """Problems with their baselines, and the models whose baseline finds nothing valid.

    Args:
        models: texts of models.
        target: the package.
        tell: hears how many are done.

    Raises:
        CompileError: MCM-L007 where no model is left; whatever the import of a model finds.
    """
    found: list[TrainingProblem] = []
    left_out: list[str] = []
    for k, model in enumerate(models):
        each = _with_baseline(model, target)
        if each is None:
            left_out.append(model)
        else:
            found.append(each)
        tell(k + 1)
    if not found:
        raise CompileError.of(
            "MCM-L007",
            f"no partition is valid for any of {len(models)} models, such as {quote(models[0])}",
            at=f"target {quote(target.name)}",
        )
    return tuple(found), tuple(left_out)


def digest_of(problems: Sequence[TrainingProblem]) -> str:
    """SHA-256 of everything that a policy could learn from the problems.

    Equal to that of release 0.1.0 for the problems that it could state, so that its trainings go
    on: fields that records got later count where they state anything more.
    """
    digest = hashlib.sha256()
    for each in problems:
        digest.update(f"{each.model}\n{each.baseline_s!r}\n".encode())
        problem = each.problem
        values = [*_stated(problem, "energy").values()]
        values += [problem.clone_closure, problem.placed_readers, problem.placed_weight_users]
        for value in values:
            is_array = isinstance(value, np.ndarray)
            digest.update(value.tobytes() if is_array else _text_of(value).encode())
    return digest.hexdigest()


def _stated(record: Any, last: str) -> dict[str, Any]:
    """Fields of a record up to the last one of release 0.1.0, and later ones without defaults."""
    fields = dataclasses.fields(record)
    first = [field.name for field in fields].index(last) + 1
    later = (f for f in fields[first:] if getattr(record, f.name) != f.default)
    return {field.name: getattr(record, field.name) for field in (*fields[:first], *later)}


def _text_of(value: Any) -> str:
    """`repr`, but for limits without delays that are those of a hop, as before they had names."""
    if not isinstance(value, PackageLimits):
        return repr(value)
    if set(value.link_latency_s) <= {value.hop_latency_s}:
        value = dataclasses.replace(value, link_latency_s=())
    if value.host_latency_s == value.hop_latency_s:
        value = dataclasses.replace(value, host_latency_s=0.0)
    stated = (f"{name}={each!r}" for name, each in _stated(value, "forwarding").items())
    return f"PackageLimits({', '.join(stated)})"


def _with_baseline(model: str, target: Target) -> TrainingProblem | None:
    """The problem of a model, or None where it does not fit."""
    try:
        problem = partition_problem(model, target)
    except CompileError as error:
        if all(found.code.startswith(_PARTITIONING) for found in error.diagnostics):
            return None
        raise
    period_s = _greedy_period_s(problem)
    return TrainingProblem(model, problem, period_s) if np.isfinite(period_s) else None


def _greedy_period_s(problem: PartitionProblem) -> float:
    """Period of the heuristic's partition, infinite where it finds none."""
    if not problem.num_units or problem.clonable.all():
        return float("inf")
    periods = FastPeriods(problem, few=0)
    found = Greedy().solve(problem, periods, np.random.default_rng(0), Budget())
    return float("inf") if found.chip_of is None else periods(found.chip_of)
