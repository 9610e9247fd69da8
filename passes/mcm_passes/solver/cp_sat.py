"""CP-SAT as the authority on validity: complete where propagation and sampling give up."""

from __future__ import annotations

from dataclasses import dataclass
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
    """

    chips: Ints | None
    proven: bool


class RingAuthority:
    """The rules of a graph as a complete model, solved by CP-SAT on one thread, deterministically.

    For every node and chip a Boolean says that the node is there. Under the strict rule Booleans
    stand for direct and longer paths between chips; only what follows from a placement is forced
    on them, and no pair may have both.
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
        self._solver = cp_model.CpSolver()
        self._possible = bool((graph.low <= graph.high).all())
        if not self._possible:
            return
        model, chips = self._model, graph.num_chips
        self._on: list[dict[int, cp_model.IntVar]] = []
        self._chip = [
            model.new_int_var(int(a), int(b), f"chip_{u}")
            for u, (a, b) in enumerate(zip(graph.low, graph.high, strict=True))
        ]
        for u, chip in enumerate(self._chip):
            domain = range(int(graph.low[u]), int(graph.high[u]) + 1)
            on = {c: model.new_bool_var(f"on_{u}_{c}") for c in domain}
            model.add_exactly_one(on.values())
            model.add(sum(c * x for c, x in on.items()) == chip)
            self._on.append(on)
        source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.next_ptr))
        self._edges = list(zip(source.tolist(), graph.next_nodes.tolist(), strict=True))
        for u, v in self._edges:
            model.add(self._chip[u] <= self._chip[v])
        used = [model.new_bool_var(f"used_{c}") for c in range(chips)]
        for c in range(chips):
            there = [on[c] for on in self._on if c in on]
            model.add_bool_or([*there, used[c].negated()])
            for x in there:
                model.add_implication(x, used[c])
            if c:
                model.add_implication(used[c], used[c - 1])
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
        for chip, value in zip(self._chip, chips.tolist(), strict=True):
            model.add(model.get_int_var_from_proto_index(chip.index) == value)
        answer = self._solve(model)
        if not answer.proven:
            raise RuntimeError("CP-SAT did not decide on a partition within its effort")
        return answer.chips is not None

    def find_any(self) -> Answer:
        """Some valid partition."""
        return self._solve(self._model)

    def nearest(self, chips: Ints, weights: Floats | None = None) -> Answer:
        """The valid partition with the least total weight of nodes that move.

        Args:
            chips: `[n]`, the wish, valid or not; also chips that do not exist.
            weights: `[n]`, non-negative; 1 each where None. Rounded to a millionth of the largest.
        """
        if not self._possible:
            return Answer(None, True)
        scale = np.ones(chips.size) if weights is None else weights
        whole = np.rint(scale / max(scale.max(initial=0.0), 1e-300) * _UNIT_WEIGHT).astype(np.int64)
        model = self._model.clone()
        stays = [
            int(whole[u]) * model.get_bool_var_from_proto_index(self._on[u][c].index)
            for u, c in enumerate(chips.tolist())
            if c in self._on[u]
        ]
        model.maximize(sum(stays))
        return self._solve(model)

    def _solve(self, model: cp_model.CpModel) -> Answer:
        from ortools.sat.python import cp_model

        if not self._possible:
            return Answer(None, True)
        parameters = self._solver.parameters
        parameters.num_workers = 1
        parameters.random_seed = 1
        parameters.max_deterministic_time = self._seconds
        status = self._solver.solve(model)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            found = np.array([self._solver.value(chip) for chip in self._chip], np.int32)
            return Answer(found, status == cp_model.OPTIMAL or not model.has_objective())
        return Answer(None, status == cp_model.INFEASIBLE)

    def _forbid_triangles(self) -> None:
        """The chip triangle (MCM, Eq. 4) over the graph of chips."""
        model, chips = self._model, self._graph.num_chips
        pairs = [(a, b) for a in range(chips) for b in range(a + 1, chips)]
        direct = {pair: model.new_bool_var(f"direct_{pair}") for pair in pairs}
        longer = {pair: model.new_bool_var(f"longer_{pair}") for pair in pairs}
        for u, v in self._edges:
            for a, x in self._on[u].items():
                for b, y in self._on[v].items():
                    if a < b:
                        model.add_bool_or([x.negated(), y.negated(), direct[a, b]])
        for a, b in pairs:
            model.add_bool_or([direct[a, b].negated(), longer[a, b].negated()])
            for m in range(a + 1, b):
                step = direct[a, m].negated()
                for rest in (direct[m, b], longer[m, b]):
                    model.add_bool_or([step, rest.negated(), longer[a, b]])

    def _limit_memory(self, memory: WeightMemory) -> None:
        model = self._model
        held: list[list[cp_model.LinearExprT]] = [[] for _ in range(self._graph.num_chips)]
        for w, size in enumerate(memory.weight_bytes.tolist()):
            users = memory.weight_users[memory.weight_ptr[w] : memory.weight_ptr[w + 1]].tolist()
            for c in range(self._graph.num_chips):
                there = [self._on[u][c] for u in users if c in self._on[u]]
                if len(there) == 1:
                    held[c].append(size * there[0])
                elif there:
                    stored = model.new_bool_var(f"stored_{w}_{c}")
                    for x in there:
                        model.add_implication(x, stored)
                    held[c].append(size * stored)
        for c, terms in enumerate(held):
            model.add(sum(terms) <= int(memory.limit_bytes[c]))
