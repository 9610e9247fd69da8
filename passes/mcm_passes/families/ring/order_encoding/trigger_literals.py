"""Where demands count, in order literals: what each trigger of the table of demands means there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from ortools.sat.python import cp_model

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.placements.ring_rules import FORWARDED, TO_HOST
from mcm_passes.families.ring.order_encoding.order_literals import (
    Literal,
    OrderLiterals,
    WeightedSum,
    negated,
)
from mcm_passes.mapping.loads.chip_demands import ChipDemands
from mcm_passes.mapping.loads.demand_table import Trigger

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
