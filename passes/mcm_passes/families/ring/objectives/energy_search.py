"""The partition that takes the least energy, by chains of order ideals or along orders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Ints, LowerBound, PartitionProblem
from mcm_compiler.text.units import count_text
from mcm_passes.families.ring.exact.ideal_chain import SLACK
from mcm_passes.families.ring.exact.ideal_dp import ChainOptimum, IdealLattice
from mcm_passes.families.ring.exact.ideals import offer_chains
from mcm_passes.families.ring.exact.triangle_readings import TriangleReading
from mcm_passes.families.ring.objectives.label_search import LabelLattice
from mcm_passes.families.ring.order_encoding.incumbent import Incumbent
from mcm_passes.mapping.problem.order_ideals import OrderIdeals
from mcm_passes.mapping.problem.rule_graph import RuleGraph, rule_graph
from mcm_passes.mapping.problem.topological_orders import topological_orders

PROOF = "energy_chains"

ORDERS = 4
"""Orders whose beginnings are tried where a graph has too many ideals."""


@dataclass(frozen=True)
class Effort:
    """What a search may look at: most ideals, and most windows between two of them."""

    ideals: int
    windows: int


def least_energy_of(known: Incumbent, problem: PartitionProblem, effort: Effort) -> str:
    """Improves a partition and a bound on the energy.

    Where a graph has too many ideals, the beginnings of some orders stand for them, which proves
    nothing.

    Args:
        known: what there is, and what comes.
        problem: with its `energy`. Bounds hold for what every memory plan needs at least.
        effort: what may be looked at.

    Returns:
        Why there is no partition; empty where the search says nothing of that.
    """
    if known.must_stop() or known.closed(SLACK):
        return ""

    def least(of: LabelLattice, reading: TriangleReading) -> ChainOptimum:
        return of.least(reading, known.period_s, effort.windows)

    lattice = LabelLattice.of(problem.at_need(), effort.ideals)
    if lattice is not None:
        found, _ = offer_chains(known, problem, lattice, least)
        if found is not None and found.complete:
            strict = problem.routing == "strict"
            return conclude(known, found, lattice, PROOF, strict=strict, worse="more is taken by")
    graph = rule_graph(problem)
    if graph.num_nodes < effort.ideals:
        for order in topological_orders(problem, ORDERS):
            if not known.must_stop():
                beginnings = LabelLattice(problem, beginnings_of(graph, order.units))
                offer_chains(known, problem, beginnings, least)
    return ""


def conclude(
    known: Incumbent,
    found: ChainOptimum,
    lattice: IdealLattice,
    proof: str,
    *,
    strict: bool,
    worse: str = "slower are",
    within: str = "",
) -> str:
    """Takes note of what all chains show; why there is no partition, or empty.

    Args:
        known: receives the bound.
        found: of all chains, the triangle rule left out.
        lattice: the ideals.
        proof: the kind of proof.
        strict: whether the triangle rule holds.
        worse: says that chains are not below the bound.
        within: the limit on latencies, in words.
    """
    chains = f"chains of {count_text(lattice.count, 'order ideal')}"
    if found.chip_of is None and known.chip_of is None:
        known.exhausted = True
        in_time = f" and answers {within}" if within else ""
        return f"none exists: none of all {chains} fits memory and rules{in_time}"
    # No chain is below what is known by more than rounding.
    value = min(found.value, known.period_s)
    optimal = value * (1.0 + 10.0 * SLACK) >= known.period_s
    argument = f"best of all {chains}" if optimal else f"{worse} all {chains}"
    argument += f" that answer {within}" if within else ""
    argument += ", the triangle rule left out" if strict else ""
    known.prove(LowerBound(value * (1.0 - 5.0 * SLACK), argument, proof))
    return ""


def beginnings_of(graph: RuleGraph, units: Ints) -> OrderIdeals:
    """The ideals that are beginnings of an order.

    Args:
        graph: of n nodes.
        units: `[n]`, the units of its nodes in that order.
    """
    n = graph.num_nodes
    order = graph.node_of(int(graph.units.max(initial=-1)) + 1)[units]
    members = np.zeros((n + 1, (n + 63) // 64), np.uint64)
    for k, node in enumerate(order.tolist()):
        members[k + 1] = members[k]
        members[k + 1, node >> 6] |= np.uint64(1) << np.uint64(node & 63)
    ptr = np.minimum(np.arange(n + 2), n).astype(np.int64)
    following = np.arange(1, n + 1, dtype=np.int32)
    return OrderIdeals(members, ptr, following, order.astype(np.int32))
