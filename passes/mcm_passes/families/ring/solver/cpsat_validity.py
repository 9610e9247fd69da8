"""CP-SAT as the authority on validity: complete where propagation and sampling give up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints
from mcm_compiler.contracts.target import Routing
from mcm_passes.families.ring.solver.weight_memory import WeightMemory
from mcm_passes.mapping.problem.rule_graph import RuleGraph

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from mcm_passes.families.ring.order_encoding.order_literals import OrderLiterals

DETERMINISTIC_SECONDS = 60.0
"""Default effort per question, in the deterministic time of CP-SAT."""

_NO_LIMIT = 1 << 62

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


class RingAuthority:
    """The rules of a graph as a complete model, solved by CP-SAT on one thread, deterministically.

    In the order encoding (see `OrderLiterals`), so that an edge is a clause for each chip.

    Args:
        graph: with pins in its domains.
        routing: the rule for long dependencies.
        memory: weights and the memory for them, or None to leave Eq. 5 of MCM out.
        deterministic_seconds: effort per question, in the deterministic time of CP-SAT.
        order: literals of the graph's nodes, where more than `memory` limits them; the rules are
            added to their model.
        most_clauses: clauses of the triangle rule beyond which a part of it is left out.
    """

    def __init__(
        self,
        graph: RuleGraph,
        routing: Routing,
        memory: WeightMemory | None = None,
        deterministic_seconds: float = DETERMINISTIC_SECONDS,
        order: OrderLiterals | None = None,
        most_clauses: int = _NO_LIMIT,
    ) -> None:
        self._graph = graph
        self._seconds = deterministic_seconds
        self._possible = bool((graph.low <= graph.high).all())
        if not self._possible:
            return
        from mcm_passes.families.ring.order_encoding.chip_windows import ChipWindows
        from mcm_passes.families.ring.order_encoding.memory_constraints import (
            constrain_skips,
            constrain_triangles,
        )
        from mcm_passes.families.ring.order_encoding.order_literals import OrderLiterals

        if order is None:
            order = OrderLiterals(graph, None, ChipWindows(graph.low, graph.high))
        self._order, self._model = order, order.model
        constrain_skips(order, graph.num_nodes, both_ways=True)
        if routing == "strict":
            constrain_triangles(order, graph, most_clauses)
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
        for chip, free in zip(chips.tolist(), self._free(), strict=True):
            for c, literal in free:
                here = model.get_bool_var_from_proto_index(literal.index)
                model.add_bool_or([here if chip >= c else ~here])
        answer = self._solve(model)
        if not answer.proven:
            raise RuntimeError("CP-SAT did not decide on a partition within its effort")
        return answer.chips is not None

    def find_any(self) -> Answer:
        """Some valid partition, the lowest chips tried first."""
        if not self._possible:
            return Answer(None, True)
        self._model.clear_objective()
        self._hint(self._graph.low)
        return self._solve(self._model)

    def nearest(
        self, chips: Ints, weights: Floats | None = None, known: Ints | None = None
    ) -> Answer:
        """The valid partition with the least total weight of nodes that move.

        Among those one that moves them little.

        Args:
            chips: `[n]`, the wish, valid or not; also chips that do not exist.
            weights: `[n]`, non-negative; 1 each where None. Rounded to a millionth of the largest.
            known: `[n]`, a valid partition to start from, or None.
        """
        if not self._possible:
            return Answer(None, True)
        from mcm_passes.families.ring.order_encoding.order_literals import WeightedSum

        order, num_chips = self._order, self._graph.num_chips
        scale = np.ones(chips.size) if weights is None else weights
        whole = np.ones(chips.size, np.int64)
        if weights is not None:
            share = weights / max(weights.max(initial=0.0), 1e-300)
            whole = np.rint(share * _UNIT_WEIGHT).astype(np.int64)
        # The least weight outweighs all ways of all nodes.
        ways = self._graph.num_nodes * num_chips
        goal = WeightedSum()
        for v, (chip, weight) in enumerate(zip(chips.tolist(), whole.tolist(), strict=True)):
            # As differences: the relaxation of such a goal is that of a minimum cut.
            if order.may_be_on(v, chip):
                goal.add(order.since(v, chip), weight * (ways + 1))
                goal.add(order.since(v, chip + 1), -weight * (ways + 1))
            near = min(max(chip, 0), num_chips - 1)
            for c in range(1, num_chips):
                goal.add(order.since(v, c), 1 if c <= near else -1)
        self._model.maximize(goal.expression())
        self._hint(self._graph.low if known is None else known)
        answer = self._solve(self._model)
        if answer.chips is None:
            return answer
        return Answer(answer.chips, answer.proven, float(scale[answer.chips != chips].sum()))

    def _solve(self, model: cp_model.CpModel) -> Answer:
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        parameters = solver.parameters
        parameters.num_workers = 1
        parameters.random_seed = 1
        parameters.max_deterministic_time = self._seconds
        if model.has_objective():
            # Without skips and memory that is a minimum cut, whose relaxation is integral.
            parameters.linearization_level = 2
        # Long presolving gains nothing: most of the rules are clauses of two literals.
        parameters.cp_model_probing_level = 0
        parameters.symmetry_level = 0
        parameters.merge_at_most_one_work_limit = 0.0
        status = solver.solve(model)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            counts = [sum(solver.boolean_value(x) for _, x in free) for free in self._free()]
            found = (np.array(self._order.low) + counts).astype(np.int32)
            open_still = model.has_objective() and status != cp_model.OPTIMAL
            close = solver.best_objective_bound - solver.objective_value if open_still else 0.0
            return Answer(found, close < 1.0, 0.0)
        return Answer(None, status == cp_model.INFEASIBLE)

    def _free(self) -> Iterator[list[tuple[int, cp_model.IntVar]]]:
        """For each node the chips that it may be before or not, with the literals that say so."""
        order = self._order
        for v in range(self._graph.num_nodes):
            chips = range(order.low[v] + 1, order.high[v] + 1)
            literals = [order.since(v, c) for c in chips]
            yield list(zip(chips, cast("list[cp_model.IntVar]", literals), strict=True))

    def _hint(self, chips: Ints) -> None:
        self._model.clear_hints()
        for chip, free in zip(chips.tolist(), self._free(), strict=True):
            for c, literal in free:
                self._model.add_hint(literal, chip >= c)

    def _limit_memory(self, memory: WeightMemory) -> None:
        from mcm_passes.families.ring.order_encoding.order_literals import WeightedSum

        order = self._order
        totals = [WeightedSum() for _ in range(self._graph.num_chips)]
        for w, size in enumerate(memory.weight_bytes.tolist()):
            users = memory.weight_users[memory.weight_ptr[w] : memory.weight_ptr[w + 1]].tolist()
            for c, total in enumerate(totals):
                absent = [order.not_on(u, c) for u in users if order.may_be_on(u, c)]
                if absent:
                    total.add(order.at_least(f"weight {w} on {c}", *absent), size)
        for total, limit in zip(totals, memory.limit_bytes.tolist(), strict=True):
            self._model.add(total.expression() <= limit)
