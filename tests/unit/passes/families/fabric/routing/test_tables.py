"""The arrays that kernels read."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import IO
from mcm_passes.families.fabric.routing_trees import tables_of
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import small_fabric


def test_each_unit_knows_its_streams_and_each_switch_its_sites() -> None:
    problem, fabric = drawn_problem(5), small_fabric(4, 6)
    grid, streams = tables_of(problem, fabric)
    for unit in range(problem.num_units):
        touching = set(streams.touching[streams.unit_ptr[unit] : streams.unit_ptr[unit + 1]])
        wanted = {
            stream
            for stream in range(problem.num_streams)
            if unit == problem.source[stream]
            or unit in problem.leaf[problem.leaf_ptr[stream] : problem.leaf_ptr[stream + 1]]
        }
        assert touching == wanted
    for site in range(fabric.num_sites):
        assert grid.site_at[fabric.kind[site], fabric.switch[site]] == site
    for kind in range(3):
        at = slice(grid.site_ptr[kind], grid.site_ptr[kind + 1])
        np.testing.assert_array_equal(grid.sites[at], fabric.of_kind(kind))


def test_io_units_load_channels_with_what_they_move() -> None:
    problem, fabric = drawn_problem(5), small_fabric(4, 6)
    streams = tables_of(problem, fabric).streams
    ends = [problem.flits[0], problem.flits[-1]]
    assert list(streams.io_flits[problem.kind == IO]) == ends
    assert streams.io_flits[problem.kind != IO].max() == 0
