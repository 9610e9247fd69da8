"""Models with their batch evaluator and partitions, and the road of the passes beside it."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.components.capabilities import lowering_of, required_batch_evaluation_of
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.chips import CHIP_MODELS, WIRES
from mcm_compiler.contracts.evaluation import BatchEvaluator, ResultKind
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import PARTITION, PARTITION_PROBLEM, Ints, PartitionProblem
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.target import Target
from mcm_compiler.pipeline.passes import Pass

TO_PARTITION = "simplify,fuse,annotate_cost,shard_oversized,partition"
TO_CHIPS = f"{TO_PARTITION},legalize,split"

BATCH = 512
"""Partitions that are evaluated at once while partitions that run are collected."""

MAX_DRAWN = 100 * BATCH
"""Partitions after which the search for those that run ends."""


@dataclass(frozen=True)
class Case:
    """One model on one package.

    Attributes:
        source: the model, for `run_passes`.
        target: the package.
        problem: of the model.
        best: `[N]`, what the default strategy finds.
        evaluator: the batch evaluator.
        setup_s: time that it took to make the evaluator.
        num_ops: ops that are placed.
    """

    source: str
    target: Target
    problem: PartitionProblem
    best: Ints
    evaluator: BatchEvaluator
    setup_s: float
    num_ops: int


def prepare(source: str, target: str = "mcm36") -> Case:
    """Imports a model, partitions it and makes its evaluator."""
    package = load_target(target)
    model, _, _ = run_passes(source, package, CompileOptions(passes=TO_PARTITION))
    problem = PARTITION_PROBLEM.get(model)
    groups = FUSION_PLAN.get(model).group_names
    start = time.perf_counter()
    evaluator = required_batch_evaluation_of(package).batch_evaluator(model, problem, groups)
    return Case(
        source=source,
        target=package,
        problem=problem,
        best=PARTITION.get(model).chip_of,
        evaluator=evaluator,
        setup_s=time.perf_counter() - start,
        num_ops=sum(len(members) for members in problem.members),
    )


def contiguous_that_run(case: Case, count: int, seed: int = 0) -> Ints:
    """Random contiguous partitions onto many chips that the evaluator lets run, fewer if rare."""
    rng = np.random.default_rng(seed)
    units, chips = case.problem.num_units, case.problem.num_chips
    found: list[Ints] = []
    drawn = 0
    while sum(map(len, found)) < count and drawn < MAX_DRAWN:
        rows = np.zeros((BATCH, units), np.int32)
        for row in rows:
            used = int(rng.integers(min(chips, units) // 2, min(chips, units) + 1))
            cuts = np.sort(rng.choice(np.arange(1, units), max(used - 1, 0), replace=False))
            row[:] = np.searchsorted(cuts, np.arange(units), side="right")
        found.append(_running(case, rows))
        drawn += len(rows)
    return np.concatenate(found)[:count]


def near_optimal(case: Case, count: int, seed: int = 0) -> Ints:
    """The default strategy's partition with a few units moved to a neighbouring chip."""
    rng = np.random.default_rng(seed)
    found = [case.best[None].astype(np.int32)]
    drawn = 0
    while sum(map(len, found)) < count and drawn < MAX_DRAWN:
        rows = np.repeat(found[0], BATCH, axis=0)
        for row in rows:
            moved = rng.integers(0, case.problem.num_units, int(rng.integers(1, 4)))
            row[moved] += rng.choice(np.array([-1, 1], np.int32), len(moved))
        found.append(_running(case, rows))
        drawn += len(rows)
    return np.concatenate(found)[:count]


def _running(case: Case, rows: Ints) -> Ints:
    return rows[case.evaluator.evaluate(rows).kind == ResultKind.RUNS]


def lowered_by_passes(case: Case, chip_of: Ints) -> LoweredProgram:
    """What the passes make of a partition.

    Args:
        case: the model.
        chip_of: `[N]`, a partition that breaks no rule.
    """

    def replace(step: Pass, model: ir.Model) -> None:
        if step.name == "partition":
            problem = PARTITION_PROBLEM.get(model)
            placed = with_first_copies(problem, chip_of)
            PARTITION.set(model, dataclasses.replace(PARTITION.get(model), chip_of=placed))

    options = CompileOptions(passes=TO_CHIPS)
    model, _, _ = run_passes(case.source, case.target, options, after_pass=replace)
    return lowering_of(case.target).lower(CHIP_MODELS.get(model), WIRES.get(model))


def with_first_copies(problem: PartitionProblem, chip_of: Ints) -> Ints:
    """`chip_of` with each clonable unit on the first chip that reads it."""
    placed: npt.NDArray[np.int32] = np.array(chip_of, np.int32)
    first = np.full(problem.num_units, problem.num_chips, np.int32)
    for t in range(len(problem.tensor_names) - 1, -1, -1):
        producer = int(problem.tensor_producer[t])
        if producer >= 0 and problem.clonable[producer]:
            readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
            first[producer] = min(first[producer], placed[readers].min())
            placed[producer] = first[producer]
    return placed
