"""The table of demands, the ways of tensors, and who needs the copies of clonable units."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.placements.ring_rules import (
    COLLECTED,
    EVERYWHERE,
    FORWARDED,
    FROM_HOST,
    HOST,
    TO_HOST,
    route_kinds,
)
from mcm_passes.mapping.loads.chip_demands import tensor_columns
from mcm_passes.mapping.loads.demand_table import Demand, Resource, Subject, Trigger, demand_table
from mcm_passes.mapping.loads.device_memory import streamed_weights
from tests.generators.partition_problems import make_problem
from tests.oracles.plain_routes import Route, route
from tests.oracles.reference_loads import reference_loads

CLONES = {"compute_us": [1, 1, 1, 1, 1], "edges": [(0, 1), (1, 2), (1, 4), (0, 3)]}


def test_copies_are_needed_by_units_behind_other_copies_too():
    problem = make_problem(**CLONES, clonable=[0, 1])
    rows = [problem.clone_closure.row(u).tolist() for u in range(5)]
    assert rows == [[2, 3, 4], [2, 4], [2], [3], [4]]
    inputs = np.flatnonzero(problem.tensor_producer < 0)
    assert problem.placed_readers.row(int(inputs[0])).tolist() == [2, 3, 4]


def test_a_weight_of_a_clone_is_stored_where_its_copies_are():
    problem = make_problem(**CLONES, clonable=[0, 1], weights=[(64, [1, 3])])
    assert problem.placed_weight_users.row(0).tolist() == [2, 3, 4]


def test_a_clone_that_nothing_reads_is_nowhere():
    problem = make_problem([1, 1], [], clonable=[0])
    assert problem.clone_closure.row(0).size == 0


@pytest.mark.parametrize(
    ("kind", "maker", "readers", "expected"),
    [
        (0, 1, [1], Route(stays=(1,))),
        (0, 1, [1, 3], Route(received=(3,), sent=(1,), crossed=(1, 2))),
        (FORWARDED, 1, [3], Route(received=(2, 3), sent=(1,), passed=(2,), crossed=(1, 2))),
        (TO_HOST, 1, [], Route(sent=(1,), exited=(1,))),
        (TO_HOST, 1, [2], Route(received=(2,), sent=(1, 1), crossed=(1,), exited=(1,))),
        (FROM_HOST | EVERYWHERE, HOST, [1, 2], Route(entered=(1, 2), received=(1, 2))),
        # The ends reach the host themselves; what is between does over the links.
        (FROM_HOST, HOST, [1, 2], Route(entered=(0,), received=(1, 2), crossed=(0, 1))),
        (FROM_HOST, HOST, [0, 4], Route(entered=(0, 4), received=(0, 4))),
        (FROM_HOST, HOST, [], Route()),
        (TO_HOST | COLLECTED, 2, [], Route(sent=(2,), crossed=(2, 3), exited=(4,))),
        (
            TO_HOST | COLLECTED | FORWARDED,
            1,
            [3],
            Route(received=(2, 3), sent=(1,), passed=(2,), crossed=(1, 2, 3), exited=(4,)),
        ),
        (
            TO_HOST | COLLECTED | FORWARDED,
            0,
            [1],
            Route(received=(1,), sent=(0, 0), crossed=(0,), exited=(0,)),
        ),
        (TO_HOST | COLLECTED | FORWARDED, 4, [], Route(sent=(4,), exited=(4,))),
    ],
)
def test_ways_along_the_ring(kind, maker, readers, expected):
    assert route(kind, maker, readers, end=4, num_chips=5) == expected


def test_what_clones_make_does_not_travel():
    problem = make_problem(**CLONES, clonable=[0, 1], host_io="ends")
    made_by_clones = np.isin(problem.tensor_producer, [0, 1])
    assert not (route_kinds(problem)[made_by_clones] & (FORWARDED | TO_HOST)).any()


def test_a_new_demand_counts_at_once_and_no_compiled_form_overlooks_it():
    problem = make_problem([1, 1], [(0, 1)], tensor_bytes=100)
    table = demand_table(problem)
    # Say, each link that a tensor crosses keeps the host busy for a byte.
    more = Demand(
        Subject.TENSOR, Trigger.CROSSED, Resource.HOST_OUT, np.ones_like(problem.tensor_bytes)
    )
    wider = dataclasses.replace(table, demands=(*table.demands, more))
    chip_of = np.array([0, 2], np.int32)
    before = reference_loads(problem, table, chip_of)
    after = reference_loads(problem, wider, chip_of)
    assert (after - before)[Resource.HOST_OUT].tolist() == [1, 1, 0]
    tensor_columns(table, 1)
    with pytest.raises(NotImplementedError, match="tensor crosses: HOST_OUT"):
        tensor_columns(wider, 1)


@pytest.mark.parametrize(
    ("needed", "sram", "streams", "expected"),
    [
        (100, 100, True, 0),
        (101, 100, False, -1),
        # One byte too little: it goes, and as much as both buffers take.
        (101, 100, True, 1 + 2 * 10),
        (100 + 60, 100, True, 60 + 2 * 10),
        (100 + 61, 100, True, -1),
    ],
)
def test_what_a_chip_streams_makes_room_for_its_buffers_too(needed, sram, streams, expected):
    assert _streamed(needed, sram, streams) == expected


@entry_njit
def _streamed(needed: int, sram: int, streams: bool) -> int:
    """Only kernels call it."""
    return streamed_weights(needed, 80, 10, sram, streams, 2)
