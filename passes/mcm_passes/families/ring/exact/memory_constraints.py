"""Memory of each chip, as linear constraints on order literals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from ortools.sat.python import cp_model

from mcm_compiler.partition import PartitionProblem
from mcm_compiler.ring_routes import FORWARDED, FROM_HOST, TO_HOST
from mcm_passes.families.ring.exact.chip_constraints import ChipItems
from mcm_passes.families.ring.exact.chip_demands import ChipDemands
from mcm_passes.families.ring.exact.order_literals import (
    Literal,
    OrderLiterals,
    WeightedSum,
    negated,
)
from mcm_passes.mapping.loads.tensor_columns import LIVE, PASSED, RECEIVED, SENT
from mcm_passes.partitioning.rooms import sram_blocks

STREAM_TICKS = 1024
"""Parts of a tick in which the time of one streamed block is counted."""


class MemoryConstraints:
    """Memory as the fast model counts it, in blocks of the alignment; at need no more than that.

    The peak of live activations is no sum, but the largest of one sum per unit: what is live
    while it runs, or at need what it holds. A constraint for each keeps them all within what the
    rest leaves.
    """

    def __init__(
        self,
        order: OrderLiterals,
        items: ChipItems,
        problem: PartitionProblem,
        demands: ChipDemands,
        period: cp_model.IntVar,
        ticks_per_s: float,
    ) -> None:
        self._order = order
        self._items = items
        self._problem = problem
        self._demands = demands
        self._period = period
        self._ticks_per_s = ticks_per_s
        self._packing = Fraction(problem.limits.activation_packing)
        n = demands.nodes.work_s.size
        producers = np.maximum(demands.tensors.producer, 0)
        last = [
            int(demands.tensors.readers[demands.tensors.reader_ptr[t + 1] - 1])
            if demands.tensors.reader_ptr[t] < demands.tensors.reader_ptr[t + 1]
            else int(producers[t])
            for t in range(demands.tensors.producer.size)
        ]
        self._live: list[list[int]] = [[] for _ in range(n)]
        for t in (
            np.flatnonzero(demands.tensors.amount[:, LIVE]).tolist() if demands.held.need else ()
        ):
            for v in demands.held.held[
                demands.held.held_ptr[t] : demands.held.held_ptr[t + 1]
            ].tolist():
                self._live[v].append(t)
        lives = (demands.tensors.kind & (FROM_HOST | TO_HOST) == 0) & (not demands.held.need)
        for t in np.flatnonzero(lives).tolist():
            for v in range(int(demands.tensors.producer[t]), last[t] + 1):
                self._live[v].append(t)

    def add(self) -> None:
        """Adds the constraints of all chips that could overflow."""
        shared = WeightedSum()
        for chip in range(self._problem.num_chips):
            self._add_chip(chip, shared)
        if self._problem.limits.stream_total_bytes_per_s:
            shared.add(self._period, -self._packing.denominator * STREAM_TICKS)
            self._order.model.add(shared.expression() <= 0)

    def _add_chip(self, chip: int, shared: WeightedSum) -> None:
        """Adds the constraints of a chip, and the time of what it streams to `shared`."""
        order, d, model = self._order, self._demands, self._order.model
        sram = int(sram_blocks(self._problem)[chip])
        most = self._most_room(chip)
        if most <= sram:
            return
        held, weights = WeightedSum(), WeightedSum()
        for v in range(d.nodes.work_s.size):
            if order.may_be_on(v, chip):
                held.add(order.since(v, chip), int(d.nodes.out_room[v]))
                held.add(order.since(v, chip + 1), -int(d.nodes.out_room[v]))
        for i in range(d.items.busy_s.size):
            self._items.add(held, i, chip, int(d.items.room[i] - d.items.weight[i]))
            self._items.add(weights, i, chip, int(d.items.weight[i]))
        held.constant += d.entry_room if chip == 0 else 0
        if d.exit_room:
            held.add(order.used(chip), d.exit_room)
            held.add(order.used(chip + 1), -d.exit_room)
        for t in range(d.tensors.producer.size):
            self._add_buffers(held, t, chip)
        # Variables for the sums keep the constraints short that share them.
        held_room = model.new_int_var(0, most, f"held {chip}")
        model.add(held.expression() <= held_room)
        weight_room = model.new_int_var(0, most, f"weights {chip}")
        model.add(weights.expression() <= weight_room)
        packing = self._packing
        limit = packing.denominator * sram
        limits = self._problem.limits
        streams: cp_model.IntVar | None = None
        streamed: cp_model.IntVar | None = None
        buffers = WeightedSum()
        if self._problem.streams:
            streams = model.new_bool_var(f"streams {chip}")
            largest = self._largest_weight(chip)
            buffers.add(largest, packing.denominator * limits.stream_buffers)
            if limits.stream_total_bytes_per_s:
                # No more than all weights there.
                streamed = model.new_int_var(0, packing.denominator * most, f"streamed {chip}")
                shared.add(streamed, self._stream_ticks(limits.stream_total_bytes_per_s))
        for live in self._live_sums(chip):
            # Rounding up to whole blocks is what an integer limit does by itself.
            fixed = WeightedSum(-limit)
            fixed.add(held_room, packing.denominator)
            fixed.add_sum(live, packing.numerator)
            over = WeightedSum()
            over.add_sum(fixed, 1)
            over.add(weight_room, packing.denominator)
            if streams is None:
                model.add(over.expression() <= 0)
                continue
            model.add(over.expression() <= 0).only_enforce_if(~streams)
            fixed.add_sum(buffers, 1)
            over.add_sum(buffers, 1)
            model.add(fixed.expression() <= 0).only_enforce_if(streams)
            time = WeightedSum()
            time.add_sum(over, self._stream_ticks(limits.stream_bytes_per_s))
            time.add(self._period, -packing.denominator * STREAM_TICKS)
            model.add(time.expression() <= 0).only_enforce_if(streams)
            if streamed is not None:
                over.add(streamed, -1)
                model.add(over.expression() <= 0).only_enforce_if(streams)

    def _stream_ticks(self, bytes_per_s: float) -> int:
        """Time to stream one block, in parts of a tick."""
        seconds = self._problem.limits.buffer_alignment_bytes / bytes_per_s
        return math.floor(seconds * self._ticks_per_s * STREAM_TICKS)

    def _add_buffers(self, held: WeightedSum, tensor: int, chip: int) -> None:
        """Slots of what arrives at the chip and of what leaves it."""
        order, d = self._order, self._demands
        received, sent, passed = d.tensors.amount[tensor, [RECEIVED, SENT, PASSED]].tolist()
        if d.tensors.kind[tensor] & FORWARDED:
            # On the chip that makes it it may share the send buffers of what it is a view of.
            leaving = passed if d.tensors.kind[tensor] & FROM_HOST else min(sent, passed)
            for link, room in ((chip - 1, received), (chip, leaving)):
                if room and 0 <= link < order.num_chips - 1 and order.may_cross(tensor, link):
                    held.add(order.needed(tensor, link + 1), room)
                    held.add(order.made_since(tensor, link + 1), -room)
            return
        producer = int(d.tensors.producer[tensor])
        if order.may_be_on(producer, chip) and order.may_cross(tensor, chip):
            stays = (*order.not_on(producer, chip), negated(order.needed(tensor, chip + 1)))
            held.add(order.at_least(f"sends {tensor} {chip}", stays), sent)
        made = order.since(producer, chip)
        readers = d.tensors.readers[
            d.tensors.reader_ptr[tensor] : d.tensors.reader_ptr[tensor + 1]
        ].tolist()
        here = [v for v in readers if order.may_be_on(v, chip)]
        if here and made is not True:
            absent = [(*order.not_on(v, chip), made) for v in here]
            held.add(order.at_least(f"receives {tensor} {chip}", *absent), received)

    def _live_sums(self, chip: int) -> list[WeightedSum]:
        """What is live on the chip while each unit runs; at least one sum.

        A tensor that is made and read on one chip is live from its producer to its last reader.
        What is live while a unit of another chip runs is no more than while the chip's own unit
        before it ran, so that the sums need not ask where their unit is.
        """
        order, d = self._order, self._demands
        stays: dict[int, Literal] = {}
        sums: list[WeightedSum] = []
        here = [v for v in range(d.nodes.work_s.size) if order.may_be_on(v, chip)]
        alive = [[t for t in self._live[v] if self._may_stay(t, chip)] for v in here]
        for i, tensors in enumerate(alive):
            # What is all live at the next unit too needs no sum of its own.
            if not tensors or (i + 1 < len(alive) and set(tensors) <= set(alive[i + 1])):
                continue
            total = WeightedSum()
            for t in tensors:
                if t not in stays:
                    producer = int(d.tensors.producer[t])
                    moves = self._moves(t, producer, chip)
                    stays[t] = order.at_least(f"stays {t} {chip}", moves)
                total.add(stays[t], int(d.tensors.amount[t, LIVE]))
            sums.append(total)
        return sums or [WeightedSum()]

    def _moves(self, tensor: int, producer: int, chip: int) -> tuple[Literal, ...]:
        """Literals of which one holds where the tensor is not made on the chip and kept there."""
        order, d = self._order, self._demands
        made = negated(order.since(producer, chip))
        if d.held.need:
            return (made, *(order.since(v, chip + 1) for v in (producer, *self._beside(tensor))))
        if d.tensors.reader_ptr[tensor] < d.tensors.reader_ptr[tensor + 1]:
            return made, order.needed(tensor, chip + 1)
        return order.not_on(producer, chip)

    def _beside(self, tensor: int) -> list[int]:
        """Nodes that must be on the maker's chip for the tensor to stay there."""
        d = self._demands
        if d.held.need:
            return d.held.stay[d.held.stay_ptr[tensor] : d.held.stay_ptr[tensor + 1]].tolist()
        return d.tensors.readers[
            d.tensors.reader_ptr[tensor] : d.tensors.reader_ptr[tensor + 1]
        ].tolist()

    def _may_stay(self, tensor: int, chip: int) -> bool:
        d = self._demands
        readers = self._beside(tensor)
        return all(
            self._order.may_be_on(v, chip) for v in (int(d.tensors.producer[tensor]), *readers)
        )

    def _largest_weight(self, chip: int) -> cp_model.IntVar:
        """At least the blocks of each weight on the chip."""
        d = self._demands
        largest = self._order.model.new_int_var(
            0, int(d.items.weight.max(initial=0)), f"largest weight {chip}"
        )
        for i in range(d.items.busy_s.size):
            one = WeightedSum()
            self._items.add(one, i, chip, int(d.items.weight[i]))
            if one.most:
                self._order.model.add(one.expression() <= largest)
        return largest

    def _most_room(self, chip: int) -> int:
        """An upper limit of what the chip can need, by its windows alone."""
        order, d = self._order, self._demands
        total = d.entry_room + d.exit_room
        on_chip = [v for v in range(d.nodes.work_s.size) if order.may_be_on(v, chip)]
        total += sum(int(d.nodes.out_room[v]) for v in on_chip)
        items = {
            i
            for v in on_chip
            for i in d.nodes.items[d.nodes.item_ptr[v] : d.nodes.item_ptr[v + 1]].tolist()
        }
        total += sum(int(d.items.room[i]) for i in sorted(items))
        for t in range(d.tensors.producer.size):
            room = int(d.tensors.room[t])
            crosses = sum(
                order.may_cross(t, link)
                for link in (chip - 1, chip)
                if 0 <= link < order.num_chips - 1
            )
            total += crosses * int(d.tensors.amount[t, RECEIVED])
            if d.tensors.producer[t] >= 0 and order.may_be_on(int(d.tensors.producer[t]), chip):
                total += int(np.ceil(room * self._problem.limits.activation_packing))
        return total
