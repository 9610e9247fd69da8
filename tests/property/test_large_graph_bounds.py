"""Bounds for graphs of any size against brute force, and against what collects all ancestors."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.mapping.bound_checks.bound_checks import units_do_not_pack
from mcm_passes.mapping.bound_checks.chain_check import chain_does_not_fit
from mcm_passes.mapping.bounds import articulation, bounds
from mcm_passes.mapping.bounds.articulation import articulation_units_by_sweep
from mcm_passes.mapping.bounds.packing import indivisible_work
from tests.generators import partition_problems


def _edges(edges):
    return np.array(sorted(edges), dtype=np.int32).reshape(-1, 2)


def make_problem(compute_s, edges, chips=3, clonable=()):
    """As much of a problem as these bounds look at: every edge is a tensor of its own."""
    pairs = _edges(edges)
    return SimpleNamespace(
        num_units=len(compute_s),
        num_chips=chips,
        compute_s=np.array(compute_s, dtype=np.float64),
        clonable=np.isin(np.arange(len(compute_s)), list(clonable)),
        chip_speed=np.ones(chips),
        tensor_producer=pairs[:, 0],
        tensor_ptr=np.arange(len(pairs) + 1),
        tensor_consumers=pairs[:, 1],
    )


@st.composite
def graphs(draw, most=9):
    n = draw(st.integers(1, most))
    density = draw(st.integers(0, 2))
    edges = [(u, v) for v in range(n) for u in range(v) if draw(st.integers(0, 2)) <= density]
    return draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)), edges


def related(n, edges):
    """`[n, n]`, whether a path leads from one unit to the other, or they are the same."""
    leads = np.eye(n, dtype=bool)
    for u, v in sorted(edges, key=lambda edge: edge[1]):
        leads[:, v] |= leads[:, u]
    return leads


@given(graphs())
@settings(max_examples=200)
def test_articulation_units_are_all_units_that_every_other_one_is_related_to(graph):
    compute, edges = graph
    n = len(compute)
    leads = related(n, edges)
    sources = [v for v in range(n) if not leads[:v, v].any()]
    sinks = [u for u in range(n) if not leads[u, u + 1 :].any()]
    assume(len(sources) == len(sinks) == 1)
    expected = [v for v in range(n) if (leads[v] | leads[:, v]).all() and compute[v] > 0]
    heavy, loose, rest = articulation_units_by_sweep(make_problem(compute, edges))
    assert heavy.tolist() == [compute[v] for v in expected]
    ends = [-1, *expected, n]
    between = [sum(compute[a + 1 : b]) for a, b in itertools.pairwise(ends)]
    if expected:
        assert [*loose.tolist(), rest] == between


@given(graphs())
@settings(max_examples=100)
def test_articulation_units_among_several_beginnings_are_related_to_what_is_counted(graph):
    compute, edges = graph
    heavy, loose, rest = articulation_units_by_sweep(make_problem(compute, edges))
    counted = heavy.sum() + loose.sum() + rest
    assert counted <= sum(compute)
    leads = related(len(compute), edges)
    around = (leads | leads.T) @ np.array(compute, dtype=float)
    # As many units as articulation units have at least that much work before and after them.
    assert int(((around >= counted - 1e-9) & (np.array(compute) > 0)).sum()) >= heavy.size


def best_packing(sizes, chips):
    loads = [
        max(sum(s for s, c in zip(sizes, choice, strict=True) if c == k) for k in range(chips))
        for choice in itertools.product(range(chips), repeat=len(sizes))
    ]
    return min(loads)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 3))
@settings(max_examples=100)
def test_indivisible_work_is_below_the_best_packing(sizes, chips):
    problem = make_problem([float(s) for s in sizes], [], chips)
    best = best_packing(sizes, chips)
    bound = indivisible_work(problem, sum(sizes) / chips)
    assert bound.seconds <= best * (1 + 1e-9)
    assert units_do_not_pack(problem, bound.seconds * (1 - 1e-8))
    assert not units_do_not_pack(problem, best * (1 + 1e-12))


def test_units_of_one_size_pack_as_whole_ones():
    """Nine units on four chips: one of them has three, whatever the total says."""
    problem = make_problem([1.0] * 9, [], chips=4)
    assert indivisible_work(problem, 9 / 4).seconds == pytest.approx(3.0, rel=1e-6)


def test_sizes_that_fill_up_gaps_leave_nothing_to_prove():
    problem = make_problem([1.0] * 8 + [1e-6] * 1000, [], chips=4)
    assert indivisible_work(problem, problem.compute_s.sum() / 4).seconds == 0.0


def fastest(compute, edges, chips):
    """The shortest period of all placements along the edges, skipped chips or not."""
    best = sum(compute)
    for choice in itertools.product(range(chips), repeat=len(compute)):
        if all(choice[u] <= choice[v] for u, v in edges):
            loads = np.bincount(choice, weights=compute, minlength=chips)
            best = min(best, float(loads.max()))
    return best


@given(graphs(most=6), st.integers(1, 3), st.booleans())
@settings(max_examples=60)
def test_chains_are_never_above_the_best_placement(graph, chips, swept):
    compute, edges = graph
    problem = partition_problems.make_problem(compute, edges, chips=chips)
    assert len(dependency_edges(problem)[0]) == len(edges)
    limit = bounds.MAX_CLOSURE_UNITS
    bounds.MAX_CLOSURE_UNITS = 0 if swept else limit
    try:
        found = bounds.chain_of_units(problem).seconds
    finally:
        bounds.MAX_CLOSURE_UNITS = limit
    best = fastest(compute, edges, chips) * 1e-6
    assert found <= best * (1 + 1e-9)
    if found > 0.0:
        assert chain_does_not_fit(problem, found * (1 - 1e-8))
    assert not chain_does_not_fit(problem, best * (1 + 1e-9) + 1e-15)


def test_sweeping_reads_every_edge_a_few_times_only(monkeypatch):
    """Every source that is tried costs one pass over the edges, however many there are."""
    passes = []
    reachable = articulation._reachable
    monkeypatch.setattr(
        articulation,
        "_reachable",
        lambda start, *rest: passes.append(start.size) or reachable(start, *rest),
    )
    n = 3000
    edges = [(u, u + 1) for u in range(n - 1)] + [(u, u + 2) for u in range(100, n - 2)]
    heavy, _, _ = articulation_units_by_sweep(make_problem([1.0] * n, edges))
    # A skip connection hides no articulation unit: all units follow each other.
    assert heavy.size == n
    assert passes == [len(edges)] * 2
