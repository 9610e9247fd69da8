"""Small rule graphs, and all their valid partitions by enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from tests.generators.rule_graphs import make_graph, random_graph
from tests.oracles.valid_partitions import valid_partitions


@pytest.fixture
def graph_of():
    return make_graph


@pytest.fixture
def all_valid():
    return valid_partitions


@pytest.fixture
def graphs():
    """Twenty random graphs of 2 to 6 nodes on 3 chips."""
    rng = np.random.default_rng(5)
    return [random_graph(rng, int(rng.integers(2, 7)), 3, rng.uniform(0.1, 0.7)) for _ in range(20)]
