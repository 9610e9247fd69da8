"""All order ideals of a graph, with sets as Python's integers."""

from __future__ import annotations


def plain_ideals(graph, most):
    """Bitset of each ideal, and of each what holds one node more: `(ideal, node)`.

    None where there are more than `most`.
    """
    n = graph.num_nodes
    following = [graph.after.row(v).tolist() for v in range(n)]
    needs = [0] * n
    for v in range(n):
        for u in graph.before.row(v).tolist():
            needs[v] |= 1 << u
    index = {0: 0}
    sets = [0]
    ready = [[v for v in range(n) if not needs[v]]]
    covers = []
    at = 0
    while at < len(sets):
        covers.append([])
        for v in ready[at]:
            grown = sets[at] | 1 << v
            if grown not in index:
                index[grown] = len(sets)
                sets.append(grown)
                freed = [w for w in following[v] if not needs[w] & ~grown]
                ready.append([w for w in ready[at] if w != v] + freed)
            covers[at].append((index[grown], v))
        at += 1
        if len(sets) > most:
            return None
    return sets, covers
