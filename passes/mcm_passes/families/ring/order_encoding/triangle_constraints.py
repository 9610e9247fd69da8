"""The triangle rule (MCM, Eq. 4) on order literals, without asking for more than it says."""

from __future__ import annotations

import numpy as np

from mcm_passes.families.ring.order_encoding.order_literals import Literal, OrderLiterals, negated
from mcm_passes.mapping.problem.rule_graph import RuleGraph, closure

MOST_CLAUSES = 2_000_000
"""Clauses beyond which the part of the rule that needs them is left out."""


def constrain_triangles(
    order: OrderLiterals, graph: RuleGraph, most_clauses: int = MOST_CLAUSES
) -> bool:
    """Adds the rule, or as much of it as `most_clauses` allows.

    Returns:
        Whether the model asks for the whole rule; if not, what it proves of the period holds all
        the same, but its solutions may break the rule.
    """
    edges = list(zip(graph.sources.tolist(), graph.next_nodes.tolist(), strict=True))
    _forbid_detours_along_paths(order, graph, edges)
    spans = sum(
        (order.high[u] - order.low[u] + 1) * (order.high[v] - order.low[v] + 1) for u, v in edges
    )
    if spans + order.num_chips**3 > most_clauses:
        return False
    _forbid_longer_paths(order, edges)
    return True


def _forbid_detours_along_paths(
    order: OrderLiterals, graph: RuleGraph, edges: list[tuple[int, int]]
) -> None:
    """A unit on a path from u to v, beside an edge from u to v, is with u or with v.

    On a chip between theirs it would close a longer path beside the direct one. The rule follows
    from that of the quotient graph, but propagates at once.
    """
    ancestors, descendants = closure(graph)
    clauses = 0
    for u, v in edges:
        between = descendants[u] & ancestors[v]
        if not between.any():
            continue
        for w in np.flatnonzero(
            np.unpackbits(between.astype("<u8").view(np.uint8), bitorder="little")
        ).tolist():
            first = max(order.low[w], order.low[u] + 1)
            last = min(order.high[w], order.high[v] - 1)
            clauses += max(last - first + 1, 0)
            if clauses > MOST_CLAUSES:
                return
            for c in range(first, last + 1):
                order.clause(order.since(u, c), *order.not_on(w, c), negated(order.since(v, c + 1)))


def _forbid_longer_paths(order: OrderLiterals, edges: list[tuple[int, int]]) -> None:
    """No direct dependency between two chips beside a path over a third one."""
    direct: dict[tuple[int, int], Literal] = {}
    reach: dict[tuple[int, int], Literal] = {}
    for u, v in edges:
        for a in range(order.low[u], order.high[u] + 1):
            for b in range(max(order.low[v], a + 1), order.high[v] + 1):
                if (a, b) not in direct:
                    direct[a, b] = order.model.new_bool_var(f"direct {a} {b}")
                order.clause(direct[a, b], *order.not_on(u, a), *order.not_on(v, b))
    chips = range(order.num_chips)
    for a in reversed(chips):
        for b in chips[a + 1 :]:
            steps = [m for m in chips[a + 1 : b] if (a, m) in direct and (m, b) in reach]
            if not steps and (a, b) not in direct:
                continue
            # Over at least one chip between; forbidden beside a direct dependency.
            reach[a, b] = order.model.new_bool_var(f"reach {a} {b}")
            beside = [negated(direct[a, b])] if (a, b) in direct else []
            for literal in beside:
                order.clause(literal, reach[a, b])
            for m in steps:
                for literal in (reach[a, b], *beside):
                    order.clause(negated(direct[a, m]), negated(reach[m, b]), literal)
