"""What chips, links and host channels take, as linear constraints on order literals."""

from __future__ import annotations

import math

import numpy as np
from ortools.sat.python import cp_model

from mcm_compiler.partition import PartitionProblem
from mcm_compiler.ring_routes import COLLECTED, FORWARDED, FROM_HOST
from mcm_passes.families.ring.exact.chip_demands import ChipDemands
from mcm_passes.families.ring.exact.order_literals import (
    Literal,
    OrderLiterals,
    WeightedSum,
    negated,
)
from mcm_passes.mapping.loads.tensor_columns import CROSSED


class ChipItems:
    """Which chips need which items, as literals made on first use."""

    def __init__(self, order: OrderLiterals, demands: ChipDemands) -> None:
        self._order = order
        self.users: list[list[int]] = [[] for _ in range(demands.items.busy_s.size)]
        for v in range(demands.nodes.work_s.size):
            for e in range(demands.nodes.item_ptr[v], demands.nodes.item_ptr[v + 1]):
                self.users[demands.nodes.items[e]].append(v)
        self._on: dict[tuple[int, int], Literal] = {}

    def add(self, total: WeightedSum, item: int, chip: int, weight: int) -> None:
        """Adds `weight` where a user of the item is on the chip."""
        users = [v for v in self.users[item] if self._order.may_be_on(v, chip)]
        if not weight or not users:
            return
        if len(users) == 1:
            total.add(self._order.since(users[0], chip), weight)
            total.add(self._order.since(users[0], chip + 1), -weight)
            return
        key = (item, chip)
        if key not in self._on:
            absent = [self._order.not_on(v, chip) for v in users]
            self._on[key] = self._order.at_least(f"item {item} {chip}", *absent)
        total.add(self._on[key], weight)


def constrain_time(
    order: OrderLiterals,
    items: ChipItems,
    problem: PartitionProblem,
    demands: ChipDemands,
    period: cp_model.IntVar,
    ticks_per_s: float,
    least_ticks: int,
) -> None:
    """No chip, link or host channel takes longer than `period` ticks.

    Every summand is rounded down to whole ticks: what the real times allow, the model allows too,
    so that what it proves of the period holds for them.

    Args:
        order: the literals, with the model that the constraints go to.
        items: the items of the chips.
        problem: the problem.
        demands: its demands.
        period: in ticks.
        ticks_per_s: the scale.
        least_ticks: a lower bound of `period`; constraints that cannot break it are left out.
    """
    limits = problem.limits
    totals: list[WeightedSum] = []
    # What all chips share; outputs are the same wherever they leave, and in `least_ticks`.
    root, root_host = WeightedSum(), ticks_per_s / limits.host_root_bytes_per_s
    tensors = range(demands.tensors.producer.size)
    for c in range(problem.num_chips):
        busy, arriving, leaving, link = (WeightedSum() for _ in range(4))
        scale = ticks_per_s / float(problem.chip_speed[c])
        host = ticks_per_s / limits.host_bytes_per_s
        for v in range(demands.nodes.work_s.size):
            if order.may_be_on(v, c):
                for total, ticks in (
                    (busy, demands.nodes.work_s[v] * scale),
                    (leaving, demands.nodes.out_bytes[v] * host),
                ):
                    total.add(order.since(v, c), math.floor(ticks))
                    total.add(order.since(v, c + 1), -math.floor(ticks))
        for i in range(demands.items.busy_s.size):
            items.add(busy, i, c, math.floor(demands.items.busy_s[i] * scale))
            items.add(arriving, i, c, math.floor(demands.items.in_bytes[i] * host))
            items.add(root, i, c, math.floor(demands.items.in_bytes[i] * root_host))
        for t in tensors:
            ticks = math.floor(demands.tensors.passed_s[t] * scale)
            if ticks:
                busy.add(_relayed(order, demands, t, c), ticks)
            if c + 1 < problem.num_chips and order.may_cross(t, c):
                ticks = math.floor(
                    demands.tensors.amount[t, CROSSED] * ticks_per_s / limits.link_bytes_per_s
                )
                link.add(order.needed(t, c + 1), ticks)
                link.add(order.made_since(t, c + 1), -ticks)
        totals += [busy, arriving, leaving, link]
    for total in (*totals, root):
        if total.most > least_ticks:
            order.model.add(total.expression() <= period)


def _relayed(order: OrderLiterals, demands: ChipDemands, tensor: int, chip: int) -> Literal:
    """Whether the chip only passes the tensor on."""
    kind = int(demands.tensors.kind[tensor])
    from_host, collected = bool(kind & FROM_HOST), bool(kind & COLLECTED)
    if not kind & FORWARDED:
        return False
    # What goes to the host is relayed by the last used chip too, what it sends by the first.
    needed = order.needed(tensor, chip if collected else chip + 1)
    if from_host:
        return needed
    made = order.made_since(tensor, chip)
    if needed is False or made is True:
        return False
    if made is False:
        return needed
    if needed is True:
        return negated(made)
    return order.at_least(f"relay {tensor} {chip}", (negated(needed), made))


def constrain_skips(order: OrderLiterals, num_nodes: int, *, both_ways: bool = False) -> None:
    """No chip below the highest used one is empty.

    Args:
        order: the literals.
        num_nodes: n.
        both_ways: let the chips of nodes decide on all literals that are added, so that a hint of
            chips is a whole one.
    """
    for c in range(order.num_chips - 1):
        here: list[Literal] = [negated(order.used(c + 1))]
        for v in range(num_nodes):
            if order.may_be_on(v, c):
                absent = order.not_on(v, c)
                on = order.model.new_bool_var(f"{v} on {c}")
                order.clause(negated(on), negated(absent[0]))
                order.clause(negated(on), negated(absent[1]))
                if both_ways:
                    order.clause(on, *absent)
                here.append(on)
        order.clause(*here)


def whole_ticks(seconds: float, ticks_per_s: float) -> int:
    """Ticks within `seconds`, and within the rounding of sums of floats."""
    return int(np.floor(seconds * ticks_per_s * (1.0 + 1e-12)))
