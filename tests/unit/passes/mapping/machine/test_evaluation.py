"""Models of placements are kept by problem, and no longer than it."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from mcm_passes.mapping.machine.evaluation import MachineModel, evaluate, period
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from tests.acme_mesh.tests.random_meshes import mesh_case
from tests.generators.partition_problems import make_problem


def test_many_periods_of_a_mesh_are_those_of_its_evaluations() -> None:
    problem = mesh_case(0).problem
    rng = np.random.default_rng(0)
    rows = rng.integers(0, problem.num_chips, (20, problem.num_units)).astype(np.int32)
    rows[0] = 0
    found = AnalyticPeriods(problem, few=0).periods(rows)
    assert np.isfinite(found[0])
    assert found.tolist() == pytest.approx([period(problem, row) for row in rows])


def test_no_model_outlives_its_problem() -> None:
    problem = make_problem([1, 2], [(0, 1)])
    assert MachineModel.of(problem) is MachineModel.of(problem)
    assert evaluate(problem, np.zeros(2, np.int32)).valid
    gone = weakref.ref(problem)
    del problem
    gc.collect()
    assert gone() is None
