"""Rules, strategies and bounds against brute force on small random problems."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcm_compiler.partition import Budget, PartitionProblem
from mcm_compiler.ring_rules import find_violations
from mcm_compiler.target import PackageLimits
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.contiguous.contiguous_windows import windows_along
from mcm_passes.families.ring.contiguous.greedy import Greedy, chips_from_cuts
from mcm_passes.families.ring.fast_model import evaluate, period
from mcm_passes.partitioning import bounds
from mcm_passes.partitioning.rooms import aligned
from mcm_passes.partitioning.topological_orders import topological_orders

RNG = np.random.default_rng(0)


def make_problem(
    compute_us,
    edges,
    *,
    chips=3,
    routing="relay",
    host_io="any",
    clonable=(),
    weights=(),
    sram=1 << 20,
    tensor_bytes=100,
    relay_us=0.5,
    pins=(),
    link=1e9,
    speeds=(),
    stream=0.0,
    host_root=0.0,
    stream_root=0.0,
    forwarding="engine",
):
    """One output tensor per unit; units without producers read a graph input each."""
    n = len(compute_us)
    readers: list[set[int]] = [set() for _ in range(n)]
    for u, v in edges:
        readers[u].add(v)
    consumers = [sorted(mine) for mine in readers]
    reads = {v for _, v in edges}
    names, producer, to_host, rows = [], [], [], []
    for u in range(n):
        if u not in reads:
            names.append(f"in{u}")
            producer.append(-1)
            to_host.append(False)
            rows.append([u])
    for u in range(n):
        names.append(f"t{u}")
        producer.append(u)
        to_host.append(not consumers[u])
        rows.append(consumers[u])
    sizes = [tensor_bytes(i) if callable(tensor_bytes) else tensor_bytes for i in range(len(rows))]
    pinned = np.full(n, -1, dtype=np.int32)
    for u, c in pins:
        pinned[u] = c
    srams = sram if isinstance(sram, tuple) else (sram,) * chips
    return PartitionProblem(
        names=tuple(f"u{u}" for u in range(n)),
        members=tuple((f"u{u}",) for u in range(n)),
        compute_s=np.array(compute_us, dtype=np.float64) * 1e-6,
        clonable=np.isin(np.arange(n), list(clonable)),
        pinned_chip=pinned,
        tensor_names=tuple(names),
        tensor_bytes=np.array(sizes, dtype=np.int64),
        tensor_producer=np.array(producer, dtype=np.int32),
        tensor_ptr=np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64),
        tensor_consumers=np.array([v for r in rows for v in r], dtype=np.int32),
        tensor_to_host=np.array(to_host),
        relay_s=np.full(len(rows), relay_us * 1e-6),
        weight_names=tuple(f"w{i}" for i in range(len(weights))),
        weight_bytes=np.array([size for size, _ in weights], dtype=np.int64),
        weight_ptr=np.concatenate([[0], np.cumsum([len(us) for _, us in weights])]).astype(
            np.int64
        ),
        weight_users=np.array([u for _, us in weights for u in us], dtype=np.int32),
        limits=PackageLimits(
            chips,
            srams,
            link,
            1e-6,
            host_io,
            1e9,
            chip_speed=tuple(speeds),
            stream_bytes_per_s=stream,
            host_total_bytes_per_s=host_root,
            stream_total_bytes_per_s=stream_root,
            forwarding=forwarding,
        ),
        routing=routing,
    )


@st.composite
def problems(draw, max_units=6, chain=False):
    n = draw(st.integers(1, max_units))
    compute = draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    if chain:
        edges = [(u, u + 1) for u in range(n - 1)]
    else:
        edges = [(u, v) for v in range(n) for u in range(v) if draw(st.integers(0, 2)) == 0]
    # A source with at least two readers, none of which is clonable itself.
    clonable = []
    if not chain and draw(st.booleans()):
        first = [v for u, v in edges if u == 0]
        clonable = [0] if len(first) >= 2 else []
    weights = [
        (
            draw(st.integers(1, 900)),
            sorted(draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=3))),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    sizes = draw(st.lists(st.sampled_from([64, 1000, 9000]), min_size=2 * n, max_size=2 * n))
    chips = draw(st.integers(1, 4))
    speed = st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=chips, max_size=chips)
    host_io = draw(st.sampled_from(["any", "ends"]))
    return make_problem(
        compute,
        edges,
        chips=chips,
        speeds=draw(st.just([]) | speed),
        stream=draw(st.sampled_from([0.0, 0.0, 1e8, 1e9])),
        routing="relay" if chain else draw(st.sampled_from(["relay", "strict"])),
        host_io=host_io,
        forwarding=draw(st.sampled_from(["engine", "router"])) if host_io == "any" else "engine",
        clonable=clonable,
        weights=weights,
        sram=draw(st.sampled_from([2000, 40_000, 1 << 20])),
        tensor_bytes=lambda i: sizes[i],
        relay_us=draw(st.sampled_from([0.1, 3.0])),
        host_root=draw(st.sampled_from([0.0, 0.0, 2e8, 2e9])),
        stream_root=draw(st.sampled_from([0.0, 0.0, 1e8])),
    )


def best_period(problem, candidates=None):
    """Brute force over all placements of the units that are not clonable."""
    fixed = np.flatnonzero(~problem.clonable)
    best = float("inf")
    chips = range(min(problem.num_chips, len(fixed)))
    for choice in candidates or itertools.product(chips, repeat=len(fixed)):
        chip_of = np.zeros(problem.num_units, dtype=np.int32)
        chip_of[fixed] = choice
        best = min(best, period(problem, chip_of))
    return best


@given(problems())
@settings(max_examples=60, deadline=None)
def test_no_bound_exceeds_the_optimum(problem):
    best = best_period(problem.at_need())
    for argument in (
        bounds.heaviest_unit,
        bounds.total_work,
        bounds.host_transfers,
        bounds.work_around_a_unit,
        bounds.chain_of_units,
        bounds.tensors_too_large_to_cross,
        bounds.streamed_weights,
        bounds.lower_bound,
    ):
        assert argument(problem).seconds <= best * (1 + 1e-9), argument.__name__


@given(problems())
@settings(max_examples=100, deadline=None)
def test_strategies_return_valid_partitions_that_no_bound_contradicts(problem):
    bound = bounds.lower_bound(problem).seconds
    for strategy in (Greedy(), ContiguousDp()):
        outcome = strategy.solve(problem, lambda f: period(problem, f), RNG, Budget())
        if outcome.chip_of is None:
            assert outcome.reason
            continue
        result = evaluate(problem, outcome.chip_of)
        assert result.valid
        assert result.period_s >= bound * (1 - 1e-9)


@given(problems(max_units=7, chain=True))
@settings(max_examples=60, deadline=None)
def test_dp_is_optimal_on_chains(problem):
    best = best_period(problem)
    found = ContiguousDp().solve(problem, lambda f: period(problem, f), RNG, Budget())
    if found.chip_of is None:
        # Along an order memory is an upper estimate, so a tight fit can be missed.
        assert best == float("inf") or min(problem.limits.sram_bytes) < 40_001
    elif min(problem.limits.sram_bytes) >= 1 << 20:
        np.testing.assert_allclose(period(problem, found.chip_of), best, rtol=2e-6)
    else:
        assert period(problem, found.chip_of) >= best * (1 - 1e-9)


@given(problems())
@settings(max_examples=60, deadline=None)
def test_dp_finds_the_best_cuts_of_its_orders_where_memory_is_ample(problem):
    assume(min(problem.limits.sram_bytes) >= 1 << 20)
    # What several chips read from the host loads a channel that they share with each further one,
    # which no single window knows.
    readers = np.diff(problem.placed_readers.ptr)[problem.tensor_producer < 0]
    assume(not problem.limits.host_total_bytes_per_s or int(readers.max(initial=0)) <= 1)
    best, least = float("inf"), float("inf")
    for order in topological_orders(problem, ContiguousDp().orders):
        n = order.units.size
        for k in range(min(problem.num_chips, n)):
            for inner in itertools.combinations(range(1, n), k):
                chip_of = chips_from_cuts(problem, order.units, np.array([0, *inner, n]))
                period_s = period(problem, chip_of)
                least = min(least, period_s)
                if problem.routing != "strict" or spans_one_chip(problem, chip_of):
                    best = min(best, period_s)
    found = ContiguousDp().solve(problem, lambda f: period(problem, f), RNG, Budget())
    found_s = period(problem, found.chip_of) if found.chip_of is not None else float("inf")
    # Under the strict rule cuts that are not adjacent are tried where those that are do not do.
    assert found_s <= best * (1 + 2e-6)
    assert found_s >= least * (1 - 2e-6)


def spans_one_chip(problem, chip_of):
    for t, u in enumerate(problem.tensor_producer):
        if u < 0 or problem.clonable[u]:
            continue
        readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        if any(chip_of[v] > chip_of[u] + 1 for v in readers):
            return False
    return True


@given(problems())
@settings(max_examples=60, deadline=None)
def test_orders_are_topological_and_complete(problem):
    for order in topological_orders(problem, 4):
        assert sorted(order.units.tolist()) == np.flatnonzero(~problem.clonable).tolist()
        position = {int(u): i for i, u in enumerate(order.units)}
        for t, u in enumerate(problem.tensor_producer.tolist()):
            for v in problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]:
                assert u not in position or position[u] < position[int(v)], order.name


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_memory_along_an_order_is_never_less_than_the_fast_models(problem, random):
    order = topological_orders(problem, 1)[0].units
    n = order.size
    k = random.randint(0, min(problem.num_chips, n) - 1)
    cuts = [0, *sorted(random.sample(range(1, n), k)), n]
    chip_of = chips_from_cuts(problem, order, np.array(cuts))
    assume(problem.routing == "relay" or spans_one_chip(problem, chip_of))
    assume(not problem.streams)
    w = windows_along(problem, order)
    exact = evaluate(problem, chip_of).memory_bytes
    for c, (j, i) in enumerate(itertools.pairwise(cuts)):
        items = sum(
            w.items.held[e]
            for e in range(w.items.ptr[j], w.items.ptr[i])
            if w.items.following[e] >= i
        )
        passing = sum(
            w.read.live[e]
            for e in range(w.read.live.size)
            if w.read.other[e] < j and e >= w.read.ptr[i]
        )
        inside = sum(
            w.read.live[e] for e in range(w.read.ptr[j], w.read.ptr[i]) if w.read.other[e] >= j
        )
        live = min(w.live_bytes[j:i].max() - passing, inside)
        packed = aligned(np.ceil(w.chips.packing * live).astype(np.int64), w.chips.alignment)
        need = items + w.outputs.held[j:i].sum() + packed
        need += w.cuts.arriving[j] + w.cuts.leaving[i]
        assert need >= exact[c]


@st.composite
def placed_graphs(draw):
    n = draw(st.integers(1, 6))
    edges = [(u, v) for v in range(n) for u in range(v) if draw(st.booleans())]
    chip_of = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    return n, edges, chip_of


@given(placed_graphs())
@settings(max_examples=300, deadline=None)
def test_rules_agree_with_their_definitions(graph):
    _, edges, chip_of = graph
    quotient = {(chip_of[u], chip_of[v]) for u, v in edges if chip_of[u] != chip_of[v]}

    def longest(a, b, seen=()):
        lengths = [
            1 + longest(m, b, (*seen, a)) if m != b else 1
            for s, m in quotient
            if s == a and m not in seen
        ]
        return max((x for x in lengths if x > 0), default=-1000)

    broken = set()
    if any(chip_of[u] > chip_of[v] for u, v in edges):
        broken.add("acyclic")
    if set(chip_of) != set(range(max(chip_of) + 1)):
        broken.add("no_skip")
    if not broken and any(longest(a, b) > 1 for a, b in quotient):
        broken.add("triangle")
    source = np.array([u for u, _ in edges], dtype=np.int32)
    target = np.array([v for _, v in edges], dtype=np.int32)
    found = find_violations(
        np.array(chip_of, dtype=np.int32), source, target, num_chips=5, routing="strict"
    )
    assert {v.rule for v in found} == broken
    relayed = find_violations(
        np.array(chip_of, dtype=np.int32), source, target, num_chips=5, routing="relay"
    )
    assert {v.rule for v in relayed} == broken - {"triangle"}
