"""What chips, links and host channels take, as linear constraints on order literals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_passes.families.ring.order_encoding.order_literals import (
    Literal,
    OrderLiterals,
    WeightedSum,
    negated,
)
from mcm_passes.families.ring.order_encoding.trigger_literals import PeriodModel
from mcm_passes.mapping.loads.demand_table import Trigger
from mcm_passes.mapping.loads.tensor_columns import CROSSED


def constrain_time(model: PeriodModel, least_ticks: int) -> None:
    """No chip, link or host channel takes longer than `period` ticks.

    Every summand is rounded down to whole ticks: what the real times allow, the model allows too,
    so that what it proves of the period holds for them.

    Args:
        model: what the constraints are added to.
        least_ticks: a lower bound of `period`; constraints that cannot break it are left out.
    """
    nodes, items, tensors = model.demands.nodes, model.demands.items, model.demands.tensors
    limits, literals, ticks_per_s = model.problem.limits, model.literals, model.ticks_per_s
    out_ticks = _floors(nodes.out_bytes * (ticks_per_s / limits.host_bytes_per_s))
    in_ticks = _floors(items.in_bytes * (ticks_per_s / limits.host_bytes_per_s))
    root_ticks = _floors(items.in_bytes * (ticks_per_s / limits.host_root_bytes_per_s))
    link_ticks = _floors(tensors.amount[:, CROSSED] * ticks_per_s / limits.link_bytes_per_s)
    # What all chips share; outputs are the same wherever they leave, and in `least_ticks`.
    root = WeightedSum()
    totals: list[WeightedSum] = []
    for chip, speed in enumerate(model.problem.chip_speed.tolist()):
        busy, arriving, leaving, link = (WeightedSum() for _ in range(4))
        scale = ticks_per_s / speed
        literals.add_all(
            chip,
            (busy, Trigger.MADE, _floors(nodes.work_s * scale)),
            (leaving, Trigger.MADE, out_ticks),
        )
        literals.add_all(
            chip,
            (busy, Trigger.READ, _floors(items.busy_s * scale)),
            (arriving, Trigger.READ, in_ticks),
            (root, Trigger.READ, root_ticks),
        )
        literals.add_all(
            chip,
            (busy, Trigger.PASSED, _floors(tensors.passed_s * scale)),
            (link, Trigger.CROSSED, link_ticks),
        )
        totals += [busy, arriving, leaving, link]
    for total in (*totals, root):
        if total.most > least_ticks:
            model.order.model.add(total.expression() <= model.period)


def _floors(values: npt.NDArray[np.floating]) -> list[int]:
    return np.floor(values).astype(np.int64).tolist()


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
