"""A lower bound on the period that covers every division, number of copies and placement.

All chips together do all work of an inference in a period T, whatever the number of copies and of
inferences a round. Chips depend on each other in no circle, so let them be numbered along the
dependencies. A part on chip c needs the weights before it on chips up to c, and has those behind
it on chips from c on: where these do not fit, it cannot be. Of what can be on a chip, the chip
does at most T, and at most what the weights that fit into its memory let it do. So T is at least
the period in which the chips of a range have time for the kernels that only they can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.cost import PricesParts, costs_in
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.partition import Bools, Floats
from mcm_compiler.contracts.sharding.divisions import DividedKernel, DivisionBound
from mcm_compiler.contracts.target import PackageLimits, Target, kind_names_of
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.text.units import count_text, seconds_text
from mcm_passes.mapping.problem.measured_names import kernels_of
from mcm_passes.parallelism.division_bounds.whole_demands import whole_demands

VANISHING = frozenset(("Concat", "Identity", "Slice", "Split"))
"""Ops that a division may take out of the graph, since parts are read where they are made."""


def divided_kernels(
    model: ir.Model, target: Target, plan: FusionPlan
) -> tuple[DividedKernel, ...] | None:
    """The kernels of an undivided model; None where the target's costs say nothing of parts."""
    costs = costs_in(model.graph, target.cost_model())
    if not isinstance(costs, PricesParts) or kind_names_of(target):
        return None
    demands = whole_demands(model)
    sizes = [costs.storage_bytes(weight) for weight in demands.weights]
    known: dict[int, int] = {}

    def bytes_of(bits: int) -> int:
        if bits not in known:
            known[bits] = sum(size for i, size in enumerate(sizes) if bits >> i & 1)
        return known[bits]

    users: dict[int, int] = {}
    for own in demands.own.values():
        users[own] = users.get(own, 0) + 1
    found: list[DividedKernel] = []
    for nodes in kernels_of(placeable_nodes(model.graph), plan):
        least = costs.least_work(nodes)
        if least is None:
            return None
        own = [bits for node in nodes if (bits := demands.own[node])]
        alone = len(own) == 1 and users[own[0]] == 1
        vanishes = all(node.op_type in VANISHING for node in nodes)
        found.append(
            DividedKernel(
                nodes[-1].name or "",
                0.0 if vanishes else least.seconds,
                0.0 if vanishes else least.untied_s,
                int(bytes_of(own[0]) * least.weight_share) if alone and not vanishes else 0,
                min(bytes_of(demands.before[node]) for node in nodes),
                min(bytes_of(demands.after[node]) for node in nodes),
            )
        )
    return tuple(found)


def division_bound(kernels: Sequence[DividedKernel], limits: PackageLimits) -> DivisionBound | None:
    """The best bound over ranges of chips; None for a model without work.

    Every chip counts as the one with the most memory, and as the fastest. Where weights may be
    streamed, memory forces nothing.
    """
    if not kernels:
        return None
    table = _Table(kernels, limits)
    best: _Range | None = None
    for p in np.unique(table.first).tolist():
        for q in np.unique(table.last).tolist():
            if p <= q and (found := table.least_period(p, q)) is not None:
                best = found if best is None or found.seconds > best.seconds else best
    if best is None or not np.isfinite(best.seconds):
        return None
    chips = count_text(best.last - best.first + 1, "chip")
    argument = f"least work of {seconds_text(best.work_s)} of the parts of kernels on {chips}"
    if full := sum(1 for price in best.prices if price > 0.0):
        idle = count_text(full, "chip")
        argument += f", {idle} of which hold weights for less work than a period"
    prices = tuple(best.prices)
    return DivisionBound(best.seconds, argument, best.first, best.last, prices, tuple(kernels))


class _Range(NamedTuple):
    seconds: float
    first: int
    last: int
    work_s: float
    prices: list[float]


class _Table:
    def __init__(self, kernels: Sequence[DividedKernel], limits: PackageLimits) -> None:
        streams = limits.stream_bytes_per_s > 0.0
        work = np.array([k.seconds for k in kernels], np.float64)
        tied = np.array([0 if streams else k.weight_bytes for k in kernels], np.float64)
        # Most work for a byte comes first, and what needs no weights before all.
        order = np.argsort(tied / np.maximum(work, 1e-30), kind="stable")
        chips = limits.num_chips
        memory = list(accumulate(sorted(limits.sram_bytes, reverse=True)))

        def places(name: str) -> Floats:
            """Chips besides its own that a part of each kernel needs on one side at least."""
            needed = np.array([0 if streams else getattr(k, name) for k in kernels], np.float64)
            return np.minimum(np.searchsorted(memory, needed), chips - 1)[order]

        self.first, self.last = places("before_bytes"), chips - 1 - places("after_bytes")
        self._work, self._tied = work[order], tied[order]
        self._untied = np.array([k.untied_s for k in kernels], np.float64)[order]
        self._room = float(max(limits.sram_bytes))
        self._speed = max(limits.chip_speed or (1.0,))

    def least_period(self, p: int, q: int) -> _Range | None:
        """Of the kernels whose parts are all on chips p to q."""
        inside = (self.first >= p) & (self.last <= q)
        work_s = float(self._work[inside].sum())
        if work_s <= 0.0:
            return None
        places = range(p, q + 1)
        limits = [self._most(inside & (self.first <= c) & (self.last >= c)) for c in places]
        most = np.sort(np.array([limit for limit, _ in limits]))
        done, seconds = 0.0, np.inf
        for i, limit in enumerate(most.tolist()):
            left = most.size - i
            if done + limit * left >= work_s:
                seconds = (work_s - done) / left
                break
            done += limit
        prices = [price if limit < seconds else 0.0 for limit, price in limits]
        # Rounded down by a little, as sums are taken in another order elsewhere.
        return _Range(seconds / self._speed * (1.0 - 1e-9), p, q, work_s, prices)

    def _most(self, there: Bools) -> tuple[float, float]:
        """The most work of a chip that holds weights of these kernels, and the price of a byte.

        A fractional knapsack. Without weights to choose from, the price is one at which all fit.
        """
        work, tied = self._work[there] - self._untied[there], self._tied[there]
        used = np.cumsum(tied)
        whole = used <= self._room
        limit = float(work[whole].sum() + self._untied[there].sum())
        if whole.all():
            return limit, 1e-30
        k = int(np.argmin(whole))
        price = float(work[k] / tied[k])
        return limit + price * float(self._room - (used[k] - tied[k])), price
