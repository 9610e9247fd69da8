"""Models of placements are kept by problem and by class: neither answers for the other."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.families.ring.analytic.fast_model import FastModel, evaluate
from mcm_passes.families.ring.analytic.fast_periods import FastPeriods
from mcm_passes.mapping.machine.evaluation import MachineModel
from tests.acme_mesh.tests.random_meshes import mesh_case
from tests.generators.partition_problems import make_problem


@pytest.fixture
def of_mesh() -> PartitionProblem:
    problem = mesh_case(0).problem
    assert isinstance(MachineModel.of(problem), MachineModel)
    return problem


def test_a_machine_that_was_evaluated_is_still_refused_as_a_ring(of_mesh: PartitionProblem) -> None:
    with pytest.raises(ValueError, match="machine of family"):
        evaluate(of_mesh, np.zeros(of_mesh.num_units, np.int32))


def test_many_periods_of_a_machine_that_was_evaluated_are_refused(
    of_mesh: PartitionProblem,
) -> None:
    with pytest.raises(ValueError, match="machine of family"):
        FastPeriods(of_mesh)


def test_a_ring_that_was_evaluated_is_still_refused_as_a_machine() -> None:
    problem = make_problem([1, 2], [(0, 1)])
    assert FastModel.of(problem) is FastModel.of(problem)
    with pytest.raises(ValueError, match="placed on a ring"):
        MachineModel.of(problem)


def test_no_model_outlives_its_problem() -> None:
    problem = make_problem([1, 2], [(0, 1)])
    FastModel.of(problem)
    gone = weakref.ref(problem)
    del problem
    gc.collect()
    assert gone() is None
