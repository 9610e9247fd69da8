from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mcm_hardware.event_graph.cycle_ratio import improve, maximum_cycle_ratio
from mcm_hardware.event_graph.graph import EventGraph
from mcm_hardware.event_graph.max_plus import busy_per_resource, start_times
from mcm_hardware.event_graph.service_order import Waits


def behind_a_kernel(count: int, each_s: float, first_s: float) -> EventGraph:
    """Activities of one resource, each `each_s`, that begin once another has run for `first_s`."""
    none = np.zeros(1, np.int64)
    before = np.arange(count + 1) - 1
    before[:2] = 0, count
    return EventGraph(
        2,
        np.minimum(np.arange(count + 1), 1),
        np.array([first_s, *[each_s] * count]),
        np.zeros(count + 1),
        np.array([count + 1]),
        np.minimum(np.arange(count + 2) // 2, 1),
        Waits(none, np.array([first_s]), none, np.zeros(1, np.bool_)),
        np.arange(count + 1),
        before,
        np.array([1, 1, *[0] * (count - 1)]),
        np.full(count + 1, -1),
        np.array([count]),
        np.zeros(count + 1, np.int64),
    )


def random_graph(rng: np.random.Generator) -> EventGraph:
    """Few resources, and waits that point backwards in (inference, order)."""
    count = int(rng.integers(2, 12))
    resource = rng.integers(0, 3, count)
    rows: list[list[tuple[int, float, int]]] = []
    for a in range(count):
        waits = [(int(rng.integers(0, a)), 0) for _ in range(int(rng.integers(0, 3))) if a > 0]
        waits += [(int(rng.integers(0, count)), int(rng.integers(1, 4))) for _ in range(2)]
        rows.append([(source, float(rng.random()), lag) for source, lag in waits])
    flat = [wait for row in rows for wait in row]
    before, lag = np.empty(count, np.int64), np.empty(count, np.int64)
    for a in range(count):
        same = [b for b in range(count) if resource[b] == resource[a]]
        place = same.index(a)
        before[a], lag[a] = same[place - 1], int(place == 0)
    return EventGraph(
        3,
        resource,
        rng.random(count),
        np.zeros(count),
        np.array([count]),
        np.cumsum([0, *map(len, rows)]),
        Waits(
            np.array([source for source, _, _ in flat], np.int64),
            np.array([seconds for _, seconds, _ in flat]),
            np.array([lags for _, _, lags in flat], np.int64),
            np.zeros(len(flat), np.bool_),
        ),
        np.arange(count),
        before,
        lag,
        np.full(count, -1),
        np.array([count - 1]),
        np.zeros(count, np.int64),
    )


def heaviest(graph: EventGraph) -> Fraction:
    """The greatest ratio of any simple cycle, by walking all of them in exact numbers."""
    arcs: list[list[tuple[int, Fraction, int]]] = []
    for a in range(len(graph.busy_s)):
        before = int(graph.before[a])
        arcs.append([(before, Fraction(graph.busy_s[before]), int(graph.before_lag[a]))])
        for w in range(graph.wait_ptr[a], graph.wait_ptr[a + 1]):
            waits = graph.waits
            arcs[a].append((int(waits.source[w]), Fraction(waits.seconds[w]), int(waits.lag[w])))
    best = Fraction(0)

    def walk(root: int, at: int, total: Fraction, lags: int, seen: frozenset[int]) -> None:
        nonlocal best
        for source, seconds, lag in arcs[at]:
            if source == root:
                best = max(best, (total + seconds) / (lags + lag))
            elif source > root and source not in seen:
                walk(root, source, total + seconds, lags + lag, seen | {source})

    for root in range(len(arcs)):
        walk(root, root, Fraction(0), 0, frozenset({root}))
    return best


def test_ratios_are_those_of_the_heaviest_of_all_cycles():
    rng = np.random.default_rng(7)
    for _ in range(150):
        graph = random_graph(rng)
        ratio, critical = maximum_cycle_ratio(graph, busy_per_resource(graph))
        assert ratio == pytest.approx(float(heaviest(graph)), rel=1e-12)
        assert 0 <= critical < len(graph.busy_s)


CHASES = [(1_000, 7e-8, 0.45), (10_000, 7e-8, 0.3), (30_000, 7e-8, 0.1), (30_000, 1 / 3, 0.3)]
"""Graphs on which rounding errors go around the cycle for ever."""


def equal_stages(each: int, slots: int, faster: list[float]) -> EventGraph:
    """Resources that serve equal activities, each a tiny share faster than the first, in a row.

    The first activity of a resource waits for the last of the one before, which waits until what
    it made `slots` inferences before was taken.
    """
    stages, count = len(faster), each * len(faster)
    one = np.resize([7.1e-8, 1.3e-7, 3.3e-8], each)
    busy = np.concatenate([one * (1 - share) for share in faster])
    before, lag = np.arange(count) - 1, np.zeros(count, np.int64)
    firsts = np.arange(stages) * each
    before[firsts], lag[firsts] = firsts + each - 1, 1
    waits = [(a, a - 1, busy[a - 1], 0) for a in firsts[1:]]
    waits += [(a - 1, a, 0.0, slots) for a in firsts[1:]]
    waiting, source, seconds, lags = (
        np.array(column) for column in zip(*sorted(waits), strict=True)
    )
    return EventGraph(
        stages,
        np.repeat(np.arange(stages), each),
        busy,
        np.zeros(count),
        np.array([count]),
        np.searchsorted(waiting, np.arange(count + 1)),
        Waits(source, seconds, lags, np.zeros(len(lags), np.bool_)),
        np.arange(count),
        before,
        lag,
        np.full(count, -1),
        np.array([count - 1]),
        np.zeros(count, np.int64),
    )


@pytest.mark.parametrize(
    ("each", "slots", "faster"),
    [
        (6_600, 1, [0.0, 1e-13]),
        (6_600, 2, [0.0, 1e-13]),
        (20_000, 2, [0.0, -1e-13, 3e-15]),
        (30_000, 1, [0.0, 1e-14, 1e-15, 0.0]),
    ],
)
def test_cycles_that_differ_by_less_than_rounding_do_not_take_thousands_of_sweeps(
    each, slots, faster
):
    graph = equal_stages(each, slots, faster)
    # It raises ArithmeticError where its sweeps do not suffice.
    ratio, critical = maximum_cycle_ratio(graph, busy_per_resource(graph))
    slowest = max(
        sum(map(Fraction, graph.busy_s[graph.resource == stage])) for stage in range(len(faster))
    )
    assert ratio == pytest.approx(float(slowest), rel=1e-12)
    assert 0 <= critical < len(graph.busy_s)


def test_values_beyond_a_grid_are_settled_on_a_coarser_one():
    # The wait of many seconds is hidden in the first inference, in which nothing waits for others.
    graph = behind_a_kernel(40, 1e-9, 1e-9)
    waits = graph.waits._replace(seconds=np.array([1e3]), lag=np.array([100_000]))
    ratio, critical = maximum_cycle_ratio(graph._replace(waits=waits), busy_per_resource(graph))
    assert ratio == pytest.approx(40e-9, rel=1e-9)
    assert critical > 0


@pytest.mark.parametrize(("count", "each_s", "share"), CHASES)
def test_the_ratio_is_that_of_chasing_on(count, each_s, share):
    graph = behind_a_kernel(count, each_s, count * each_s * share)
    ratio, _ = maximum_cycle_ratio(graph, busy_per_resource(graph))
    value, policy = start_times(graph, 1)[0], np.full(count + 1, -2)
    for _ in range(200):
        changed, _ = improve(graph, ratio, value, policy, 1e-14 * (ratio + float(value.max())))
        assert changed
    # What is left to improve is rounding: nothing rises by as much as a sum of so many may be off.
    before = value.copy()
    improve(graph, ratio, value, policy, 0.0)
    assert (value - before).max() <= count * np.finfo(float).eps * (ratio + float(value.max()))
