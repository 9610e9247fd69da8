"""The partitioning problems of the experiments, and what rewards relate to."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from mcm_compiler.components.capabilities import required_batch_evaluation_of
from mcm_compiler.components.cost_choice import with_cost_model
from mcm_compiler.components.cost_files import user_files
from mcm_compiler.components.target_loading import load_target, target_from_text
from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import Routing, Target
from mcm_passes.families.ring.learning.training_problems import greedy_partition, model_to_partition
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.problem.partition_problem import build_problem

Measure = Literal["fast", "judge"]
"""Where rewards come from: the analytic model (MCM, section 5.2), or the simulator in place of
hardware (MCM, section 5.3)."""

ROOMY_MIB = 1024
"""SRAM of a chip that holds whatever a random partition puts on it."""


@dataclass(frozen=True)
class Setting:
    """Which problem, and how partitions of it are judged.

    Attributes:
        model: what the compiler takes, such as `zoo:bert-large{shape_only=true}`.
        target: name of a package.
        measure: where rewards come from.
        roomy: whether each chip gets `ROOMY_MIB` of SRAM.
        routing: rule for long dependencies.
        clones: whether cheap ops may be copied to each chip that reads them; without, they are
            placed like all others.
    """

    model: str
    target: str = "mcm36"
    measure: Measure = "fast"
    roomy: bool = False
    routing: Routing = "relay"
    clones: bool = True


@dataclass(frozen=True, eq=False)
class StudyProblem:
    """A problem with its baseline.

    Attributes:
        problem: what is to be placed.
        baseline_s: period of the greedy heuristic's partition by the setting's measure. It is that
            of the relay rule with clones in all settings, so that settings can be compared.
        evaluator: the simulator, or None for the fast model.
    """

    problem: PartitionProblem
    baseline_s: float
    evaluator: BatchEvaluator | None


@lru_cache(maxsize=256)
def package(setting: Setting) -> Target:
    """The package of a setting, whose analytic model is the roofline as in the records.

    Raises:
        ValueError: if the memory of its chips is not stated once.
    """
    target = with_cost_model(load_target(setting.target), "roofline", user_files(None))
    if not setting.roomy:
        return target
    text, changes = re.subn(r"(?m)^sram_mib = .*$", f"sram_mib = {ROOMY_MIB}", target.source_text)
    if changes != 1:
        raise ValueError(f"{setting.target} states the memory of a chip {changes} times")
    return target_from_text(f"{setting.target}-roomy", text)


@lru_cache(maxsize=32)
def study_problem(setting: Setting) -> StudyProblem:
    """Builds a problem; the importer and the passes before partitioning run on the real model.

    Raises:
        ValueError: where the heuristic finds nothing valid.
    """
    target = package(setting)
    model = model_to_partition(setting.model, target)
    plan, evaluator = FUSION_PLAN.get(model), None
    problem = build_problem(model, target, "relay", plan)
    if setting.measure == "judge":
        evaluator = required_batch_evaluation_of(target).batch_evaluator(
            model, problem, plan.group_names
        )
    baseline_s = _greedy_period_s(problem, evaluator)
    if not np.isfinite(baseline_s):
        raise ValueError(f"the heuristic finds nothing valid for {setting.model}")
    problem = dataclasses.replace(problem, routing=setting.routing)
    if not setting.clones:
        problem = dataclasses.replace(problem, clonable=np.zeros_like(problem.clonable))
    return StudyProblem(problem, baseline_s, evaluator)


def _greedy_period_s(problem: PartitionProblem, evaluator: BatchEvaluator | None) -> float:
    periods = AnalyticPeriods(problem, few=0)
    found = greedy_partition(problem)
    if found is None:
        return float("inf")
    return (
        periods(found) if evaluator is None else float(evaluator.evaluate(found[None]).period_s[0])
    )
