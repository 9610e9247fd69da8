"""Clusters as a graph, against counting by hand."""

from __future__ import annotations

import numpy as np

from mcm_models.cluster_policy.cluster_graph import BINS, cluster_graph
from tests.generators.step_problems import random_box, random_step


def test_graph_of_clusters():
    rng = np.random.default_rng(8)
    box = random_box(rng)
    problem = random_step(rng, box, 40)
    label = np.unique(rng.integers(0, 4, problem.num_groups)[problem.together], return_inverse=True)
    label = label[1].astype(np.int32)
    count = label.max() + 1
    graph = cluster_graph(problem, box, label)
    sent, copies = np.zeros((count, count)), np.zeros((count, count))
    for v in range(problem.num_values):
        maker = problem.producer[v]
        readers = [
            n
            for n in range(40)
            if v in problem.reads[problem.read_begin[n] : problem.read_begin[n + 1]]
        ]
        if maker < 0:
            continue
        for to in {int(label[n]) for n in readers} - {int(label[maker])}:
            sent[label[maker], to] += problem.value_bytes[v]
            copies[label[maker], to] += 1
    np.testing.assert_allclose(graph.sent, sent)
    np.testing.assert_allclose(graph.copies, copies)
    for c in range(count):
        members = np.flatnonzero(label == c)
        for d in range(box.num_devices):
            may = members[problem.allowed[members, d]]
            np.testing.assert_allclose(graph.work[c, d], problem.time_s[may, box.kind_of[d]].sum())
        own = np.isin(problem.producer, members) & (problem.view_of < 0)
        assert graph.held[c] == problem.value_bytes[own & problem.stays].sum()
        assert graph.made[c] == problem.value_bytes[own & ~problem.stays].sum()
    fastest = np.where(problem.allowed, problem.time_s[:, box.kind_of], np.inf).min(axis=1)
    np.testing.assert_allclose(graph.profile.sum(), fastest.sum())
    assert graph.profile.shape == (count, BINS)
    longest = np.zeros(40)
    for n in range(40):
        before = [longest[a] for a, b in problem.edges.tolist() if b == n]
        longest[n] = fastest[n] + max(before, default=0.0)
    assert np.isclose(graph.critical_s, longest.max())
    assert sorted(graph.order.tolist()) == list(range(count))
