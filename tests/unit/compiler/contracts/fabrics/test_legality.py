"""Rules of problems and mappings: what keeps to all of them has no fault, each break has one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO, MEMORY, MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.legality import faults_of_mapping, faults_of_problem
from tests.generators.small_fabric import legal_mappings, small_fabric, small_problem


def changed(name: str, index: int, value: int) -> Callable[[MappingProblem], MappingProblem]:
    """A change of one number of one array."""

    def change(problem: MappingProblem) -> MappingProblem:
        array = getattr(problem, name).copy()
        array[index] = value
        return replace(problem, **{name: array})

    return change


def shorter(name: str) -> Callable[[MappingProblem], MappingProblem]:
    """An array without its last entry."""
    return lambda problem: replace(problem, **{name: getattr(problem, name)[:-1]})


def test_a_problem_that_keeps_to_all_rules_has_no_fault() -> None:
    assert faults_of_problem(small_problem(), small_fabric()) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (shorter("depth"), "depth has 6 entries for 7 units"),
        (shorter("flits"), "differ in number"),
        (changed("leaf_ptr", 1, 3), "counted wrongly"),
        (changed("kind", 2, 3), "kind of unit 2 is out of range"),
        (changed("op", 1, 12), "op of unit 1 is out of range"),
        (changed("stage", 6, 2), "stage of unit 6 is out of range"),
        (changed("firings", 2, 0), "firings of unit 2 is out of range"),
        (changed("firings", 1, 1), "firings of unit 1 is out of range"),
        (changed("cycles", 3, 0), "cycles of unit 3 is out of range"),
        (changed("burst", 3, 0), "burst of unit 3 is out of range"),
        (changed("depth", 1, -1), "depth of unit 1 is out of range"),
        (changed("depth", 2, 1), "depth of unit 2 is out of range"),
        (changed("memory_bytes", 0, 64), "memory_bytes of unit 0 is out of range"),
        (changed("source", 0, 7), "a source is no unit"),
        (changed("leaf", 0, -1), "a leaf is no unit"),
        (changed("flits", 4, 0), "stream 4 has no flits"),
        (changed("leaf", 2, 2), "a stream goes to a unit twice"),
        (changed("leaf", 5, 3), "unit 2 sends to unit 3 with no memory between"),
        (changed("stage", 1, 1), "unit 1 sends to unit 2 of a stage that is not after it"),
        (changed("stage", 6, 0), "unit 5 sends to unit 6 of a stage that is not after it"),
        (changed("stage", 3, 0), "stream 1 goes to compute units of the stages 0 and 1"),
        (changed("depth", 5, 0), "unit 5 receives, and holds no sample"),
        (changed("depth", 4, 1), "unit 4 has no stream that it needs"),
        (changed("memory_bytes", 4, (1 << 18) + 1), "unit 4 needs 262145 bytes, and a unit has"),
        (changed("flits", 1, 8 * 16 + 1), "reads 17 flits of stream 1 at once"),
    ],
)
def test_each_broken_rule_is_told(
    change: Callable[[MappingProblem], MappingProblem], fault: str
) -> None:
    faults = faults_of_problem(change(small_problem()), small_fabric())
    assert any(fault in text for text in faults), faults


def test_a_window_that_is_just_large_enough_is_no_fault() -> None:
    assert faults_of_problem(changed("flits", 1, 8 * 16)(small_problem()), small_fabric()) == []


def test_memory_that_sends_to_memory_of_its_own_stage_is_a_fault() -> None:
    """Two that send to each other would both wait for a whole sample."""
    faults = faults_of_problem(changed("leaf", 7, 4)(small_problem()), small_fabric())
    assert "unit 5 sends to unit 4 of a stage that is not after it" in faults


def test_a_problem_without_units_is_a_fault() -> None:
    problem = small_problem()
    arrays: dict[str, Any] = {
        name: value[:0] for name, value in vars(problem).items() if isinstance(value, np.ndarray)
    }
    assert faults_of_problem(replace(problem, **arrays), small_fabric()) == [
        "there are no units, or no streams"
    ]


def test_more_units_than_sites_are_a_fault() -> None:
    faults = faults_of_problem(small_problem(), small_fabric(1, 2))
    assert "2 compute units are needed, and there are 1" in faults
    assert "3 memory units are needed, and there are 1" in faults


@pytest.mark.parametrize("seed", range(5))
def test_units_on_sites_of_their_own_and_of_their_kind_are_legal(seed: int) -> None:
    problem, fabric = small_problem(), small_fabric()
    mappings = legal_mappings(problem, fabric, 50, np.random.default_rng(seed))
    assert faults_of_mapping(problem, fabric, mappings) == []


@pytest.mark.parametrize(
    ("array", "unit", "value", "fault"),
    [
        ("site", 2, -1, "unit 2 lies on site -1 of 18"),
        ("site", 2, 18, "unit 2 lies on site 18 of 18"),
        ("site", 2, 1, "unit 2 needs a site for compute, and 1 is one for memory"),
        ("site", 0, 0, "unit 0 needs a site for io, and 0 is one for compute"),
        ("turn", 3, 2, "stream 3 turns 2"),
        ("turn", 3, -1, "stream 3 turns -1"),
    ],
)
def test_each_illegal_mapping_is_told(array: str, unit: int, value: int, fault: str) -> None:
    problem, fabric = small_problem(), small_fabric()
    mappings = legal_mappings(problem, fabric, 3, np.random.default_rng(0))
    getattr(mappings, array)[2, unit] = value
    faults = faults_of_mapping(problem, fabric, mappings)
    assert any(fault in text for text in faults), faults


def test_two_units_on_one_site_are_told() -> None:
    problem, fabric = small_problem(), small_fabric()
    mappings = legal_mappings(problem, fabric, 3, np.random.default_rng(0))
    mappings.site[1, 3] = mappings.site[1, 2]
    faults = faults_of_mapping(problem, fabric, mappings)
    assert faults == [f"several units lie on site {mappings.site[1, 2]}"]


def test_arrays_of_another_shape_are_told() -> None:
    problem, fabric = small_problem(), small_fabric()
    good = legal_mappings(problem, fabric, 2, np.random.default_rng(0))
    fewer_units = Mappings(good.site[:, :-1], good.turn)
    assert "there are 7 units" in faults_of_mapping(problem, fabric, fewer_units)[0]
    fewer_streams = Mappings(good.site, good.turn[:, :-1])
    assert "there are 7 streams" in faults_of_mapping(problem, fabric, fewer_streams)[0]


def test_batches_are_taken_apart_and_put_together() -> None:
    problem, fabric = small_problem(), small_fabric()
    batch = legal_mappings(problem, fabric, 4, np.random.default_rng(1))
    again = Mappings.stacked([batch[i] for i in range(len(batch))])
    assert np.array_equal(again.site, batch.site)
    assert np.array_equal(again.turn, batch.turn)
    assert {COMPUTE, MEMORY, IO} == set(fabric.kind.tolist())


@pytest.mark.parametrize(("name", "kind"), [("site", "float64"), ("turn", "bool")])
def test_what_is_no_whole_number_is_told(name: str, kind: str) -> None:
    problem, fabric = small_problem(), small_fabric()
    drawn = legal_mappings(problem, fabric, 1, np.random.default_rng(0))
    wrong = replace(drawn, **{name: getattr(drawn, name).astype(kind)})
    (fault,) = faults_of_mapping(problem, fabric, wrong)
    assert f"{name}s are of the type {kind}" in fault
    assert faults_of_mapping(problem, fabric, replace(drawn, site=drawn.site.astype("u1"))) == []
