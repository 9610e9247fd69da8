"""Trees and loads against paths that are followed one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.fabrics.fabric import (
    EAST,
    NORTH,
    SOUTH,
    WEST,
    Fabric,
    MappingProblem,
    Mappings,
)
from mcm_compiler.contracts.fabrics.legality import faults_of_mapping, faults_of_problem
from mcm_passes.families.fabric.routing_trees import flip, move, routed, tables_of
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import as_mapping, legal_mappings, small_fabric


def path(fabric: Fabric, start: int, end: int, turn: int) -> list[int]:
    """Links from one switch to another, followed step by step."""
    row, col = divmod(start, fabric.cols)
    goal_row, goal_col = divmod(end, fabric.cols)
    links = []
    for along_row in (turn == 0, turn == 1):
        while along_row and col != goal_col:
            links.append(4 * (row * fabric.cols + col) + (EAST if col < goal_col else WEST))
            col += 1 if col < goal_col else -1
        while not along_row and row != goal_row:
            links.append(4 * (row * fabric.cols + col) + (SOUTH if row < goal_row else NORTH))
            row += 1 if row < goal_row else -1
    return links


def trees(problem: MappingProblem, fabric: Fabric, mapping: Mappings) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(problem.num_streams)]
    for stream, leaf in zip(problem.stream_of_leaf, problem.leaf, strict=True):
        home = fabric.switch[mapping.site[0, problem.source[stream]]]
        goal = fabric.switch[mapping.site[0, leaf]]
        found[stream] |= set(path(fabric, int(home), int(goal), int(mapping.turn[0, stream])))
    return found


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_loads_are_those_of_paths_followed_one_by_one(seed: int) -> None:
    problem, fabric = drawn_problem(seed), small_fabric(6, 6)
    mapping = legal_mappings(problem, fabric, 1, np.random.default_rng(seed))
    assert faults_of_problem(problem, fabric) == []
    tables = tables_of(problem, fabric)
    state = routed(tables, mapping)
    load = np.zeros_like(state.load)
    for stream, links in enumerate(trees(problem, fabric, mapping)):
        load[mapping.turn[0, stream], list(links)] += problem.flits[stream]
    np.testing.assert_array_equal(state.load, load)


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_moves_and_flips_change_loads_to_those_of_the_new_mapping(seed: int) -> None:
    problem, fabric = drawn_problem(seed), small_fabric(6, 6)
    rng = np.random.default_rng(seed)
    tables = tables_of(problem, fabric)
    state = routed(tables, legal_mappings(problem, fabric, 1, rng))
    for _ in range(30):
        unit = int(rng.integers(problem.num_units))
        if rng.random() < 0.3:
            flip(tables, state, int(rng.integers(problem.num_streams)))
        else:
            move(tables, state, unit, int(rng.choice(fabric.of_kind(int(problem.kind[unit])))))
    mapping = as_mapping(state)
    assert faults_of_mapping(problem, fabric, mapping) == []
    for incremental, anew in zip(state, routed(tables, mapping), strict=True):
        np.testing.assert_array_equal(incremental, anew)


def test_a_move_is_undone_by_the_move_back() -> None:
    problem, fabric = drawn_problem(3, stages=4), small_fabric(6, 6)
    rng = np.random.default_rng(0)
    tables = tables_of(problem, fabric)
    state = routed(tables, legal_mappings(problem, fabric, 1, rng))
    for unit in range(problem.num_units):
        before = [array.copy() for array in state]
        home = int(state.site[unit])
        for place in fabric.of_kind(int(problem.kind[unit])):
            move(tables, state, unit, int(place))
            move(tables, state, unit, home)
        for old, new in zip(before, state, strict=True):
            np.testing.assert_array_equal(old, new)
