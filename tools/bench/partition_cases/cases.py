"""The problems of the table: models on a roomy and on a tight package."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from importlib import resources

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.fusion import FUSION_PLAN
from mcm_compiler.partition import Budget, PartitionProblem
from mcm_compiler.target import Routing, Target
from mcm_compiler.target_loading import load_target, target_from_text
from mcm_passes.partitioning.bounds import lower_bound
from mcm_passes.partitioning.contiguous_dp import ContiguousDp
from mcm_passes.partitioning.fast_model import period
from mcm_passes.partitioning.problem_builder import build_problem
from mcm_passes.strategies.lazy_judge import LazyJudge

PASSES = "simplify,fuse,annotate_cost,shard_oversized"

PACKAGE = "mcm36"

MODELS = {
    "ResNet-50": "zoo:resnet50{shape_only=true}",
    "Inception-V3": "zoo:inception-v3{shape_only=true}",
    "BERT-large": "zoo:bert-large{shape_only=true}",
    "NMT unrolled": "zoo:gnmt{shape_only=true}",
    "T5": "zoo:t5{shape_only=true}",
    "GPT-2": "zoo:gpt2{shape_only=true}",
}

STRICT = ("ResNet-50", "Inception-V3", "BERT-large")
"""Models that are also partitioned under the triangle rule."""

QUICK = ("ResNet-50",)

TIGHTNESS = 1.3
"""Memory of all chips together over a model's weights, on the tight package."""

STEP = 1.25
"""Factor by which the tight package grows while nothing fits: activations need room, too."""


@dataclass(frozen=True, eq=False)
class Case:
    """One problem.

    Attributes:
        model: its name in the table.
        package: name of the package.
        sram_mib: memory of each chip.
        problem: what to place.
        bound_s: the best bound that needs no search, in seconds.
        argument: what proves it.
        judge: the simulator, built when it is asked first.
    """

    model: str
    package: str
    sram_mib: float
    problem: PartitionProblem
    bound_s: float
    argument: str
    judge: LazyJudge

    @property
    def routing(self) -> Routing:
        """The rule for long dependencies."""
        return self.problem.routing


def cases_of(model: str) -> list[Case]:
    """The cases of one of `MODELS`: roomy, under the triangle rule where it is tried, and tight."""
    roomy = load_target(PACKAGE)
    found = [_case(model, roomy, PACKAGE, "relay")]
    if model in STRICT:
        found.append(_case(model, roomy, PACKAGE, "strict"))
    weights = int(found[0].problem.weight_bytes.sum())
    sram_bytes = TIGHTNESS * weights / roomy.limits.num_chips
    while sram_bytes < roomy.limits.sram_bytes[0]:
        # Two digits after the point are enough, and keep the description readable.
        mib = math.ceil(sram_bytes / 2**20 * 100) / 100
        tight = _package_with(mib)
        try:
            case = _case(model, tight, f"{PACKAGE}, tight", "relay", mib)
        except CompileError:
            case = None
        if case is not None and _fits(case.problem):
            return [*found, case]
        sram_bytes *= STEP
    return found


def _package_with(sram_mib: float) -> Target:
    files = resources.files("mcm_hardware").joinpath("targets")
    text = files.joinpath(f"{PACKAGE}.toml").read_text(encoding="utf-8")
    changed, count = re.subn(r"(?m)^sram_mib = .*$", f"sram_mib = {sram_mib}", text)
    if count != 1:
        raise ValueError(f"{PACKAGE}.toml has {count} lines with sram_mib")
    return target_from_text(f"{PACKAGE}-tight", changed)


def _fits(problem: PartitionProblem) -> bool:
    import numpy as np

    rng = np.random.default_rng(0)
    outcome = ContiguousDp().solve(problem, lambda f: period(problem, f), rng, Budget())
    return outcome.chip_of is not None


def _case(
    name: str, target: Target, package: str, routing: Routing, sram_mib: float | None = None
) -> Case:
    model, _, _ = run_passes(MODELS[name], target, CompileOptions(passes=PASSES))
    plan = FUSION_PLAN.get(model)
    problem = build_problem(model, target, routing, plan)
    bound = lower_bound(problem)
    groups = {op: group.name for op, group in plan.group_of.items()}
    build = getattr(target, "batch_judge")  # noqa: B009 (targets need not have one)
    return Case(
        model=name,
        package=package,
        sram_mib=sram_mib or target.limits.sram_bytes[0] / 2**20,
        problem=problem,
        bound_s=bound.seconds,
        argument=bound.argument,
        judge=LazyJudge(lambda: build(model, problem, groups)),
    )
