"""The best chain of order ideals: an exact optimum where a graph has few of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem
from mcm_passes.families.ring.exact.ideal_chain import (
    ChipLimits,
    Covers,
    TriangleReading,
    Triangles,
    best_chain,
)
from mcm_passes.families.ring.loads.crossings import cuts_of
from mcm_passes.families.ring.loads.window_costs import PackingRatio
from mcm_passes.mapping.loads.chip_demands import chip_demands
from mcm_passes.mapping.problem.order_ideals import OrderIdeals, order_ideals
from mcm_passes.mapping.problem.resident_sizes import sram_blocks
from mcm_passes.mapping.problem.rule_graph import closure, nodes_of, rule_graph


@dataclass(frozen=True, eq=False)
class ChainOptimum:
    """The best partition among chains of ideals, under one reading of the rules.

    Attributes:
        chip_of: `[N]`, or None where no chain is within the limits of the search.
        value: the figure that it minimises; for None the ceiling on periods, or infinite.
        complete: whether all chains were searched, so that none is better.
        windows: windows that were weighed.
        labels: labels that were made.
    """

    chip_of: Ints | None
    value: float
    complete: bool
    windows: int
    labels: int = 0


class IdealLattice:
    """A problem prepared for dynamic programming over its ideals.

    What a window takes must not depend on other windows: the host reaches every chip, which makes
    no placement slower.
    """

    def __init__(self, problem: PartitionProblem, ideals: OrderIdeals) -> None:
        self._problem = problem = problem.reached()
        self._graph = rule_graph(problem)
        self._ideals = ideals
        self._demands = chip_demands(problem, self._graph.units)
        self._cuts = cuts_of(ideals.members, self._demands.tensors, ideals.smaller)
        self._covers = Covers(ideals.cover_ptr, ideals.covers, ideals.cover_node)
        self._closure = closure(self._graph)
        self._pinned = self._pinned_sets()
        self._chips = self._package()

    @classmethod
    def of(cls, problem: PartitionProblem, most_ideals: int) -> Self | None:
        """None where the graph has more ideals, or no unit to place."""
        graph = rule_graph(problem)
        ideals = order_ideals(graph, most_ideals) if graph.num_nodes else None
        return None if ideals is None else cls(problem, ideals)

    def of_problem(self, problem: PartitionProblem) -> Self:
        """The lattice of a problem with the same units and dependencies, and other memory."""
        return type(self)(problem, self._ideals)

    @property
    def count(self) -> int:
        """Number of ideals."""
        return self._ideals.count

    def optimum(
        self, reading: TriangleReading, ceiling_s: float, most_windows: int
    ) -> ChainOptimum:
        """The smallest period below `ceiling_s`, with the fewest chips among equals.

        Every constraint but the triangle rule is local to one window between two ideals. The
        smallest largest cost over chains of at most C windows is therefore the exact optimum under
        the analytic model and the given interpretation of that rule.

        Args:
            reading: how windows treat long dependencies.
            ceiling_s: partitions from this period on are not looked for; may be infinite.
            most_windows: gives up beyond this many.
        """
        best, came_from, windows = best_chain(
            self._demands,
            self._cuts,
            self._covers,
            self._pinned,
            self._chips,
            self._triangles(reading),
            ceiling_s,
            most_windows,
        )
        last = best[self.count - 1]
        chips = int(last.argmin())
        complete = windows <= most_windows
        if not (complete and last[chips] < ceiling_s):
            return ChainOptimum(None, ceiling_s, complete, windows)
        # The ideal before each, by chips.
        ideals = [self.count - 1]
        for k in range(chips, 0, -1):
            ideals.append(int(came_from[ideals[-1], k]))
        return ChainOptimum(self._partition(ideals[::-1]), float(last[chips]), True, windows)

    def _triangles(self, reading: TriangleReading) -> Triangles:
        return Triangles(reading == "adjacent", reading == "between", *self._closure)

    def _partition(self, ideals: Sequence[int]) -> Ints:
        """The partition whose chips take over and hand over at these ideals, from the first on."""
        chip_of = np.zeros(self._problem.num_units, np.int32)
        members = self._ideals.members
        for chip, (before, at) in enumerate(pairwise(ideals)):
            chip_of[self._graph.units[nodes_of(members[at] & ~members[before])]] = chip
        return chip_of

    def _pinned_sets(self) -> Longs:
        """`[I, C + 1]`, how many nodes of each ideal are pinned to each chip, and to any."""
        pinned = self._demands.nodes.pinned
        chips = self._problem.num_chips
        held = np.zeros((self.count, chips + 1), np.int64)
        for v in np.flatnonzero(pinned >= 0).tolist():
            inside = (self._ideals.members[:, v >> 6] >> np.uint64(v & 63) & np.uint64(1)) > 0
            held[inside, chips] += 1
            if pinned[v] < chips:
                held[inside, pinned[v]] += 1
        return held

    def _package(self) -> ChipLimits:
        limits = self._problem.limits
        speed, sram_room = self._problem.chip_speed, sram_blocks(self._problem)
        pinned = bool((self._demands.nodes.pinned >= 0).any())
        return ChipLimits(
            speed,
            sram_room,
            np.inf if self._problem.streams else float(sram_room.max()),
            limits.link_bytes_per_s,
            limits.host_bytes_per_s,
            limits.stream_bytes_per_s,
            PackingRatio(*limits.activation_packing.as_integer_ratio()),
            limits.buffer_alignment_bytes,
            limits.stream_buffers,
            not pinned and np.unique(speed).size == np.unique(sram_room).size == 1,
        )
