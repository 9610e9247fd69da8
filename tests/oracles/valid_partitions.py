"""All valid partitions of a rule graph by enumeration, and how SAMPLE chooses among them."""

from __future__ import annotations

from itertools import product


def valid_partitions(graph, max_span=None):
    """All assignments without backward edges, skipped chips, or edges longer than `max_span`."""
    n = graph.num_nodes
    edges = [(u, int(v)) for u in range(n) for v in graph.after.row(u)]
    found = []
    ranges = [range(lo, hi + 1) for lo, hi in zip(graph.low, graph.high, strict=True)]
    for f in product(*ranges):
        if set(f) != set(range(max(f) + 1)):
            continue
        if all(0 <= f[v] - f[u] <= (max_span if max_span is not None else n) for u, v in edges):
            found.append(f)
    return found


def exact_sample(partitions, order, weights):
    """Probability of each partition when SAMPLE decides nodes in `order`: Alg. 1 by definition."""
    exact = {}

    def decide(depth, left, probability):
        if depth == len(order):
            exact[left[0]] = probability
            return
        u = order[depth]
        domain = sorted({f[u] for f in left})
        total = sum(weights[u, c] for c in domain)
        for c in domain:
            share = probability * weights[u, c] / total
            decide(depth + 1, [f for f in left if f[u] == c], share)

    decide(0, partitions, 1.0)
    return exact
