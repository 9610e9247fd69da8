"""The compiled forms of the loads against the plain evaluator that reads the table of demands."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.partition import IN_A_WEIGHT
from mcm_passes.mapping.loads.demand_table import Resource, demand_table
from mcm_passes.mapping.loads.reference import reference_loads
from mcm_passes.mapping.loads.ring_kernels import HELD, HOST_IN, HOST_OUT, LINK
from mcm_passes.partitioning import fast_kernels
from mcm_passes.partitioning.fast_model import evaluate, problem_arrays
from tests.property.test_exact_search import connected_problems


def forward_placement(problem, random):
    """Chips whose order is that of the units, so that all dependencies point forwards."""
    chips = sorted(random.randrange(problem.num_chips) for _ in range(problem.num_units))
    return np.array(chips, np.int32)


def with_views(problem, random):
    """The problem with some tensors as views of what their makers read."""
    alias = np.full(problem.tensor_bytes.size, -1, np.int32)
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        rows = np.repeat(np.arange(alias.size), np.diff(problem.tensor_ptr))
        read = rows[(problem.tensor_consumers == maker) & (rows < t)]
        if maker >= 0 and random.random() < 0.4:
            alias[t] = random.choice([IN_A_WEIGHT, *read.tolist()])
    touched = np.array([random.random() < 0.7 for _ in problem.tensor_consumers], np.bool_)
    single = np.array([random.random() < 0.7 for _ in problem.names], np.bool_)
    return dataclasses.replace(
        problem, tensor_alias=alias, tensor_touched=touched, one_kernel=single
    )


@given(connected_problems(), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=400, deadline=None)
def test_the_fast_model_counts_what_the_table_says(problem, at_need, random):
    problem = with_views(problem, random)
    if at_need:
        problem = problem.at_need()
    chip_of = forward_placement(problem, random)
    loads = reference_loads(problem, demand_table(problem), chip_of)
    measured = fast_kernels.measure(problem_arrays(problem), chip_of)
    found = {
        Resource.BUSY: measured.busy_s,
        Resource.LINK: measured.totals[LINK],
        Resource.HOST_IN: measured.totals[HOST_IN],
        Resource.HOST_OUT: measured.totals[HOST_OUT],
        Resource.WEIGHT: measured.weights,
        Resource.HELD: measured.totals[HELD],
        Resource.LIVE: measured.peak,
    }
    for resource in Resource:
        np.testing.assert_allclose(
            found[resource], loads[resource], rtol=1e-12, err_msg=resource.name
        )
    for row, unit in enumerate(np.flatnonzero(problem.clonable).tolist()):
        users = problem.clone_closure.row(unit)
        assert set(np.flatnonzero(measured.copies[row]).tolist()) == set(chip_of[users].tolist())
    fixed = ~problem.clonable
    assert (evaluate(problem, chip_of).chip_of[fixed] == chip_of[fixed]).all()
