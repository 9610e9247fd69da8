from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.ring_rules import MAX_REPORTED, find_violations


def check(chip_of, edges, routing="strict", **options):
    source = np.array([u for u, _ in edges], dtype=np.int32)
    target = np.array([v for _, v in edges], dtype=np.int32)
    chips = np.array(chip_of, dtype=np.int32)
    return find_violations(chips, source, target, num_chips=4, routing=routing, **options)


def test_a_valid_placement_breaks_nothing():
    assert check([0, 0, 1, 2], [(0, 1), (1, 2), (2, 3)]) == []
    assert check([], []) == []


def test_parallel_branches_are_no_triangle():
    """0 -> 1 -> 3 beside 0 -> 2 -> 3: no direct dependency from 0 to 3."""
    assert check([0, 1, 2, 3], [(0, 1), (0, 2), (1, 3), (2, 3)]) == []


def test_a_long_edge_alone_is_no_triangle():
    assert check([0, 1, 2, 2], [(0, 2), (1, 3)]) == []


@pytest.mark.parametrize(
    ("chip_of", "edges", "rule", "chips", "words"),
    [
        ([1, 0], [(0, 1)], "acyclic", (1, 0), "'b' on chip 0 reads 'a' on chip 1"),
        ([0, 2], [(0, 1)], "no_skip", (1,), "chip 1 is empty and chip 2 is used"),
        ([0, 4], [(0, 1)], "range", (4,), "'b' is on chip 4, and there are 4 chips"),
        (
            [0, 1, 2],
            [(0, 1), (1, 2), (0, 2)],
            "triangle",
            (0, 1, 2),
            "'c' on chip 2 reads 'a' on chip 0 directly, and a longer path leads there "
            "through chip 1",
        ),
    ],
)
def test_each_rule_names_who_breaks_it(chip_of, edges, rule, chips, words):
    (violation,) = check(chip_of, edges, names=["a", "b", "c"])
    assert (violation.rule, violation.chips) == (rule, chips)
    assert words in violation.message


def test_relays_excuse_triangles_and_nothing_else():
    assert check([0, 1, 2], [(0, 1), (1, 2), (0, 2)], "relay") == []
    assert [v.rule for v in check([0, 2], [(0, 1)], "relay")] == ["no_skip"]


def test_memory_is_checked_where_the_demand_is_known():
    demand = np.array([5, 11, 0, 0])
    (violation,) = check([0, 1], [(0, 1)], demand_bytes=demand, limit_bytes=(10, 10, 10, 10))
    assert (violation.rule, violation.chips) == ("memory", (1,))
    assert violation.message == "chip 1 needs 11 bytes and has 10"


def test_names_from_models_are_quoted_and_lists_are_cut_short():
    edges = [(0, v) for v in range(1, 100)]
    found = check([1] + [0] * 99, edges, names=["\x1b[31m"] + ["b"] * 99)
    assert len(found) == MAX_REPORTED
    assert "\x1b" not in found[0].message
