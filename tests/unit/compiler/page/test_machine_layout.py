import numpy as np
import pytest

from mcm_compiler.page.package_view import layout_of


def apart(places):
    return np.linalg.norm(places[:, None] - places[None], axis=2)


@pytest.mark.parametrize("devices", [3, 4, 36, 100])
@pytest.mark.parametrize("closed", [False, True])
def test_a_row_of_channels_turns_back_with_neighbours_one_apart(devices, closed):
    channels = [(i, i + 1) for i in range(devices - 1)] + ([(devices - 1, 0)] if closed else [])
    shape, places = layout_of(devices, channels)
    assert shape == "grid"
    assert np.allclose(np.linalg.norm(np.diff(places, axis=0), axis=1), 1)
    assert apart(places)[np.triu_indices(devices, 1)].min() >= 1
    assert np.ptp(places[:, 0]) < 9


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (4, 4), (3, 5), (6, 2)])
def test_a_grid_is_found_in_its_channels(rows, columns):
    count = rows * columns
    channels = [(i, i + 1) for i in range(count) if (i + 1) % columns]
    channels += [(i + columns, i) for i in range(count - columns)]
    shape, places = layout_of(count, [*channels, (-1, 0), (0, -1)])
    assert shape == "grid"
    assert places.tolist() == [[i % columns, i // columns] for i in range(count)]


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (3, 5), (2, 4), (6, 2)])
def test_a_torus_is_a_grid_as_well(rows, columns):
    place = [(r, c) for r in range(rows) for c in range(columns)]
    channels = []
    for a, (r, c) in enumerate(place):
        channels.append((a, place.index((r, (c + 1) % columns))))
        channels.append((a, place.index(((r + 1) % rows, c))))
    shape, places = layout_of(rows * columns, channels)
    assert shape == "grid"
    assert places.tolist() == [[c, r] for r, c in place]


@pytest.mark.parametrize("devices", [3, 9, 10, 36, 100])
def test_a_line_with_channels_both_ways_is_a_row_with_neighbours_one_apart(devices):
    ways = [(i, i + 1) for i in range(devices - 1)]
    shape, places = layout_of(devices, [*ways, *((b, a) for a, b in ways)])
    assert shape == "grid"
    assert np.allclose(np.linalg.norm(np.diff(places, axis=0), axis=1), 1)
    assert len({tuple(place) for place in places.tolist()}) == devices
    assert np.ptp(places[:, 0]) < 9


def test_anything_else_keeps_neighbours_near_and_others_apart():
    # Two cliques of five that one channel joins.
    cliques = [(a, b) for k in (0, 5) for a in range(k, k + 5) for b in range(k, k + 5) if a < b]
    shape, places = layout_of(10, [*cliques, (4, 5)])
    distance = apart(places)
    assert shape == "free"
    assert np.isfinite(places).all()
    assert distance[np.triu_indices(10, 1)].min() > 0.3
    assert distance[:5, :5].max() < distance[:4, 6:].min()


@pytest.mark.parametrize(("devices", "channels"), [(1, []), (2, [(0, 1)]), (5, []), (4, [(0, 2)])])
def test_odd_machines_have_distinct_places(devices, channels):
    places = layout_of(devices, channels).places
    assert places.shape == (devices, 2)
    assert np.isfinite(places).all()
    distance = apart(places)[np.triu_indices(devices, 1)]
    assert distance.min(initial=1.0) > 0.1


def test_channels_of_places_outside_do_not_matter():
    row = [(0, 1), (1, 2), (2, 3)]
    assert layout_of(4, [*row, (-1, 0), (3, -1), (-2, 2)]).shape == "grid"
