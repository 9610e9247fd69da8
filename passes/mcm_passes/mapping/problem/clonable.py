"""Which units are cheap enough to be computed again on every chip that reads them.

An attention mask that all layers read pins all layers to one chip under the paper's triangle
rule, and costs a relay per chip otherwise. Computing it again from what the host sends costs
next to nothing (our derivation; the paper leaves such graphs out).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Bools, Floats, Longs


@dataclass(frozen=True)
class CloningLimits:
    """What a unit may cost and still be cloned.

    Attributes:
        work_share: most seconds of a unit and all clonable units behind it, as a share of the
            ideal period (total work over chips).
        sram_share: most bytes that one such chain holds on a chip (inputs, weights and outputs),
            as a share of its SRAM.
        max_chain: most units in a chain.
    """

    work_share: float = 0.02
    sram_share: float = 1 / 16
    max_chain: int = 16


@dataclass(frozen=True)
class CloneFacts:
    """What the choice depends on. Lists are by unit, in topological order.

    Attributes:
        compute_s: `[N]`.
        held_bytes: `[N]`, bytes of graph inputs, weights and outputs of each unit.
        allowed: `[N]`, False for units that draw random numbers, make a graph output, make
            nothing at all, or are pinned.
        producers: `[N]`, distinct units that each unit reads.
    """

    compute_s: Floats
    held_bytes: Longs
    allowed: Bools
    producers: list[list[int]]


def choose_clonable(
    facts: CloneFacts, num_chips: int, sram_bytes: int, limits: CloningLimits
) -> Bools:
    """`[N]`, True for units that are copied to each chip that reads them.

    A unit qualifies if all it reads comes from the host, from constants or from other clonable
    units, if its chain is within `limits`, and if at least two units that are not clonable read
    it in the end: with a single reader there is nothing to copy.
    """
    num_units = len(facts.producers)
    work_limit = limits.work_share * float(facts.compute_s.sum()) / max(num_chips, 1)
    bytes_limit = int(limits.sram_share * sram_bytes)
    seconds = facts.compute_s.tolist()
    held = facts.held_bytes.tolist()
    length = [1] * num_units
    candidate = [False] * num_units
    for u in range(num_units):
        if not facts.allowed[u] or not all(candidate[p] for p in facts.producers[u]):
            continue
        # Shared ancestors are counted once per path: an upper bound, and linear to compute.
        for p in facts.producers[u]:
            seconds[u] += seconds[p]
            held[u] += held[p]
            length[u] += length[p]
        candidate[u] = (
            seconds[u] <= work_limit and held[u] <= bytes_limit and length[u] <= limits.max_chain
        )
    # At most two readers are remembered: whether there are two is all that matters.
    readers: list[set[int]] = [set() for _ in range(num_units)]
    for u in range(num_units - 1, -1, -1):
        candidate[u] = candidate[u] and len(readers[u]) >= 2
        passed_on = readers[u] if candidate[u] else {u}
        for p in facts.producers[u]:
            for reader in passed_on:
                if len(readers[p]) < 2:
                    readers[p].add(reader)
    return np.array(candidate, dtype=np.bool_)
