"""Records with arrays that nobody may change stay what they are in other processes."""

from __future__ import annotations

import copy
import pickle

import numba
import pytest

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from tests.generators.partition_problems import make_problem

COPIES = {
    "pickled": lambda problem: pickle.loads(pickle.dumps(problem)),
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
}


def kinds_of(problem: PartitionProblem) -> list[numba.types.Type]:
    """The types that kernels are compiled for."""
    known = AnalyticPeriods(problem)
    return [numba.typeof(known.model.arrays), numba.typeof(known.rules)]


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_takes_the_kernels_of_its_original(how: str) -> None:
    problem = make_problem([3, 5, 2], [(0, 1), (1, 2), (0, 2)], chips=2)
    wanted = kinds_of(problem)
    again = COPIES[how](problem)
    assert not again.compute_s.flags.writeable
    assert kinds_of(again) == wanted
    with pytest.raises(ValueError, match="read-only"):
        again.compute_s[0] = 1.0
