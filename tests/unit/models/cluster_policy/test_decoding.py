"""Decoding: what is seen is what is there, and every placement keeps to the rules."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_models.cluster_policy.cluster_graph import BINS, ClusterGraph, cluster_graph
from mcm_models.cluster_policy.decoding import decode, scorer_of
from mcm_models.cluster_policy.layout import COLUMNS, ClusterLayout, initial_weights
from tests.generators.step_problems import random_box, random_step


@pytest.fixture(scope="module")
def graph() -> ClusterGraph:
    rng = np.random.default_rng(8)
    box = random_box(rng)
    problem = random_step(rng, box, 40)
    label = np.unique(problem.together % 6, return_inverse=True)[1].astype(np.int32)
    return cluster_graph(problem, box, label)


@pytest.fixture(scope="module")
def weights():
    found = initial_weights(ClusterLayout(width=5), 3)
    found["score"] *= 100
    return found


def seen_plainly(graph: ClusterGraph, devices: list[int], c: int, before: int, d: int):
    """Columns of one cluster and device, from their names."""
    unit = max(graph.ideal_s, graph.critical_s)
    on = [[j for j in range(len(devices)) if devices[j] == e] for e in range(len(graph.memory))]
    load = [sum(graph.work[j, e] for j in on[e]) for e in range(len(on))]
    work, fastest = graph.work[c, d], graph.work[c][graph.allowed[c]].min()
    slot = unit / BINS

    def crowd(e: int) -> float:
        have = sum((graph.profile[j] for j in on[e]), np.zeros(BINS))
        slower = graph.work[c, e] / fastest if fastest > 0 else 1.0
        both = have + slower * graph.profile[c]
        return (np.maximum(both - slot, 0).sum() - np.maximum(have - slot, 0).sum()) / unit

    def time(a: int, b: int, e: int, f: int) -> float:
        return graph.sent[a, b] / graph.rate[e, f] + graph.copies[a, b] * graph.latency[e, f]

    def moved(e: int) -> float:
        total = 0.0
        for f in range(len(on)):
            for j in on[f] if f != e else []:
                both = graph.sent[c, j] + graph.sent[j, c]
                count = graph.copies[c, j] + graph.copies[j, c]
                total += both / graph.rate[e, f] + count * graph.latency[e, f]
        return total / unit

    may = [e for e in range(len(on)) if graph.allowed[c, e]]
    exchanged = (graph.sent[c] + graph.sent[:, c]).sum()
    near = sum(graph.sent[c, j] + graph.sent[j, c] for j in on[d])
    leaves = sum(
        time(j, i, d, devices[i])
        for j in on[d]
        for i in range(len(devices))
        if devices[i] >= 0 and devices[i] != d
    )
    held = (sum(graph.held[j] for j in on[d]) + graph.held[c]) / graph.memory[d]
    made = (sum(graph.made[j] for j in on[d]) + graph.made[c]) / graph.memory[d]
    least = [graph.work[j][graph.allowed[j]].min() for j in range(len(devices))]
    place = graph.order.tolist().index(c)
    last = devices[graph.order[place - 1]] if place else -1
    return [
        work / unit,
        load[d] / unit,
        max(0, load[d] + work - graph.ideal_s) / unit,
        max(0, load[d] + work - max(load[e] for e in range(len(on)) if e != d)) / unit,
        crowd(d),
        crowd(d) - min(crowd(e) for e in may),
        near / exchanged if exchanged else 0,
        moved(d),
        moved(d) - min(moved(e) for e in may),
        leaves / unit,
        held,
        np.log1p(made),
        max(0, held - 0.8),
        fastest / work if work > 0 else 1,
        not on[d],
        d == last,
        before >= 0,
        d == before,
        graph.ideal_s / unit,
        np.log1p(graph.sent.sum() / graph.rate.min() / unit),
        1 / len(on),
        fastest / sum(least),
        sum(w for w, e in zip(least, devices, strict=True) if e < 0) / sum(least),
        np.log(len(devices)) / 5,
    ]


def test_columns_are_what_their_names_say(graph, weights):
    found = decode(graph, scorer_of(weights), 2, np.random.default_rng(1))
    clusters, count = graph.allowed.shape
    for k in range(2):
        devices = [-1] * clusters
        for s in range(2 * clusters):
            c = int(graph.order[s % clusters])
            before, devices[c] = devices[c], -1
            for d in range(count):
                expected = np.minimum(seen_plainly(graph, devices, c, before, d), 8.0)
                found_here = found.seen[k, s, d]
                for name, one, other in zip(COLUMNS, found_here, expected, strict=True):
                    assert one == pytest.approx(other, rel=1e-4, abs=1e-5), name
            devices[c] = int(found.chosen[k, s])
            assert graph.allowed[c, devices[c]]
        assert found.devices[k].tolist() == devices


def test_draws_follow_the_network(graph, weights):
    """The likeliest device is the one with the highest score of the network in NumPy."""
    found = decode(graph, scorer_of(weights), 1, np.random.default_rng(1), greedy=True)
    one = np.maximum(found.seen[0] @ weights["first"] + weights["first_bias"], 0)
    two = np.maximum(one @ weights["second"] + weights["second_bias"], 0)
    scores = (found.seen[0] @ weights["linear"] + two @ weights["score"])[..., 0]
    turn = np.tile(graph.order, 2)
    scores = np.where(graph.allowed[turn], scores, -np.inf)
    assert found.chosen[0].tolist() == scores.argmax(axis=1).tolist()
