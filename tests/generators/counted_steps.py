"""A small step, and an evaluator that counts: what placers that learn are tested on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepResults
from mcm_hardware.families.box.step_simulator import StepSimulator
from tests.generators.step_problems import random_box, random_step


@dataclass(frozen=True)
class Case:
    """A step, a box and its simulator."""

    problem: StepProblem
    box: Box
    evaluator: StepSimulator


def small_case() -> Case:
    rng = np.random.default_rng(2)
    box = random_box(rng)
    problem = random_step(rng, box, 30)
    return Case(problem, box, StepSimulator(problem, box, StepConditions()))


@dataclass
class CountedSeconds:
    """An evaluator whose time is the number of ops on each device, weighted."""

    weights: np.ndarray
    name: str = "counted"
    overflow: float = 0.0

    def evaluate(self, placements: np.ndarray) -> StepResults:
        devices = len(self.weights)
        counts = np.stack([(placements == d).sum(axis=1) for d in range(devices)], axis=1)
        seconds = counts @ self.weights
        none = np.zeros(counts.shape)
        full = np.full(len(placements), self.overflow)
        return StepResults(seconds, none.astype(np.int64), counts * self.weights, none, full)
