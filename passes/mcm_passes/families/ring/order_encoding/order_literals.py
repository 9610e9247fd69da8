"""The order encoding: Booleans that say "unit v is on chip c or later".

With them a tensor crosses the link after chip c if its last reader is on c + 1 or later and its
producer is not. This is a difference of two Booleans, and windows are constants.

Each trigger of the table of demands is written in order literals, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import numpy as np
from ortools.sat.python import cp_model

from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_compiler.placements.ring_rules import FORWARDED, TO_HOST
from mcm_passes.families.ring.order_encoding.chip_windows import ChipWindows
from mcm_passes.mapping.loads.chip_demands import ChipDemands
from mcm_passes.mapping.loads.demand_table import Trigger
from mcm_passes.mapping.problem.rule_graph import RuleGraph

Literal = cp_model.LiteralT
"""A Boolean variable, its negation, or a constant `bool`."""


def negated(literal: Literal) -> Literal:
    """The opposite of a literal."""
    return (not literal) if isinstance(literal, bool) else ~literal


class WeightedSum:
    """A linear sum over literals, while it is collected.

    Attributes:
        constant: the part that is known.
    """

    def __init__(self, constant: int = 0) -> None:
        self.constant = constant
        self._terms: list[tuple[Literal, int]] = []

    def add(self, literal: Literal, weight: int) -> None:
        """Adds `weight` where the literal holds."""
        if isinstance(literal, bool):
            self.constant += weight * literal
        elif weight:
            self._terms.append((literal, weight))

    @property
    def most(self) -> int:
        """An upper limit of the sum."""
        return self.constant + sum(weight for _, weight in self._terms if weight > 0)

    def expression(self) -> cp_model.LinearExpr:
        """The sum for the solver."""
        literals = [literal for literal, _ in self._terms]
        weights = [weight for _, weight in self._terms]
        total = cp_model.LinearExpr.weighted_sum(literals, weights)
        return total + self.constant


class OrderLiterals:
    """A CP-SAT model with the chips of all nodes, closed under the edges.

    Without demands there are no tensors to speak of.

    Attributes:
        model: the solver's model, to which more is added.
        num_chips: chips of the package.
        used: for a chip, whether some node is on it or later.
        needed: for a tensor and a chip, whether the tensor must get to it or further.
    """

    def __init__(self, graph: RuleGraph, demands: ChipDemands | None, windows: ChipWindows) -> None:
        self.model = cp_model.CpModel()
        self.num_chips = graph.num_chips
        self.low = windows.low.tolist()
        self.high = windows.high.tolist()
        self.sinks = np.flatnonzero(np.diff(graph.after.ptr) == 0).tolist()
        self._from: list[list[Literal]] = []
        for v in range(graph.num_nodes):
            chips = range(self.low[v] + 1, self.high[v] + 1)
            literals: list[Literal] = [self.model.new_bool_var(f"{v}>={c}") for c in chips]
            self._from.append(literals)
            for earlier, later in pairwise(literals):
                self.model.add_implication(later, earlier)
        for v in range(graph.num_nodes):
            for u in graph.before.row(v).tolist():
                for c in range(max(self.low[u], self.low[v]) + 1, self.high[u] + 1):
                    self.clause(negated(self.since(u, c)), self.since(v, c))
        self.used, self.needed = cache(self._used), cache(self._needed)
        self._producer: list[int] = []
        self._readers: list[list[int]] = []
        if demands is not None:
            tensors = demands.tensors
            self._producer = tensors.producer.tolist()
            self._readers = [
                self._last_readers(tensors.readers.row(t).tolist())
                for t in range(tensors.readers.size)
            ]

    def clause(self, *literals: Literal) -> None:
        """At least one of the literals holds."""
        if True not in [x for x in literals if isinstance(x, bool)]:
            self.model.add_bool_or([x for x in literals if not isinstance(x, bool)])

    def since(self, node: int, chip: int) -> Literal:
        """Return whether the node is on `chip` or later."""
        if chip <= self.low[node]:
            return True
        if chip > self.high[node]:
            return False
        return self._from[node][chip - self.low[node] - 1]

    def not_on(self, node: int, chip: int) -> tuple[Literal, Literal]:
        """Two literals, of which one holds where the node is not on `chip`."""
        return negated(self.since(node, chip)), self.since(node, chip + 1)

    def may_be_on(self, node: int, chip: int) -> bool:
        """Return whether the window holds the chip."""
        return self.low[node] <= chip <= self.high[node]

    def hint(self, chips: Ints) -> None:
        """Has the search start from the chips `[n]` of all nodes."""
        for v, chip in enumerate(chips.tolist()):
            for c in range(self.low[v] + 1, self.high[v] + 1):
                literal = self.since(v, c)
                if isinstance(literal, cp_model.IntVar):
                    self.model.add_hint(literal, chip >= c)

    def chips(self, holds: Callable[[Literal], bool]) -> Ints:
        """`[n]`, the chips of a solution, from whether each literal holds."""
        later = [sum(holds(literal) for literal in literals) for literals in self._from]
        return (np.array(self.low) + later).astype(np.int32)

    def _used(self, chip: int) -> Literal:
        """Return whether some node is on `chip` or later."""
        return self._any([self.since(v, chip) for v in self.sinks], f"used {chip}")

    def _needed(self, tensor: int, chip: int) -> Literal:
        """Return whether the tensor must get to `chip` or further."""
        wanted = [self.since(v, chip) for v in self._readers[tensor]]
        return self._any(wanted, f"needed {tensor} {chip}")

    def made_since(self, tensor: int, chip: int) -> Literal:
        """Return whether the tensor is made on `chip` or later."""
        return self.since(self._producer[tensor], chip)

    def may_cross(self, tensor: int, link: int) -> bool:
        """Return whether the tensor may have to cross the link after chip `link`."""
        return self.needed(tensor, link + 1) is not False and (
            self.made_since(tensor, link + 1) is not True
        )

    def at_least(self, name: str, *clauses: Sequence[Literal]) -> Literal:
        """A literal that holds wherever none of some clause's literals does."""
        literal: Literal = self.model.new_bool_var(name)
        for clause in clauses:
            self.clause(literal, *clause)
        return literal

    def _any(self, literals: list[Literal], name: str) -> Literal:
        """A literal that holds where one of `literals` does, and only there."""
        free = [x for x in literals if not isinstance(x, bool)]
        if len(free) < len(literals) and True in [x for x in literals if isinstance(x, bool)]:
            return True
        if len(free) < 2:
            return free[0] if free else False
        literal: Literal = self.model.new_bool_var(name)
        for x in free:
            self.model.add_implication(x, literal)
        self.clause(negated(literal), *free)
        return literal

    def _last_readers(self, readers: list[int]) -> list[int]:
        """The readers that can be the last: a reader before the window of another can not."""
        latest = max((self.low[v] for v in readers), default=0)
        return [v for v in readers if self.high[v] > latest or self.low[v] == latest]


Terms = tuple[tuple[Literal, int], ...]
"""Literals with their signs, whose sum is 1 where a demand counts and else 0. In solutions it may
be more than that, and never less."""


@dataclass(frozen=True, eq=False)
class PeriodModel:
    """A model of CP-SAT that asks for the chips of all nodes and for the period.

    Attributes:
        order: the literals, with the solver's model.
        problem: the problem.
        demands: its demands.
        period: in ticks.
        ticks_per_s: the scale.
    """

    order: OrderLiterals
    problem: PartitionProblem
    demands: ChipDemands
    period: cp_model.IntVar
    ticks_per_s: float

    @cached_property
    def literals(self) -> TriggerLiterals:
        """Where the demands count."""
        return TriggerLiterals(self.order, self.demands)


class TriggerLiterals:
    """Where the demands of nodes, items and tensors count, chip by chip.

    A node demands on the chip that it is `MADE` on and an item on each chip that it is `READ` on.
    A tensor is `SENT`, here, by its maker or by who only passes it on; which of them it is, no
    linear sum can say.

    Args:
        order: the literals, with the model that more are added to, on first use.
        demands: the demands.
    """

    def __init__(self, order: OrderLiterals, demands: ChipDemands) -> None:
        self._order = order
        self._demands = demands
        self._tensors = demands.tensors
        # What is asked for more than once is kept.
        self._terms = {
            Trigger.MADE: self._made,
            Trigger.READ: cache(self._read),
            Trigger.RECEIVED: self._received,
            Trigger.SENT: self._sent,
            Trigger.PASSED: self._passed,
            Trigger.COPIED: self._copied,
            Trigger.CROSSED: self._crossed,
            Trigger.STAYS: cache(self._stays),
        }

    def add(
        self, total: WeightedSum, trigger: Trigger, subject: int, chip: int, amount: int
    ) -> None:
        """Adds an amount where a subject's demand counts on a chip, or the link behind it."""
        # What chips share or pass on, and nothing is asked for, needs no literals.
        if amount or trigger not in (Trigger.READ, Trigger.PASSED, Trigger.COPIED):
            for literal, sign in self._terms[trigger](subject, chip):
                total.add(literal, sign * amount)

    def add_all(self, chip: int, *rows: tuple[WeightedSum, Trigger, Sequence[int]]) -> None:
        """Adds all demands of nodes, of items or of tensors.

        Args:
            chip: the chip.
            rows: what they add to, when they count, and how much each subject asks.
        """
        for subject in range(len(rows[0][2])):
            for total, trigger, amounts in rows:
                self.add(total, trigger, subject, chip, amounts[subject])

    def _made(self, node: int, chip: int) -> Terms:
        if not self._order.may_be_on(node, chip):
            return ()
        return (self._order.since(node, chip), 1), (self._order.since(node, chip + 1), -1)

    def _read(self, item: int, chip: int) -> Terms:
        users = [
            v
            for v in self._demands.items.users.row(item).tolist()
            if self._order.may_be_on(v, chip)
        ]
        if len(users) < 2:
            return self._made(users[0], chip) if users else ()
        return self._unless(f"item {item} {chip}", *(self._order.not_on(v, chip) for v in users))

    def _crossed(self, tensor: int, link: int) -> Terms:
        order = self._order
        if not (0 <= link < order.num_chips - 1 and order.may_cross(tensor, link)):
            return ()
        return (order.needed(tensor, link + 1), 1), (order.made_since(tensor, link + 1), -1)

    def _received(self, tensor: int, chip: int) -> Terms:
        if self._tensors.kind[tensor] & FORWARDED:
            return self._crossed(tensor, chip - 1)
        made = self._order.made_since(tensor, chip)
        here = [
            v for v in self._tensors.readers.row(tensor).tolist() if self._order.may_be_on(v, chip)
        ]
        if not here or made is True:
            return ()
        absent = [(*self._order.not_on(v, chip), made) for v in here]
        return self._unless(f"receives {tensor} {chip}", *absent)

    def _sent(self, tensor: int, chip: int) -> Terms:
        order, maker = self._order, int(self._tensors.producer[tensor])
        if self._tensors.kind[tensor] & FORWARDED:
            return self._crossed(tensor, chip)
        if not (order.may_be_on(maker, chip) and order.may_cross(tensor, chip)):
            return ()
        stays = (*order.not_on(maker, chip), negated(order.needed(tensor, chip + 1)))
        return self._unless(f"sends {tensor} {chip}", stays)

    def _passed(self, tensor: int, chip: int) -> Terms:
        if not self._tensors.kind[tensor] & FORWARDED:
            return ()
        needed = self._order.needed(tensor, chip + 1)
        made = self._order.made_since(tensor, chip)
        if needed is False or made is True:
            return ()
        if made is False:
            return ((needed, 1),)
        if needed is True:
            return ((negated(made), 1),)
        return self._unless(f"relay {tensor} {chip}", (negated(needed), made))

    def _copied(self, tensor: int, chip: int) -> Terms:
        order, tensors = self._order, self._tensors
        maker, writer = int(tensors.producer[tensor]), int(tensors.writer[tensor])
        if not order.may_be_on(maker, chip):
            return ()
        absent = [*order.not_on(maker, chip)]
        if not tensors.kind[tensor] & TO_HOST:
            absent.append(negated(order.needed(tensor, chip + 1)))
        if writer >= 0:
            # It is on no later chip than the maker of the view.
            absent.append(order.since(writer, chip))
        return self._unless(f"copies {tensor} {chip}", absent)

    def _stays(self, tensor: int, chip: int) -> Terms:
        order, maker = self._order, int(self._tensors.producer[tensor])
        beside = self._demands.stays_with(tensor)
        made = negated(order.since(maker, chip))
        if self._demands.held.need:
            moves = (made, *(order.since(v, chip + 1) for v in (maker, *beside)))
        else:
            moves = (made, order.needed(tensor, chip + 1)) if beside else order.not_on(maker, chip)
        return self._unless(f"stays {tensor} {chip}", moves)

    def _unless(self, name: str, *clauses: Sequence[Literal]) -> Terms:
        """A literal that holds wherever none of some clause's literals does."""
        return ((self._order.at_least(name, *clauses), 1),)
