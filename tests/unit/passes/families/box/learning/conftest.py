"""Small steps on which planners learn, JAX on one thread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepResults
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_hardware.families.box.step_simulator import StepSimulator
from tests.generators.step_problems import random_box, random_step

use_one_thread()


@dataclass(frozen=True)
class Case:
    """A step, a box and its simulator."""

    problem: StepProblem
    box: Box
    evaluator: StepSimulator


@pytest.fixture(scope="session")
def case() -> Case:
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
    left: int = 10**9

    def evaluate(self, placements: np.ndarray) -> StepResults:
        self.left -= len(placements)
        if self.left < 0:
            raise KeyboardInterrupt
        devices = len(self.weights)
        counts = np.stack([(placements == d).sum(axis=1) for d in range(devices)], axis=1)
        seconds = counts @ self.weights
        none = np.zeros(counts.shape)
        full = np.full(len(placements), self.overflow)
        return StepResults(seconds, none.astype(np.int64), counts * self.weights, none, full)


@pytest.fixture
def counted():
    return CountedSeconds
