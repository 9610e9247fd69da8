"""A policy's proposals taken as they are, without a solver between them and the reward."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints, PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_models.policy.layout import initial_weights
from mcm_models.policy.network import Decoded
from mcm_passes.families.ring.learning.recipes import Recipe
from mcm_passes.families.ring.learning.rollouts import Rollouts
from mcm_passes.families.ring.learning.tasks import Task, fast_rewards
from mcm_passes.families.ring.solver.batch import filled_rows
from mcm_study.cells import Cell, Record
from mcm_study.methods import Method
from mcm_study.problems import StudyProblem

ENDS = 100
"""Samples at the beginning and at the end whose dependencies are looked at."""


@dataclass(frozen=True, eq=False)
class ProposalsAsTheyAre:
    """Implements `rollouts.Sampler`; what it hands on may break all rules.

    Attributes:
        problem: the problem.
        units: `[n]`, unit of each node.
    """

    problem: PartitionProblem
    units: Ints

    def draw(self, rng: np.random.Generator, decoded: Decoded) -> Rollouts:
        """The proposals, and nothing that the rules would have ruled out."""
        rows = decoded.proposals
        log_base = np.zeros((1, rows.shape[1], self.problem.num_chips), np.float32)
        return Rollouts(filled_rows(self.problem, self.units, rows), rows, log_base)


def measure_proposals(cell: Cell, study: StudyProblem) -> Record:
    """Learns as the cell's recipe says, and counts what is valid."""
    use_one_thread()
    from mcm_passes.families.ring.learning.learner import PolicyLearner

    assert isinstance(cell.method, Method)
    assert cell.method.recipe is not None
    start_s = time.process_time()
    problem, recipe, rng = study.problem, cell.method.recipe, np.random.default_rng(cell.seed)
    task = _task(problem, recipe, study.baseline_s)
    learner = PolicyLearner(recipe, initial_weights(recipe.layout, int(rng.integers(1 << 31))))
    source, target = dependency_edges(problem)
    rewards: list[Floats] = []
    backward: list[Floats] = []
    for _ in range(cell.method.samples // recipe.rollouts):
        found = learner.iterate(task, rng)
        rewards.append(found.rewards)
        chips = found.partitions
        backward.append((chips[:, source] > chips[:, target]).mean(axis=1))
    shares = np.concatenate(backward)
    return {
        "nodes": task.features.num_nodes,
        "dependencies": len(source),
        "samples": len(shares),
        "valid": int((np.concatenate(rewards) > 0).sum()),
        "backward_first": float(shares[:ENDS].mean()),
        "backward_last": float(shares[-ENDS:].mean()),
        "cpu_s": time.process_time() - start_s,
    }


def _task(problem: PartitionProblem, recipe: Recipe, baseline_s: float) -> Task:
    task = Task.of(problem, recipe, fast_rewards(problem, baseline_s))
    return dataclasses.replace(task, sampler=ProposalsAsTheyAre(problem, task.features.units))
