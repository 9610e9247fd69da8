"""A good chain of ideals where a graph has too many to look at all."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.placement import PlacementProblem
from mcm_passes.mapping.device_placement.chain_ideals import as_words, ideals_of_orders, neighbours
from mcm_passes.mapping.device_placement.device_chains import ChainSearch, DeviceChain, Reading
from mcm_passes.mapping.device_placement.device_groups import DeviceGroups

MOST_IDEALS = 12_000
"""Ideals that are looked at together."""

MOST_ORDERS = 48

MOST_ROUNDS = 40


def sampled_chain(
    problem: PlacementProblem, groups: DeviceGroups, reading: Reading, rng: np.random.Generator
) -> DeviceChain | None:
    """The best chain through ideals of some orders, improved where devices hand over.

    Each round adds the ideals near those where the best chain hands over, until none is better
    (our derivation). None where no chain was found.
    """
    orders = max(3, min(MOST_ORDERS, MOST_IDEALS // groups.count))
    ideals = ideals_of_orders(groups, rng, orders)
    best: DeviceChain | None = None
    for _ in range(MOST_ROUNDS):
        search = ChainSearch(problem, groups, as_words(ideals, groups.count))
        found = search.optimum(reading) if best is None else search.below(reading, best.period)
        if found is None or (best is not None and not found.period < best.period):
            break
        best = found
        hand_overs = _hand_overs(groups, best)
        ideals = {0, (1 << groups.count) - 1, *hand_overs}
        for held in hand_overs:
            near = sorted(neighbours(groups, held))
            ideals.update(near[: MOST_IDEALS // len(hand_overs)])
    return best


def _hand_overs(groups: DeviceGroups, chain: DeviceChain) -> list[int]:
    """The ideals where one device hands over to the next."""
    order = np.argsort(chain.step_of, kind="stable")
    steps = chain.step_of[order]
    found, held = list[int](), 0
    for at, v in enumerate(order.tolist()):
        if at and steps[at] != steps[at - 1]:
            found.append(held)
        held |= 1 << v
    return found or [held]
