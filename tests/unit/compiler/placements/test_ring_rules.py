from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mcm_compiler.placements.ring_rules import MAX_REPORTED, find_violations, overflows


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
        (
            [1, 0],
            [(0, 1)],
            "acyclic",
            (1, 0),
            "'b' on chip 0 reads 'a' on chip 1, against the direction of the ring: "
            "f('a') = 1 > f('b') = 0",
        ),
        ([0, 2], [(0, 1)], "no_skip", (1, 2), "chip 1 is empty and chip 2 is used, by 'b'"),
        ([0, 4], [(0, 1)], "range", (4,), "'b' is on chip 4, and there are 4 chips"),
        (
            [0, 1, 2],
            [(0, 1), (1, 2), (0, 2)],
            "triangle",
            (0, 1, 2),
            "'c' on chip 2 reads 'a' on chip 0 directly, and a longer path leads there, "
            "chips 0 -> 1 -> 2: 'b' reads 'a', 'c' reads 'b'",
        ),
    ],
)
def test_each_rule_names_who_breaks_it(chip_of, edges, rule, chips, words):
    (violation,) = check(chip_of, edges, names=["a", "b", "c"])
    assert (violation.rule, violation.chips) == (rule, chips)
    assert violation.message == words


def test_a_triangle_has_two_paths_of_nodes_though_they_share_no_op():
    """Direct: n0 on chip 0 to n4 on chip 2. Longer: n1 to n2, then n3 (same chip) to n5."""
    chip_of = [0, 0, 1, 1, 2, 2]
    (violation,) = check(chip_of, [(0, 4), (1, 2), (3, 5)], names=[f"n{i}" for i in range(6)])
    assert violation.nodes == (0, 4)
    assert violation.chips == (0, 1, 2)
    assert violation.path == ((1, 2), (3, 5))
    assert violation.message.endswith("chips 0 -> 1 -> 2: 'n2' reads 'n1', 'n5' reads 'n3'")


@pytest.mark.parametrize("seed", range(20))
def test_triangles_are_those_of_the_definition(seed):
    """MCM, Eq. 4: a direct dependency between chips whose longest path has more than one hop."""
    rng = np.random.default_rng(seed)
    chip_of = [0, 1, 2, 3, *rng.integers(0, 4, 6).tolist()]
    edges = [(u, v) for u in range(10) for v in range(10) if chip_of[u] < chip_of[v]]
    edges = [edge for edge in edges if rng.random() < 0.15]
    hops = {(chip_of[u], chip_of[v]) for u, v in edges}
    longest = dict.fromkeys(hops, 1)
    for via in (1, 2):  # in ring order, so that paths over 1 are there when 2 joins them
        for a, b in [(a, b) for a in range(via) for b in range(via + 1, 4)]:
            if (a, via) in longest and (via, b) in longest:
                joined = longest[a, via] + longest[via, b]
                longest[a, b] = max(longest.get((a, b), 0), joined)
    found = check(chip_of, edges)
    assert {(v.chips[0], v.chips[-1]) for v in found} == {p for p in hops if longest[p] > 1}
    for violation in found:
        assert violation.nodes in edges
        assert set(violation.path) <= set(edges)
        assert len(violation.path) > 1
        steps = [(chip_of[u], chip_of[v]) for u, v in violation.path]
        assert steps == list(pairwise(violation.chips))


def test_a_long_path_is_cut_short_in_the_message_alone():
    chips = np.arange(12, dtype=np.int32)
    source = np.array([*range(11), 0], np.int32)
    target = np.array([*range(1, 12), 11], np.int32)
    found = find_violations(chips, source, target, num_chips=12, routing="strict")
    (violation,) = found
    assert violation.chips == tuple(range(12))
    assert len(violation.path) == 11
    assert "chips 0 -> 1 -> 2 -> 3 -> ... -> 11: node 1 reads node 0" in violation.message
    assert "7 more, node 11 reads node 10" in violation.message


def test_relays_excuse_triangles_and_nothing_else():
    assert check([0, 1, 2], [(0, 1), (1, 2), (0, 2)], "relay") == []
    assert [v.rule for v in check([0, 2], [(0, 1)], "relay")] == ["no_skip"]


def test_memory_is_checked_where_the_demand_is_known():
    demand = np.array([5, 11, 0, 0])
    (violation,) = overflows(np.array([0, 1]), demand, (10, 10, 10, 10))
    assert (violation.rule, violation.chips, violation.nodes) == ("memory", (1,), ())
    assert violation.message == "chip 1 needs 11 B (11 bytes) and has 10 B, 1 bytes too little"
    with pytest.raises(ValueError, match="2 limits for 4 chips"):
        overflows(np.array([0, 1]), demand, (10, 10))


def test_an_overflow_names_its_largest_contributors():
    brought = np.array([900, 100, 0, 400, 300])
    (violation,) = overflows(
        np.array([0, 1, 1, 1, 1]), np.array([900, 2048, 0, 0]), (1024,) * 4, brought, list("abcde")
    )
    assert violation.nodes == (3, 4, 1)
    assert violation.message == (
        "chip 1 needs 2.0 KiB (2,048 bytes) and has 1.0 KiB, 1,024 bytes too little; "
        "the largest there: 'd' with 400 B, 'e' with 300 B, 'b' with 100 B"
    )


def test_names_from_models_are_quoted_and_lists_are_cut_short():
    edges = [(0, v) for v in range(1, 100)]
    found = check([1] + [0] * 99, edges, names=["\x1b[31m"] + ["b"] * 99)
    assert len(found) == MAX_REPORTED
    assert "\x1b" not in found[0].message
