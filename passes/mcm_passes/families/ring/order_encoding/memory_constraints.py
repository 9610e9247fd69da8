"""Memory of each chip, as linear constraints on order literals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

from mcm_compiler.placements.ring_rules import FORWARDED, TO_HOST
from mcm_passes.families.ring.order_encoding.order_literals import (
    Literal,
    OrderLiterals,
    PeriodModel,
    WeightedSum,
    negated,
)
from mcm_passes.mapping.loads.chip_demands import CROSSED, LIVE, PASSED, RECEIVED, SENT
from mcm_passes.mapping.loads.demand_table import Trigger
from mcm_passes.mapping.problem.resident_sizes import sram_blocks
from mcm_passes.mapping.problem.rule_graph import RuleGraph, closure, nodes_of

MOST_CLAUSES = 2_000_000
"""Clauses beyond which the part of the rule that needs them is left out."""


def constrain_triangles(order: OrderLiterals, graph: RuleGraph) -> None:
    """Adds the rule, or as much of it as `MOST_CLAUSES` allows.

    Where that is not all, the model's bounds hold all the same, but its solutions may break it.
    """
    edges = list(zip(graph.after.owners.tolist(), graph.after.entries.tolist(), strict=True))
    _forbid_detours_along_paths(order, graph, edges)
    spans = sum(
        (order.high[u] - order.low[u] + 1) * (order.high[v] - order.low[v] + 1) for u, v in edges
    )
    if spans + order.num_chips**3 <= MOST_CLAUSES:
        _forbid_longer_paths(order, edges)


def _forbid_detours_along_paths(
    order: OrderLiterals, graph: RuleGraph, edges: list[tuple[int, int]]
) -> None:
    """A unit on a path from u to v, next to an edge from u to v, is with u or with v.

    On a chip between theirs it would close a longer path next to the direct one. The rule follows
    from that of the quotient graph, but propagates at once.
    """
    ancestors, descendants = closure(graph)
    clauses = 0
    for u, v in edges:
        between = descendants[u] & ancestors[v]
        if not between.any():
            continue
        for w in nodes_of(between).tolist():
            first = max(order.low[w], order.low[u] + 1)
            last = min(order.high[w], order.high[v] - 1)
            clauses += max(last - first + 1, 0)
            if clauses > MOST_CLAUSES:
                return
            for c in range(first, last + 1):
                order.clause(order.since(u, c), *order.not_on(w, c), negated(order.since(v, c + 1)))


def _forbid_longer_paths(order: OrderLiterals, edges: list[tuple[int, int]]) -> None:
    """No direct dependency between two chips next to a path over a third one."""
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
            (busy, Trigger.COPIED, _floors(tensors.copied_s * scale)),
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


STREAM_TICKS = 1024
"""Parts of a tick in which the time of one streamed block is counted."""


class MemoryConstraints:
    """Memory as the roofline counts it, in blocks of the alignment; at need no more than that.

    The peak of live activations is no sum, but the largest of one sum per unit: what is live
    while it runs, or at need what it holds. A constraint for each keeps them all within what the
    rest leaves.

    Args:
        model: what the constraints are added to.
    """

    def __init__(self, model: PeriodModel) -> None:
        self._model = model
        self._order = model.order
        self._limits = model.problem.limits
        self._packing = Fraction(self._limits.activation_packing)
        demands, tensors = model.demands, model.demands.tensors
        self._live: list[int] = tensors.amount[:, LIVE].tolist()
        self._received: list[int] = tensors.amount[:, RECEIVED].tolist()
        # On the chip that makes it what is forwarded may share the send buffers of what it is a
        # view of, so that no more than the smaller of both is sure where it leaves.
        leaving = tensors.amount[:, SENT]
        forwarded = tensors.kind & FORWARDED > 0
        least = np.minimum(leaving, tensors.amount[:, PASSED])
        self._leaving: list[int] = np.where(forwarded, least, leaving).tolist()
        self._alive_at: list[list[int]] = [[] for _ in range(demands.nodes.work_s.size)]
        lives = tensors.kind & TO_HOST == 0
        for t in np.flatnonzero(tensors.amount[:, LIVE] if demands.held.need else lives).tolist():
            for v in demands.alive_at(t):
                self._alive_at[v].append(t)

    def add(self) -> None:
        """Adds the constraints of all chips that could overflow."""
        shared = WeightedSum()
        for chip, sram in enumerate(sram_blocks(self._model.problem).tolist()):
            most = self._most_room(chip)
            if most > sram:
                self._add_chip(chip, sram, most, shared)
        if self._limits.stream_total_bytes_per_s:
            shared.add(self._model.period, -self._packing.denominator * STREAM_TICKS)
            self._order.model.add(shared.expression() <= 0)

    def _add_chip(self, chip: int, sram: int, most: int, shared: WeightedSum) -> None:
        """Adds the constraints of a chip, and the time of what it streams to `shared`.

        Args:
            chip: the chip.
            sram: blocks that it has.
            most: blocks that it can need.
            shared: time of all that is streamed.
        """
        model, parts = self._order.model, self._packing.denominator
        held, weights = self._sums(chip)
        # Variables for the sums keep the constraints short that share them.
        held_room = model.new_int_var(0, most, f"held {chip}")
        model.add(held.expression() <= held_room)
        weight_room = model.new_int_var(0, most, f"weights {chip}")
        model.add(weights.expression() <= weight_room)
        # All but the weights beyond the memory, in parts of a block, while each unit runs. Rounding
        # up to whole blocks is what an integer limit does by itself.
        over = [
            held_room * parts - parts * sram + live.expression() * self._packing.numerator
            for live in self._live_sums(chip)
        ]
        if self._model.problem.streams:
            self._add_streaming(chip, over, weight_room, most, shared)
            return
        for fixed in over:
            model.add(fixed + weight_room * parts <= 0)

    def _add_streaming(
        self,
        chip: int,
        over: list[cp_model.LinearExpr],
        weight_room: cp_model.IntVar,
        most: int,
        shared: WeightedSum,
    ) -> None:
        """Weights may be streamed: through buffers, and in time.

        Args:
            chip: the chip.
            over: sums of what is beyond its memory without weights, in parts of a block.
            weight_room: blocks of its weights.
            most: blocks that it can need.
            shared: time of all that is streamed, which the chip's is added to.
        """
        model, parts, limits = self._order.model, self._packing.denominator, self._limits
        streams = model.new_bool_var(f"streams {chip}")
        buffers = self._largest_weight(chip) * (parts * limits.stream_buffers)
        streamed: cp_model.IntVar | None = None
        if limits.stream_total_bytes_per_s:
            # No more than all weights there.
            streamed = model.new_int_var(0, parts * most, f"streamed {chip}")
            shared.add(streamed, self._stream_ticks(limits.stream_total_bytes_per_s))
        for fixed in over:
            total = fixed + weight_room * parts
            model.add(total <= 0).only_enforce_if(~streams)
            # All but the weights and their buffers must fit; what weights are over is streamed.
            model.add(fixed + buffers <= 0).only_enforce_if(streams)
            total = total + buffers
            time = total * self._stream_ticks(limits.stream_bytes_per_s)
            model.add(time <= self._model.period * (parts * STREAM_TICKS)).only_enforce_if(streams)
            if streamed is not None:
                model.add(total <= streamed).only_enforce_if(streams)

    def _stream_ticks(self, bytes_per_s: float) -> int:
        """Time to stream one block, in parts of a tick."""
        seconds = self._limits.buffer_alignment_bytes / bytes_per_s
        return math.floor(seconds * self._model.ticks_per_s * STREAM_TICKS)

    def _sums(self, chip: int) -> tuple[WeightedSum, WeightedSum]:
        """Blocks of what the chip holds permanently, and of its weights."""
        literals, d = self._model.literals, self._model.demands
        held, weights = WeightedSum(), WeightedSum()
        literals.add_all(chip, (held, Trigger.MADE, d.nodes.out_room.tolist()))
        literals.add_all(
            chip,
            (held, Trigger.READ, d.items.held.tolist()),
            (weights, Trigger.READ, d.items.weight.tolist()),
        )
        for t, forwarded in enumerate((d.tensors.kind & FORWARDED).tolist()):
            buffers = (Trigger.RECEIVED, self._received[t]), (Trigger.SENT, self._leaving[t])
            for trigger, room in buffers if forwarded else buffers[::-1]:
                literals.add(held, trigger, t, chip, room)
        return held, weights

    def _live_sums(self, chip: int) -> list[WeightedSum]:
        """Live bytes on the chip while each unit runs; at least one sum.

        A tensor that is made and read on one chip is live from its producer to its last reader.
        What is live while a unit of another chip runs is no more than while the chip's own unit
        before it ran, so that the sums need not ask where their unit is.
        """
        here = [v for v in range(len(self._alive_at)) if self._order.may_be_on(v, chip)]
        alive = [[t for t in self._alive_at[v] if self._may_stay(t, chip)] for v in here]
        sums: list[WeightedSum] = []
        for i, tensors in enumerate(alive):
            # What is all live at the next unit too needs no sum of its own.
            if tensors and not (i + 1 < len(alive) and set(tensors) <= set(alive[i + 1])):
                sums.append(total := WeightedSum())
                for t in tensors:
                    self._model.literals.add(total, Trigger.STAYS, t, chip, self._live[t])
        return sums or [WeightedSum()]

    def _may_stay(self, tensor: int, chip: int) -> bool:
        maker = int(self._model.demands.tensors.producer[tensor])
        beside = self._model.demands.stays_with(tensor)
        return all(self._order.may_be_on(v, chip) for v in (maker, *beside))

    def _largest_weight(self, chip: int) -> cp_model.IntVar:
        """At least the blocks of each weight on the chip."""
        weight = self._model.demands.items.weight
        model = self._order.model
        largest = model.new_int_var(0, int(weight.max(initial=0)), f"largest weight {chip}")
        for i, blocks in enumerate(weight.tolist()):
            self._model.literals.add(one := WeightedSum(), Trigger.READ, i, chip, blocks)
            if one.most:
                model.add(one.expression() <= largest)
        return largest

    def _most_room(self, chip: int) -> int:
        """An upper limit of what the chip can need, by its windows alone."""
        order, d = self._order, self._model.demands
        on_chip = [v for v in range(d.nodes.work_s.size) if order.may_be_on(v, chip)]
        items = sorted({i for v in on_chip for i in d.nodes.items.row(v).tolist()})
        total = int(d.nodes.out_room[on_chip].sum())
        total += int((d.items.held + d.items.weight)[items].sum())
        rooms = np.ceil(d.tensors.room * self._limits.activation_packing).tolist()
        links = [link for link in (chip - 1, chip) if 0 <= link < order.num_chips - 1]
        for t, maker in enumerate(d.tensors.producer.tolist()):
            total += self._received[t] * sum(order.may_cross(t, link) for link in links)
            if order.may_be_on(maker, chip):
                total += int(rooms[t])
        return total
