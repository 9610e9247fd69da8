"""CP-SAT as the authority on validity: complete where propagation and sampling give up."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from mcm_compiler.partition import Floats, Ints
from mcm_compiler.target import Routing
from mcm_passes.solver.rule_graph import RuleGraph
from mcm_passes.solver.weight_memory import WeightMemory

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

DETERMINISTIC_SECONDS = 60.0
"""Default effort per question, in the deterministic time of CP-SAT."""

_UNIT_WEIGHT = 1 << 20
"""Weights of a distance are rounded to whole numbers up to this."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What CP-SAT found.

    Attributes:
        chips: `[n]`, a valid partition, or None.
        proven: whether that is the final word: no partition exists where `chips` is None, and
            otherwise none is nearer. False where the effort did not suffice.
        distance: total weight of the nodes that moved; infinite without a partition, and 0 where
            nothing was wished for.
    """

    chips: Ints | None
    proven: bool
    distance: float = float("inf")


def nearest(
    graph: RuleGraph,
    routing: Routing,
    wish: Ints,
    *,
    weights: Floats | None = None,
    memory: WeightMemory | None = None,
    known: Ints | None = None,
    deterministic_seconds: float = DETERMINISTIC_SECONDS,
) -> Answer:
    """The valid partition of a rule graph with the least total weight of nodes that move.

    Args:
        graph: with pins in its domains.
        routing: the rule for long dependencies.
        wish: `[n]`, valid or not; also chips that do not exist.
        weights: `[n]`, non-negative; 1 each where None. Rounded to a millionth of the largest.
        memory: weights and the memory for them, or None to leave Eq. 5 of MCM out.
        known: `[n]`, a valid partition to start from, or None.
        deterministic_seconds: effort, in the deterministic time of CP-SAT.
    """
    authority = RingAuthority(graph, routing, memory, deterministic_seconds)
    return authority.nearest(wish, weights, known)


class RingAuthority:
    """The rules of a graph as a complete model, solved by CP-SAT on one thread, deterministically.

    In the order encoding: Booleans say that a node is on a chip or later, so that an edge is a
    clause for each chip. Under the strict rule Booleans stand for direct and longer paths between
    chips; only what follows from a placement is forced on them, and no pair may have both.
    """

    def __init__(
        self,
        graph: RuleGraph,
        routing: Routing,
        memory: WeightMemory | None = None,
        deterministic_seconds: float = DETERMINISTIC_SECONDS,
    ) -> None:
        from ortools.sat.python import cp_model

        self._graph = graph
        self._seconds = deterministic_seconds
        self._model = cp_model.CpModel()
        self._possible = bool((graph.low <= graph.high).all())
        if not self._possible:
            return
        model = self._model
        self._low, self._high = graph.low.tolist(), graph.high.tolist()
        self._yes, self._no = model.new_constant(1), model.new_constant(0)
        self._since = [
            [model.new_bool_var(f"{u}>={c}") for c in range(low + 1, high + 1)]
            for u, (low, high) in enumerate(zip(self._low, self._high, strict=True))
        ]
        self._on: list[list[cp_model.IntVar]] = []
        for u, since in enumerate(self._since):
            for earlier, later in pairwise(since):
                model.add_implication(later, earlier)
            self._on.append([self._is_on(u, c) for c in range(self._low[u], self._high[u] + 1)])
        source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.next_ptr))
        self._edges = list(zip(source.tolist(), graph.next_nodes.tolist(), strict=True))
        for u, v in self._edges:
            for c in range(max(self._low[u], self._low[v]) + 1, self._high[u] + 1):
                model.add_implication(self._from(u, c), self._from(v, c))
        self._leave_no_chip_empty()
        if routing == "strict":
            self._forbid_triangles()
        if memory is not None:
            self._limit_memory(memory)

    def is_valid(self, chips: Ints) -> bool:
        """Whether the model accepts a partition.

        Args:
            chips: `[n]`.

        Raises:
            RuntimeError: if the effort did not suffice.
        """
        inside = self._graph.low <= chips
        if not bool((inside & (chips <= self._graph.high)).all()):
            return False
        model = self._model.clone()
        model.add_bool_and(
            [
                model.get_bool_var_from_proto_index(self._on[u][c - self._low[u]].index)
                for u, c in enumerate(chips.tolist())
            ]
        )
        answer = self._solve(model)
        if not answer.proven:
            raise RuntimeError("CP-SAT did not decide on a partition within its effort")
        return answer.chips is not None

    def find_any(self) -> Answer:
        """Some valid partition, the lowest chips tried first."""
        if not self._possible:
            return Answer(None, True)
        model = self._model.clone()
        self._hint(model, self._graph.low)
        return self._solve(model)

    def nearest(
        self, chips: Ints, weights: Floats | None = None, known: Ints | None = None
    ) -> Answer:
        """The valid partition with the least total weight of nodes that move.

        Args:
            chips: `[n]`, the wish, valid or not; also chips that do not exist.
            weights: `[n]`, non-negative; 1 each where None. Rounded to a millionth of the largest.
            known: `[n]`, a valid partition to start from, or None.
        """
        if not self._possible:
            return Answer(None, True)
        scale = np.ones(chips.size) if weights is None else weights
        whole = np.rint(scale / max(scale.max(initial=0.0), 1e-300) * _UNIT_WEIGHT).astype(np.int64)
        model = self._model.clone()
        self._hint(model, self._graph.low if known is None else known)
        terms: list[cp_model.IntVar] = []
        factors: list[int] = []
        for u, c in enumerate(chips.tolist()):
            if self._low[u] <= c <= self._high[u]:
                # As a difference: the relaxation of such a goal is that of a minimum cut.
                for literal, sign in ((self._from(u, c), 1), (self._from(u, c + 1), -1)):
                    terms.append(model.get_int_var_from_proto_index(literal.index))
                    factors.append(sign * int(whole[u]))
        from ortools.sat.python import cp_model as cp

        model.maximize(cp.LinearExpr.weighted_sum(terms, factors))
        answer = self._solve(model)
        if answer.chips is None:
            return answer
        return Answer(answer.chips, answer.proven, float(scale[answer.chips != chips].sum()))

    def _solve(self, model: cp_model.CpModel) -> Answer:
        from ortools.sat.python import cp_model

        if not self._possible:
            return Answer(None, True)
        solver = cp_model.CpSolver()
        parameters = solver.parameters
        parameters.num_workers = 1
        parameters.random_seed = 1
        parameters.max_deterministic_time = self._seconds
        # Long presolving gains nothing here: most of the rules are clauses of two literals.
        parameters.cp_model_probing_level = 0
        parameters.symmetry_level = 0
        status = solver.solve(model)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            found = self._graph.low + np.array(
                [sum(map(solver.boolean_value, since)) for since in self._since], np.int32
            )
            return Answer(found, status == cp_model.OPTIMAL or not model.has_objective(), 0.0)
        return Answer(None, status == cp_model.INFEASIBLE)

    def _from(self, u: int, c: int) -> cp_model.IntVar:
        """Whether node u is on chip c or later."""
        if c <= self._low[u]:
            return self._yes
        return self._no if c > self._high[u] else self._since[u][c - self._low[u] - 1]

    def _is_on(self, u: int, c: int) -> cp_model.IntVar:
        """Whether node u, whose domain holds chip c, is there."""
        model, there, beyond = self._model, self._from(u, c), self._from(u, c + 1)
        if self._low[u] == self._high[u]:
            return self._yes
        on = model.new_bool_var(f"{u}@{c}")
        model.add_implication(on, there)
        model.add_implication(on, ~beyond)
        model.add_bool_or([on, ~there, beyond])
        return on

    def _hint(self, model: cp_model.CpModel, chips: Ints) -> None:
        for u, chip in enumerate(chips.tolist()):
            for c, literal in enumerate(self._since[u], self._low[u] + 1):
                model.add_hint(model.get_bool_var_from_proto_index(literal.index), chip >= c)

    def _leave_no_chip_empty(self) -> None:
        model, chips = self._model, self._graph.num_chips
        for c in range(chips - 1):
            here = [
                self._on[u][c - low]
                for u, (low, high) in enumerate(zip(self._low, self._high, strict=True))
                if low <= c <= high
            ]
            beyond = model.new_bool_var(f"beyond_{c}")
            for u in range(self._graph.num_nodes):
                if self._graph.next_ptr[u] == self._graph.next_ptr[u + 1]:
                    model.add_implication(self._from(u, c + 1), beyond)
            model.add_bool_or([~beyond, *here])

    def _forbid_triangles(self) -> None:
        """The chip triangle (MCM, Eq. 4) over the graph of chips."""
        model, chips = self._model, self._graph.num_chips
        pairs = [(a, b) for a in range(chips) for b in range(a + 1, chips)]
        direct = {pair: model.new_bool_var(f"direct_{pair}") for pair in pairs}
        longer = {pair: model.new_bool_var(f"longer_{pair}") for pair in pairs}
        for u, v in self._edges:
            for a, x in enumerate(self._on[u], self._low[u]):
                for b, y in enumerate(self._on[v], self._low[v]):
                    if a < b:
                        model.add_bool_or([~x, ~y, direct[a, b]])
        for a, b in pairs:
            model.add_bool_or([~direct[a, b], ~longer[a, b]])
            for m in range(a + 1, b):
                step = ~direct[a, m]
                for rest in (direct[m, b], longer[m, b]):
                    model.add_bool_or([step, ~rest, longer[a, b]])

    def _limit_memory(self, memory: WeightMemory) -> None:
        model = self._model
        held: list[list[cp_model.LinearExprT]] = [[] for _ in range(self._graph.num_chips)]
        for w, size in enumerate(memory.weight_bytes.tolist()):
            users = memory.weight_users[memory.weight_ptr[w] : memory.weight_ptr[w + 1]].tolist()
            for c in range(self._graph.num_chips):
                there = [
                    self._on[u][c - self._low[u]]
                    for u in users
                    if self._low[u] <= c <= self._high[u]
                ]
                if len(there) == 1:
                    held[c].append(size * there[0])
                elif there:
                    stored = model.new_bool_var(f"stored_{w}_{c}")
                    for x in there:
                        model.add_implication(x, stored)
                    held[c].append(size * stored)
        for c, terms in enumerate(held):
            model.add(sum(terms) <= int(memory.limit_bytes[c]))
