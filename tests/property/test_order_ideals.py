"""Order ideals, held against the plain way to list them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcm_passes.mapping.problem import order_ideals as order_ideals_module
from mcm_passes.mapping.problem.order_ideals import order_ideals
from mcm_passes.mapping.problem.rule_graph import from_edges
from tests.generators.rule_graphs import make_graph, random_graph
from tests.oracles.plain_ideals import plain_ideals


def check(graph, most):
    """The same ideals in the same order, or too many for both."""
    found, plain = order_ideals(graph, most), plain_ideals(graph, most)
    assert (found is None) == (plain is None)
    if found is None or plain is None:
        return None
    sets, covers = plain
    raw = found.members.astype("<u8").tobytes()
    size = 8 * found.members.shape[1]
    assert found.members.shape == (len(sets), (graph.num_nodes + 63) // 64)
    assert [int.from_bytes(raw[k * size : (k + 1) * size], "little") for k in range(len(sets))] == (
        sets
    )
    pairs = list(zip(found.covers.tolist(), found.cover_node.tolist(), strict=True))
    assert [pairs[a:b] for a, b in zip(found.cover_ptr, found.cover_ptr[1:], strict=False)] == (
        covers
    )
    return found


@given(st.integers(0, 1 << 30), st.integers(1, 12), st.floats(0.05, 0.9), st.integers(2, 600))
def test_same_as_the_plain_way(seed, nodes, density, most):
    check(random_graph(np.random.default_rng(seed), nodes, 4, density), most)


@given(st.integers(2, 40))
def test_the_limit_is_how_many_there_are(count):
    """Two chains side by side: an ideal for each pair of what has run of one and the other."""
    edges = [(u, u + 2) for u in range(2 * count - 2)]
    graph = make_graph(2 * count, edges, 4)
    assert check(graph, (count + 1) ** 2) is not None
    assert order_ideals(graph, (count + 1) ** 2 - 1) is None


@pytest.mark.parametrize("first", [1, 4])
def test_room_grows(monkeypatch, first):
    """More ideals than there is room for at first, over several words of bits."""
    monkeypatch.setattr(order_ideals_module, "FIRST_IDEALS", first)
    edges = [(u, u + 3) for u in range(147)] + [(u, u + 4) for u in range(0, 146, 9)]
    found = check(make_graph(150, edges, 4), 100_000)
    assert found is not None
    assert found.count > 10_000


def test_a_wide_front_is_too_many_at_once():
    """Thousands that are ready together have more subsets than there are limits."""
    star = from_edges(np.zeros(14_999, np.int64), np.arange(1, 15_000), 15_000, 4)
    assert order_ideals(star, 20_000) is None
    none = np.zeros(0, np.int64)
    assert order_ideals(from_edges(none, none, 15_000, 4), 20_000) is None


def test_no_nodes_have_one_ideal():
    found = check(make_graph(0, [], 4), 10)
    assert found is not None
    assert found.count == 1
