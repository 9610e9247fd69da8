"""A lower bound on the period that covers every division, number of copies and placement.

All chips together do all work of an inference in a period T, whatever the number of copies and of
inferences a round. Chips depend on each other in no circle, so let them be numbered along the
dependencies. A part on chip c needs the weights before it on chips up to c, and has those behind
it on chips from c on: where these do not fit, it cannot be. Of what can be on a chip, the chip
does at most T, and at most what the weights that fit into its memory let it do. Some of its memory
may be taken by weights that come before, or behind, all that it does. So in T the chips of a range
have time for the kernels that only they can do. And in T the outputs leave over the channels of the
host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.cost import CostModel, LeastWork, PricesParts, costs_in
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.partition import Bools, Longs
from mcm_compiler.contracts.sharding.divisions import DividedKernel, DivisionBound
from mcm_compiler.contracts.target import PackageLimits, Target, kind_names_of
from mcm_compiler.graph.constants import constant_values, placeable_nodes
from mcm_compiler.text.units import bytes_text, count_text, percent_text, seconds_text
from mcm_passes.mapping.problem.measured_names import kernels_of

VANISHING = frozenset(("Concat", "Identity", "Slice", "Split"))
"""Ops that a division may take out of the graph, since parts are read where they are made."""


def divided_kernels(
    model: ir.Model, target: Target, plan: FusionPlan
) -> tuple[DividedKernel, ...] | None:
    """The kernels of an undivided model; None where the target's costs say nothing of parts."""
    costs = costs_in(model.graph, target.cost_model())
    if not isinstance(costs, PricesParts) or kind_names_of(target):
        return None
    own_and_needed = _weights_of(model, costs, target.limits)
    outputs = set(model.graph.outputs)
    found: list[DividedKernel] = []
    for nodes in kernels_of(placeable_nodes(model.graph), plan):
        least = costs.least_work(nodes)
        if least is None:
            return None
        if all(node.op_type in VANISHING for node in nodes):
            least = LeastWork(0.0, 0.0, 0.0)
        own, before, after = own_and_needed(nodes)
        found.append(
            DividedKernel(
                nodes[-1].name or "",
                least.seconds,
                least.untied_s,
                int(own * least.weight_share),
                before,
                after,
                sum(costs.storage_bytes(v) for node in nodes for v in node.outputs if v in outputs),
            )
        )
    return tuple(found)


def _weights_of(
    model: ir.Model, costs: CostModel, limits: PackageLimits
) -> Callable[[Sequence[ir.Node]], tuple[int, int, int]]:
    """Bytes of weights of a kernel's own, and of those before and behind all of its parts.

    All are 0 where weights are streamed, or one chip has memory for those of the whole model.
    """
    stored = sum(max(costs.storage_bytes(one), 0) for one in constant_values(model.graph))
    if limits.stream_bytes_per_s > 0.0 or stored <= max(limits.sram_bytes):
        return lambda _: (0, 0, 0)
    # Small models load no sharding rules.
    from mcm_passes.parallelism.division_bounds.whole_demands import WholeDemands

    demands = WholeDemands(model)
    sizes = [costs.storage_bytes(weight) for weight in demands.weights]

    @cache
    def bytes_of(bits: int) -> int:
        return sum(size for i, size in enumerate(sizes) if bits >> i & 1)

    def weights_of(nodes: Sequence[ir.Node]) -> tuple[int, int, int]:
        own = [bits for node in nodes if (bits := demands.own[node])]
        alone = len(own) == 1 and demands.uses[own[0]] == 1
        return (
            bytes_of(own[0]) if alone else 0,
            min(bytes_of(demands.before[node]) for node in nodes),
            min(bytes_of(demands.after[node]) for node in nodes),
        )

    return weights_of


def division_bound(kernels: Sequence[DividedKernel], limits: PackageLimits) -> DivisionBound | None:
    """The best bound over ranges of chips; None for a model without work.

    Every chip counts as the one with the most memory, and as the fastest.
    """
    table = _Table(kernels, limits)
    ranges = [
        found
        for p in np.unique(table.first).tolist()
        for q in np.unique(table.last).tolist()
        if p <= q and (found := table.least_period(p, q)) is not None
    ]
    if not ranges:
        return None
    # Rounded down by a little, as sums are taken in another order elsewhere.
    best_s, first, last, argument = max(ranges, key=lambda found: found[0])
    seconds, (leaving_s, leave) = best_s * (1.0 - 1e-9) / table.speed, _leaving(kernels, limits)
    if leaving_s > seconds:
        return DivisionBound(leaving_s * (1.0 - 1e-9), leave, 0, 0, (), (), tuple(kernels))
    held = [
        (share.price, share.forced_bytes) if share.seconds < best_s else (0.0, 0)
        for share in table.shares[first : last + 1]
    ]
    prices, forced = zip(*held, strict=True)
    return DivisionBound(seconds, argument, first, last, prices, forced, tuple(kernels))


def _leaving(kernels: Sequence[DividedKernel], limits: PackageLimits) -> tuple[float, str]:
    size = sum(kernel.leaving_bytes for kernel in kernels)
    channels = min(limits.num_chips, 2) if limits.at_ends else limits.num_chips
    rate = min(limits.host_bytes_per_s * channels, limits.host_root_bytes_per_s)
    return (
        size / rate,
        f"outputs of {bytes_text(size)} leave over {count_text(channels, 'channel')}",
    )


class _Share(NamedTuple):
    """The most work of a chip, and what proves it (see `DivisionBound`)."""

    seconds: float
    price: float
    forced_bytes: int


class _Table:
    def __init__(self, kernels: Sequence[DividedKernel], limits: PackageLimits) -> None:
        chips, self._room = limits.num_chips, max(limits.sram_bytes)
        self.speed = max(limits.chip_speed or (1.0,))
        memory = np.array([0, *accumulate(sorted(limits.sram_bytes, reverse=True))], np.int64)

        def sizes(name: str) -> Longs:
            return np.array([getattr(k, name) for k in kernels], np.int64)

        def places(name: str) -> Longs:
            """Chips besides its own that a part of each kernel needs on one side at least."""
            return np.minimum(np.searchsorted(memory[1:], sizes(name)), chips - 1)

        self.first, self.last = places("before_bytes"), chips - 1 - places("after_bytes")
        self._work = np.array([k.seconds for k in kernels], np.float64)
        self._untied = np.array([k.untied_s for k in kernels], np.float64)
        self._tied = sizes("weight_bytes")
        even_s = float(self._work.sum()) / chips
        sides = [(sizes("before_bytes"), c) for c in range((chips + 1) // 2)]
        sides += [(sizes("after_bytes"), c) for c in reversed(range(chips // 2))]
        self.shares = [
            self._share(
                (self.first <= c) & (self.last >= c), np.maximum(needed - memory[n], 0), even_s
            )
            for c, (needed, n) in enumerate(sides)
        ]

    def least_period(self, p: int, q: int) -> tuple[float, int, int, str] | None:
        """Of the kernels whose parts are all on chips p to q; with the argument."""
        work_s = float(self._work[(self.first >= p) & (self.last <= q)].sum())
        most = np.sort([share.seconds for share in self.shares[p : q + 1]])
        left = np.arange(most.size, 0, -1)
        periods = (work_s - np.cumsum(most) + most) / left
        possible = np.flatnonzero(periods <= most)
        if work_s <= 0.0 or not possible.size:
            return None
        full, period_s = int(possible[0]), float(periods[possible[0]])
        argument = f"least work of {seconds_text(work_s)} of the parts of kernels on "
        argument += count_text(most.size, "chip")
        if most.size < len(self.shares):
            argument += f" ({p} to {q}: weights that come first or last fill the others)"
        if full:
            share = percent_text(float(most[full - 1]) / period_s)
            argument += f", {full} of which {'holds' if full == 1 else 'hold'} weights for at most "
            argument += f"{share} of a period"
        limited = [s.price for s in self.shares[p : q + 1] if s.seconds < period_s]
        most_s = period_s - float(self._work.sum()) / len(self.shares)
        more_s = min(sum(limited) * 2**20 / float(left[full]), most_s)
        for memory, gain_s in (("1 MiB more on each chip", more_s), ("unlimited memory", most_s)):
            if gain_s > 1e-3 * period_s:
                gain = seconds_text(gain_s / self.speed)
                argument += f"; {memory} lowers the bound by {gain}"
        return period_s, p, q, argument

    def _share(self, there: Bools, forced: Longs, even_s: float) -> _Share:
        """The least of several bounds, each of which allows for all work of some kernels.

        They are those that force the fewest bytes, as far as they take a small share of a period.
        The first of the others on a chip needs weights of kernels that are not there, or are
        allowed for.
        """
        order = np.flatnonzero(there)[np.argsort(forced[there], kind="stable")]
        sums = np.cumsum(self._work[order])
        at = np.searchsorted(sums, even_s * np.array((0.0, 0.01, 0.03, 0.1, 0.3)), side="right")
        found = [_Share(float(sums[-1]) if order.size else 0.0, 0.0, 0)]
        for least in np.unique(forced[order[at[at < order.size]]]).tolist():
            held = order[forced[order] >= least]
            seconds, price = self._knapsack(held, max(self._room - least, 0))
            free_s = float(self._work[order].sum() - self._work[held].sum())
            found.append(_Share(free_s + seconds, price, least))
        return min(found)

    def _knapsack(self, held: Longs, room: int) -> tuple[float, float]:
        """The most work of these kernels with so much memory, and the price of a byte.

        A fractional knapsack: most work for a byte comes first, and what needs no weights.
        """
        work, tied = self._work[held] - self._untied[held], self._tied[held]
        order = np.argsort(tied / np.maximum(work, 1e-30), kind="stable")
        work, used = work[order], np.cumsum(tied[order])
        fits = int(np.searchsorted(used, room, side="right"))
        limit_s, price = float(work[:fits].sum() + self._untied[held].sum()), 0.0
        if fits < work.size:
            price = float(work[fits] / tied[order][fits])
            limit_s += price * float(room - (used[fits - 1] if fits else 0))
        return limit_s, price
