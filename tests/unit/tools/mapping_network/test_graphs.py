"""Graphs are padded without changing what they say, and few shapes hold many of them."""

from __future__ import annotations

import numpy as np
import pytest
from mapping_network.graphs import GraphShape, buckets, padded

from tests.generators.network_graphs import drawn_graph


def test_rows_beyond_a_graph_are_nothing() -> None:
    small, large = drawn_graph(0, 4), drawn_graph(1, 6)
    batch = padded([small, large], large.shape)
    assert batch.units.shape[:2] == (2, 6)
    assert batch.is_unit.sum(axis=1).tolist() == [4, 6]
    assert batch.is_branch.sum(axis=1).tolist() == [8, 12]
    assert batch.is_pair.sum(axis=1).tolist() == [20, 30]
    assert np.array_equal(batch.units[0, :4], small.units)
    assert not batch.units[0, 4:].any()
    with pytest.raises(ValueError, match="does not fit"):
        padded([large], small.shape)


@pytest.mark.parametrize("count", [1, 3, 50])
def test_buckets_hold_their_graphs(count: int) -> None:
    rng = np.random.default_rng(0)
    shapes = [GraphShape(*(int(n) for n in rng.integers(1, 200, 4))) for _ in range(20)]
    found, bucket = buckets(shapes, count)
    assert len(found) <= count
    assert all(found[bucket[k]].holds(shape) for k, shape in enumerate(shapes))
