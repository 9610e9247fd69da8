"""The compiled forms of the loads against the plain evaluator that reads the table of demands."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.partition import IN_A_WEIGHT
from mcm_passes.mapping.loads.demand_table import Resource, demand_table
from mcm_passes.mapping.machine.evaluation import MachineModel, evaluate
from tests.generators.partition_problems import connected_problems, forward_placement, make_problem
from tests.oracles.reference_loads import reference_loads
from tests.oracles.ring_channels import ring_channels


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


@st.composite
def problems_with_chained_clones(draw):
    """Clones that read clones, several units behind each, weights of theirs."""
    clones, others = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    n = clones + others
    edges = {(draw(st.integers(0, v - 1)), v) for v in range(1, clones)}
    edges |= {(u, draw(st.integers(clones, n - 1))) for u in range(clones)}
    pairs = [(u, v) for v in range(clones, n) for u in range(v)]
    edges |= set(draw(st.lists(st.sampled_from(pairs), max_size=6)))
    users = st.sets(st.integers(0, n - 1), min_size=1, max_size=3).map(sorted)
    return make_problem(
        draw(st.lists(st.integers(1, 9), min_size=n, max_size=n)),
        sorted(edges),
        chips=4,
        routing=draw(st.sampled_from(["relay", "strict"])),
        host_io=draw(st.sampled_from(["any", "ends"])),
        clonable=list(range(clones)),
        weights=draw(st.lists(st.tuples(st.integers(1, 900), users), max_size=3)),
        tensor_bytes=lambda i: (64, 1000, 9000)[i % 3],
    )


@given(
    connected_problems() | problems_with_chained_clones(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
@settings(max_examples=80)
def test_the_fast_model_counts_what_the_table_says(problem, at_need, random):
    problem = with_views(problem, random)
    if at_need:
        problem = problem.at_need()
    chip_of = forward_placement(problem, random)
    loads = reference_loads(problem, demand_table(problem), chip_of)
    measured = MachineModel.of(problem).loads(chip_of)
    channels = ring_channels(problem, measured.crossed)
    chips = problem.num_chips
    found = {
        Resource.BUSY: measured.busy_s,
        Resource.LINK: np.append(channels.links, 0)[:chips],
        Resource.HOST_IN: channels.host_in[:chips],
        # Of a package with further chips, the last one stands for all behind it.
        Resource.HOST_OUT: np.append(
            channels.host_out[: chips - 1], channels.host_out[chips - 1 :].sum()
        ),
        Resource.WEIGHT: measured.weights,
        Resource.HELD: measured.held,
        Resource.LIVE: measured.peak,
        **{
            shared: np.eye(1, chips)[0] * carried.sum()
            for shared, carried in (
                (Resource.HOST_ROOT_IN, channels.host_in),
                (Resource.HOST_ROOT_OUT, channels.host_out),
            )
        },
    }
    for resource in Resource:
        np.testing.assert_allclose(
            found[resource], loads[resource], rtol=1e-12, err_msg=resource.name
        )
    cost = evaluate(problem, chip_of)
    for row, unit in enumerate(np.flatnonzero(problem.clonable).tolist()):
        users = problem.clone_closure.row(unit)
        assert set(np.flatnonzero(cost.copies[row]).tolist()) == set(chip_of[users].tolist())
    fixed = ~problem.clonable
    assert (cost.chip_of[fixed] == chip_of[fixed]).all()
