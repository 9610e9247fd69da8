"""The bound on periods, against a count without arrays."""

from __future__ import annotations

import pytest

from mcm_compiler.contracts.fabrics.fabric import IO, Fabric, MappingProblem, bound_cycles
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import small_fabric, small_problem


def counted(problem: MappingProblem, fabric: Fabric) -> float:
    """The busiest unit, port or set of memory channels, stream by stream."""
    busy = [float(f * c) for f, c in zip(problem.firings, problem.cycles, strict=True)]
    outside = 0
    for unit in range(problem.num_units):
        arriving = leaving = 0
        for stream in range(problem.num_streams):
            flits = int(problem.flits[stream])
            ends = problem.leaf[problem.leaf_ptr[stream] : problem.leaf_ptr[stream + 1]]
            arriving += flits * int((ends == unit).sum())
            leaving += flits * int(problem.source[stream] == unit)
        busy += [arriving, leaving]
        if problem.kind[unit] == IO:
            outside += arriving + leaving
    return max(*busy, outside / max(fabric.num_channels, 1))


@pytest.mark.parametrize("seed", range(12))
def test_the_bound_is_that_of_the_busiest_part(seed: int) -> None:
    fabric = small_fabric(8, 8)
    problem = drawn_problem(seed)
    assert bound_cycles(problem, fabric) == counted(problem, fabric)


def test_the_bound_of_a_problem_by_hand() -> None:
    assert bound_cycles(small_problem(), small_fabric()) == 56
