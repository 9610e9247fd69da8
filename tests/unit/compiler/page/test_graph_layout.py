import numpy as np
import pytest

from mcm_compiler.page.graph_view import NODE_HEIGHT, NODE_WIDTH, drawing_of


def random_graph(seed, nodes):
    rng = np.random.default_rng(seed)
    destinations = np.repeat(np.arange(1, nodes), rng.integers(0, 4, nodes - 1))
    sources = (rng.random(destinations.size) * destinations).astype(np.int64)
    return sources, destinations


@pytest.mark.parametrize("seed", range(6))
def test_no_two_boxes_overlap_and_all_lie_inside(seed):
    sources, destinations = random_graph(seed, 300)
    x, y, width, height = drawing_of(300, sources, destinations)
    across, down = np.abs(x[:, None] - x), np.abs(y[:, None] - y)
    overlap = (across < NODE_WIDTH) & (down < NODE_HEIGHT)
    assert not overlap[~np.eye(300, dtype=bool)].any()
    assert (x - NODE_WIDTH / 2).min() >= 0
    assert (x + NODE_WIDTH / 2).max() <= width
    assert (y - NODE_HEIGHT / 2).min() >= 0
    assert (y + NODE_HEIGHT / 2).max() <= height


@pytest.mark.parametrize("seed", range(6))
def test_data_flow_down_a_column_or_to_a_later_one(seed):
    sources, destinations = random_graph(seed, 300)
    x, y, _, _ = drawing_of(300, sources, destinations)
    down = y[destinations] > y[sources]
    on = x[destinations] > x[sources]
    assert (down | on).all()


def test_a_deep_model_has_the_shape_of_a_screen():
    nodes = 3000
    x, y, width, height = drawing_of(nodes, np.arange(nodes - 1), np.arange(1, nodes))
    assert 1 < width / height < 3
    assert len(set(zip(x.tolist(), y.tolist(), strict=True))) == nodes


def test_a_constant_stands_right_before_what_reads_it():
    # A chain of ten, and one more that only the last reads.
    sources, destinations = np.array([*range(8), 8]), np.array([*range(1, 9), 9])
    sources, destinations = np.append(sources, 10), np.append(destinations, 11)
    sources, destinations = np.append(sources, 9), np.append(destinations, 11)
    x, y, _, _ = drawing_of(12, sources, destinations)
    assert abs(y[10] - y[9]) < 1e-9
    assert abs(x[10] - x[9]) < 200


def test_nothing_is_nothing():
    assert drawing_of(0, np.zeros(0, np.int64), np.zeros(0, np.int64)).width == 0
