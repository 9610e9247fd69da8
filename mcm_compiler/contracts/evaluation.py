"""The contract of batch evaluators: many partitions simulated fast enough for search.

An evaluator does in arrays what legalisation, splitting, lowering and simulation do with ONNX
models, with the same results. Its only inputs are partitions, so that search needs nothing else.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints, Longs


class ResultKind(IntEnum):
    """Verdict of an evaluator on a partition."""

    RUNS = 0
    """It fits and runs."""
    BREAKS_RULE = 1
    """It breaks a rule (`mcm_compiler.placements.ring_rules`), so that it cannot be lowered."""
    OVERFLOWS = 2
    """The memory plan of some chip does not fit: the dynamic constraint H(G, f) of MCM, Eq. 5."""


class BatchResults(NamedTuple):
    """Results for B partitions on C chips.

    Attributes:
        kind: `[B]`, a `ResultKind` each.
        period_s: `[B]`, seconds between inferences in steady state; infinite where it does not
            run.
        latency_s: `[B]`, of the first inference; infinite where it does not run.
        high_water_bytes: `[B, C]`, SRAM that each chip's plan needs, also where that is too much;
            0 on chips that are not used, and where a rule is broken.
        chip_busy_s: `[B, C]`, time of each compute engine per inference.
        link_busy_s: `[B, C]`, time of the link that leaves each chip for the next.
        shared_busy_s: `[B]`, time of the busiest channel that pipelines side by side share, for one
            inference of one pipeline; empty where they share none.
    """

    kind: Ints
    period_s: Floats
    latency_s: Floats
    high_water_bytes: Longs
    chip_busy_s: Floats
    link_busy_s: Floats
    shared_busy_s: Floats = np.empty(0, np.float64)

    def periods_of(self, pipelines: int) -> Floats:
        """`[B]`, seconds between inferences of each of this number of equal replicas.

        Never less than the time of their shared resources for an inference of each.
        """
        if pipelines == 1 or not self.shared_busy_s.size:
            return self.period_s
        return np.maximum(self.period_s, pipelines * self.shared_busy_s)


class BatchEvaluator(Protocol):
    """Evaluates partitions of one problem on one package. Pure, deterministic, uses all cores."""

    @property
    def name(self) -> str: ...

    def evaluate(self, partitions: Ints) -> BatchResults:
        """Lowers and simulates each partition.

        Args:
            partitions: `[B, N]`, chip of each unit; entries of clonable units are not looked at.
        """
        ...
