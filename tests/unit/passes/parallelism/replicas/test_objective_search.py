"""Tests for the search over numbers of pipelines under an objective."""

import pytest

from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.diagnostics import CompileError
from mcm_passes.parallelism.replicas.objective_search import solve_objective
from tests.generators.partition_problems import make_problem


def _unused(problem, count, objective):
    raise AssertionError("nothing is searched where no number of pipelines has room")


@pytest.mark.parametrize("numbers", [(1,), (2,), (1, 2, 4)])
def test_what_has_no_room_in_any_number_of_pipelines_is_told(numbers):
    problem = make_problem([1.0], [], chips=4, weights=[(10_000, [0])], sram=2_000)
    with pytest.raises(CompileError) as caught:
        solve_objective(problem, Objective(max_latency_s=1.0), numbers, _unused)
    assert {d.code for d in caught.value.diagnostics} <= {"MCM-P003", "MCM-P004", "MCM-P005"}
