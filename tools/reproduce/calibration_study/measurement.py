"""Random partitions, as the analytic model and as the evaluator see them."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from moved_units import with_moved_units

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.components.capabilities import required_batch_evaluation_of
from mcm_compiler.components.cost_choice import with_cost_model
from mcm_compiler.components.cost_files import user_files
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.evaluation import BatchResults
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.mapping import Evaluation
from mcm_compiler.contracts.partition import (
    PARTITION,
    PARTITION_PROBLEM,
    Floats,
    Ints,
    PartitionProblem,
)
from mcm_compiler.contracts.target import Routing, Target
from mcm_compiler.machines.machine import HOST
from mcm_passes.families.ring.solver.batch import BatchSolver
from mcm_passes.mapping.machine.evaluation import MachineModel
from mcm_passes.mapping.problem.rule_graph import rule_graph

PASSES = "simplify,fuse,annotate_cost,shard_oversized,partition"
RULES_WITHOUT_MEMORY = frozenset({"memory"})

Population = Literal["uniform", "uniform, roomy", "near"]
POPULATIONS: tuple[Population, ...] = get_args(Population)

ROOMY_MIB = 1024
"""SRAM of a chip that holds whatever a random partition puts on it."""

MOVED_SHARE = 0.05
"""Units that the near population moves to a random chip before repair."""


@dataclass(frozen=True, eq=False)
class Samples:
    """B random partitions that keep the rules of the ring; memory is not looked at.

    Attributes:
        problem: what was partitioned.
        partitions: `[B, N]`.
        analytic_s: `[B]`, period under the analytic model, memory aside.
        analytic_fits: `[B]`, whether the analytic model's memory estimate fits.
        paper_s: `[B]`, busiest chip by its own units alone, which is the paper's model.
        busiest: `[B]`, resource that sets the analytic period: `chip`, `link`, `host in` or
            `host out`.
        estimate_bytes: `[B, C]`, the analytic model's memory.
        results: of the evaluator.
    """

    problem: PartitionProblem
    partitions: Ints
    analytic_s: Floats
    analytic_fits: np.ndarray
    paper_s: Floats
    busiest: tuple[str, ...]
    estimate_bytes: np.ndarray
    results: BatchResults


def measure(
    model: str, target: str, routing: Routing, population: Population, count: int, seed: int
) -> Samples:
    """Draws `count` partitions; their periods under the roofline, and those of the simulator."""
    package = with_cost_model(load_target(target), "roofline", user_files(None))
    if population == "uniform, roomy":
        package = _roomy(package)
    options = CompileOptions(passes=PASSES, routing=routing)
    compiled, _, _ = run_passes(model, package, options)
    problem = PARTITION_PROBLEM.get(compiled)
    groups = FUSION_PLAN.get(compiled).group_names
    evaluator = required_batch_evaluation_of(package).batch_evaluator(compiled, problem, groups)
    graph = rule_graph(problem)
    solver, rng = BatchSolver.of(graph, routing), np.random.default_rng(seed)
    if population == "near":
        best = PARTITION.get(compiled).chip_of[graph.units]
        proposals = with_moved_units(rng, best, problem.num_chips, count, MOVED_SHARE)
        drawn = solver.fix(rng, proposals)
    else:
        drawn = solver.sample(rng, count)
    partitions = np.zeros((count, problem.num_units), np.int32)
    partitions[:, graph.units] = drawn
    analytic = MachineModel(problem)
    found = [analytic.evaluate(chip_of) for chip_of in partitions]
    for evaluation in found:
        assert {v.rule for v in evaluation.violations} <= RULES_WITHOUT_MEMORY
    return Samples(
        problem=problem,
        partitions=partitions,
        analytic_s=np.array([evaluation.period_s for evaluation in found]),
        analytic_fits=np.array([evaluation.valid for evaluation in found]),
        paper_s=np.array([_own_units(problem, chip_of) for chip_of in partitions]),
        busiest=tuple(_busiest(problem, evaluation) for evaluation in found),
        estimate_bytes=np.array([evaluation.memory_bytes for evaluation in found]),
        results=evaluator.evaluate(partitions),
    )


def _roomy(package: Target) -> Target:
    text, changes = re.subn(r"sram_mib = \d+", f"sram_mib = {ROOMY_MIB}", package.source_text)
    assert changes == 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{package.name}-roomy.toml"
        path.write_text(text, encoding="utf-8")
        return load_target(str(path))


def _own_units(problem: PartitionProblem, chip_of: Ints) -> float:
    placed = ~problem.clonable
    return float(np.bincount(chip_of[placed], problem.compute_s[placed], problem.num_chips).max())


def _busiest(problem: PartitionProblem, evaluation: Evaluation) -> str:
    ends = problem.machine.channel_ends
    source, target = ends.T >= 0
    loads = {
        "chip": evaluation.chip_busy_s,
        "link": evaluation.channel_busy_s[source & target],
        "host in": evaluation.channel_busy_s[(ends[:, 0] == HOST) & target],
        "host out": evaluation.channel_busy_s[source & (ends[:, 1] == HOST)],
    }
    return max(loads, key=lambda name: float(loads[name].max(initial=0.0)))
