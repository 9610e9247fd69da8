"""The network looks at a graph alone: neither padding nor numbering nor neighbours change it."""

from __future__ import annotations

import numpy as np
import pytest
from mapping_network.graphs import GraphShape, MappingGraph, padded
from mapping_network.layout import GLOBAL_COLUMNS, MappingLayout, initial_weights
from mapping_network.training import answers

from tests.generators.network_graphs import drawn_graph

LAYOUT = MappingLayout(width=8, rounds=2, head=8)
SHAPE = GraphShape(20, 40, 60, 90)


def _answers(first: MappingGraph, second: MappingGraph, scale: float = 30) -> np.ndarray:
    """`[2, 2]`; always of one shape, so that one program serves all tests."""
    weights = initial_weights(LAYOUT, 0)
    weights["head_last"] *= np.float32(scale)
    weights["head_linear"] *= np.float32(scale > 0)
    return np.asarray(answers(LAYOUT, weights, padded([first, second], SHAPE)))


def test_neighbours_change_nothing() -> None:
    graph = drawn_graph(0, 5)
    first = _answers(graph, drawn_graph(1, 7))
    second = _answers(drawn_graph(2, 18), graph)
    assert second[1] == pytest.approx(first[0], abs=1e-5)


def test_numbering_changes_nothing() -> None:
    graph = drawn_graph(2)
    order = np.random.default_rng(0).permutation(len(graph.op))
    place = np.argsort(order).astype(np.int32)
    other = graph._replace(
        op=graph.op[order],
        units=graph.units[order],
        source=place[graph.source],
        target=place[graph.target],
    )
    found = _answers(graph, other)
    assert found[1] == pytest.approx(found[0], abs=1e-5)


@pytest.mark.parametrize("part", ["units", "branches", "links", "pair_weight", "whole", "op"])
def test_everything_that_is_seen_counts(part: str) -> None:
    graph = drawn_graph(3)
    array = getattr(graph, part)
    changed = (array + 3) % 12 if part == "op" else array * np.float32(2)
    found = _answers(graph, graph._replace(**{part: changed}))
    assert np.abs(found[0] - found[1]).max() > 1e-4


def test_an_untrained_network_says_what_the_formula_says() -> None:
    graph = drawn_graph(4)
    found = _answers(graph, graph, scale=0)
    formula = GLOBAL_COLUMNS.index("logarithm of the formula")
    assert found[0, 0] == pytest.approx(graph.whole[formula])
    assert found[0, 1] == 0
