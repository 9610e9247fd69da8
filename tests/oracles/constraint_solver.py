"""The interactive constraint solver of MCM, section 4.2, and its two modes written on top of it.

This is the readable oracle that `BatchSolver`, which does the same by the thousand, is held
against: domains are any subsets of the chips, decisions come one by one and are taken back where
they lead nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_compiler.contracts.target import Routing
from mcm_passes.mapping.problem.rule_graph import RuleGraph

LOOK_AHEAD_STEPS = 2_000
"""Search steps after a decision in which it must be refuted, or it is let pass for the time."""

MAX_BACKTRACKS = 20_000
"""Decisions taken back in one run before the search starts over."""

MAX_RESTARTS = 5


@dataclass(frozen=True, eq=False)
class WeightMemory:
    """Memory of weights: a weight used on two chips is stored on both (MCM, Eq. 5).

    Attributes:
        weight_bytes: `[W]`.
        weight_ptr: `[W + 1]`, CSR of the nodes that use each weight.
        weight_users: likewise, nodes of the rule graph.
        limit_bytes: `[C]`.
    """

    weight_bytes: Longs
    weight_ptr: Longs
    weight_users: Ints
    limit_bytes: Longs


class NoPartitionError(Exception):
    """The domains admit no valid partition; this is proven."""


class SearchLimitError(Exception):
    """The search gave up; whether there is a valid partition remains open (see `nearest_chips`)."""


@dataclass
class ConstraintSolver:
    """Domains of all nodes, and the decisions that made them.

    Under the relay rule decisions on single chips are never regretted later. Under the strict rule
    (Eq. 4 of MCM in full) and with memory (Eq. 5) one may turn out to be impossible only after
    others; it is then taken back and its chips leave the domain.

    Attributes:
        graph: the rule graph, with pins in its domains.
        routing: the rule for long dependencies.
        memory: weights and the memory for them, or None to leave Eq. 5 out.
        look_ahead_steps: most steps of the search for a completion after each decision.
        backtracks: decisions taken back so far.
    """

    graph: RuleGraph
    routing: Routing = "relay"
    memory: WeightMemory | None = None
    look_ahead_steps: int = LOOK_AHEAD_STEPS
    backtracks: int = 0
    _domains: list[int] = field(default_factory=list[int])
    _decisions: list[tuple[int, int, list[int]]] = field(
        default_factory=list[tuple[int, int, list[int]]]
    )

    def __post_init__(self) -> None:
        """Starts without decisions.

        Raises:
            NoPartitionError: if there is no valid partition.
        """
        self._successors = [self.graph.after.row(u).tolist() for u in range(self.graph.num_nodes)]
        self._weights_of: list[list[int]] = [[] for _ in self._successors]
        if self.memory is not None:
            weights = np.repeat(
                np.arange(self.memory.weight_bytes.size), np.diff(self.memory.weight_ptr)
            )
            for w, u in zip(weights.tolist(), self.memory.weight_users.tolist(), strict=True):
                self._weights_of[u].append(w)
        self.reset()

    def reset(self) -> None:
        """Takes all decisions back.

        Raises:
            NoPartitionError: if there is no valid partition.
        """
        self._decisions.clear()
        low, high = self.graph.low.tolist(), self.graph.high.tolist()
        domains = [(2 << h) - (1 << a) if a <= h else 0 for a, h in zip(low, high, strict=True)]
        if not self._close(domains) or self._refuted(domains):
            raise NoPartitionError
        self._domains = domains

    def get_domain(self, u: int) -> tuple[int, ...]:
        """Chips that node `u` may still go to, ascending."""
        return _chips(self._domains[u])

    def set_domain(self, u: int, domain: Iterable[int]) -> int:
        """Decides that node `u` goes to one of the chips of `domain`.

        Where that leaves no partition the decision is not taken, and its chips leave the domain of
        `u`; where that leaves none either, earlier decisions are taken back in the same way.

        Args:
            u: the node.
            domain: chips; those that the domain of `u` does not hold are left out.

        Returns:
            The number of decisions in force, which is the index of the next decision: one more
            than before, the same, or lower after a backtrack.

        Raises:
            NoPartitionError: if nothing is left.
            ValueError: if no chip of `domain` is in the domain of `u`.
        """
        chosen = sum(1 << c for c in set(domain)) & self._domains[u]
        if not chosen:
            raise ValueError(f"node {u} can go to chips {self.get_domain(u)} only")
        narrowed = list(self._domains)
        narrowed[u] = chosen
        if self._close(narrowed) and not self._refuted(narrowed):
            self._decisions.append((u, chosen, self._domains))
            self._domains = narrowed
            return len(self._decisions)
        while True:
            self.backtracks += 1
            narrowed = list(self._domains)
            narrowed[u] &= ~chosen
            if self._close(narrowed) and not self._refuted(narrowed):
                self._domains = narrowed
                return len(self._decisions)
            if not self._decisions:
                raise NoPartitionError
            u, chosen, self._domains = self._decisions.pop()

    def _close(self, domains: list[int]) -> bool:
        """Propagates in place; False where that shows that there is no partition."""
        if 0 in domains:
            return False
        for u, successors in enumerate(self._successors):
            least = domains[u] & -domains[u]
            for v in successors:
                domains[v] &= -least
                if not domains[v]:
                    return False
        for u in range(len(domains) - 1, -1, -1):
            for v in self._successors[u]:
                domains[u] &= (1 << domains[v].bit_length()) - 1
            if not domains[u]:
                return False
        return (
            self._covers(domains)
            and (self.routing == "relay" or self._untangled(domains))
            and (self.memory is None or self._fits(domains, self.memory))
        )

    def _covers(self, domains: Sequence[int]) -> bool:
        """Whether each chip up to the highest lower bound can have a node of its own."""
        top = max((_lowest(d) for d in domains), default=-1)
        holder: dict[int, int] = {}

        def seat(chip: int, seen: set[int]) -> bool:
            for u, domain in enumerate(domains):
                if domain >> chip & 1 and u not in seen:
                    seen.add(u)
                    if u not in holder or seat(holder[u], seen):
                        holder[u] = chip
                        return True
            return False

        return all(seat(chip, set()) for chip in range(top + 1))

    def _untangled(self, domains: Sequence[int]) -> bool:
        """Whether the nodes with a single chip keep the triangle rule among themselves."""
        following = [0] * self.graph.num_chips
        for u, successors in enumerate(self._successors):
            if domains[u] & (domains[u] - 1):
                continue
            for v in successors:
                if not domains[v] & (domains[v] - 1) and domains[v] != domains[u]:
                    following[_lowest(domains[u])] |= domains[v]
        reach = [0] * self.graph.num_chips
        for c in range(self.graph.num_chips - 1, -1, -1):
            beyond = 0
            for s in _chips(following[c]):
                beyond |= reach[s]
            if beyond & following[c]:
                return False
            reach[c] = beyond | following[c]
        return True

    def _fits(self, domains: Sequence[int], memory: WeightMemory) -> bool:
        """Whether the weights of the nodes with a single chip fit."""
        stored = {
            (w, _lowest(domains[u]))
            for u, weights in enumerate(self._weights_of)
            if not domains[u] & (domains[u] - 1)
            for w in weights
        }
        free = memory.limit_bytes.tolist()
        for w, c in stored:
            free[c] -= int(memory.weight_bytes[w])
        return min(free) >= 0

    def _refuted(self, domains: list[int]) -> bool:
        """Whether a short search shows that closed domains have no completion."""
        if self.routing == "relay" and self.memory is None:
            return False
        return self._search(domains, [self.look_ahead_steps]) is False

    def _search(self, domains: list[int], steps: list[int]) -> bool | None:
        """Whether closed domains have a completion; None where the steps run out."""
        # The lowest undecided node next: all before it are decided, which settles most edges.
        u = next((i for i, d in enumerate(domains) if d & (d - 1)), None)
        if u is None:
            return True
        for c in _chips(domains[u]):
            if steps[0] == 0:
                return None
            steps[0] -= 1
            narrowed = list(domains)
            narrowed[u] = 1 << c
            if self._close(narrowed):
                found = self._search(narrowed, steps)
                if found is not False:
                    return found
        return False


def sample(
    solver: ConstraintSolver, weights: Floats, order: Ints, rng: np.random.Generator
) -> Ints:
    """SAMPLE (MCM, algorithm 1): each node in turn draws a chip of its domain.

    Args:
        solver: starts over.
        weights: `[n, C]`, non-negative; where all weights in a domain are 0 it is drawn from
            uniformly.
        order: `[n]`, order in which nodes are decided.
        rng: source of randomness.

    Returns:
        `[n]`, chips of a valid partition.

    Raises:
        NoPartitionError: if there is none.
        SearchLimitError: if the search gives up.
    """
    return fix(solver, None, weights, order, rng)


def fix(
    solver: ConstraintSolver,
    proposal: Ints | None,
    weights: Floats,
    order: Ints,
    rng: np.random.Generator,
) -> Ints:
    """FIX (MCM, algorithm 2): keeps proposed chips where domains allow, and samples the rest.

    Args:
        solver: as for `sample`.
        proposal: `[n]`, a chip for each node; None for SAMPLE.
        weights: likewise.
        order: likewise.
        rng: likewise.

    Returns:
        As `sample`.

    Raises:
        NoPartitionError: if there is none.
        SearchLimitError: if the search gives up.
    """
    n = order.size
    kept = 0 if proposal is None else n
    for _ in range(MAX_RESTARTS):
        solver.reset()
        start, index = solver.backtracks, 0
        while index < kept + n and solver.backtracks - start < MAX_BACKTRACKS:
            u = int(order[index % n])
            domain = solver.get_domain(u)
            if index < kept and proposal is not None:
                chip = int(proposal[u])
                index = solver.set_domain(u, (chip,) if chip in domain else domain)
                continue
            share = weights[u, list(domain)].astype(np.float64)
            share = share / share.sum() if share.sum() > 0 else None
            index = solver.set_domain(u, (int(rng.choice(domain, p=share)),))
        if index >= kept + n:
            return np.array([solver.get_domain(u)[0] for u in range(n)], np.int32)
    raise SearchLimitError


def _lowest(domain: int) -> int:
    return (domain & -domain).bit_length() - 1


def _chips(domain: int) -> tuple[int, ...]:
    return tuple(c for c in range(domain.bit_length()) if domain >> c & 1)
