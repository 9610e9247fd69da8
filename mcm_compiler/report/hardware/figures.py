"""The figures of a compile by which it is compared with others."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mcm_compiler.contracts.partition import LowerBound, Partition
from mcm_compiler.contracts.program import SimulationResult
from mcm_compiler.contracts.replication import Replication


@dataclass(frozen=True)
class PackageFigures:
    """Figures of a compiled model on the whole package; None where the pipeline has none.

    Attributes:
        period_s: between two inferences in steady state, from the simulator.
        latency_s: of one inference, from the simulator.
        analytic_s: as `period_s`, under the cost model.
        bound: proven for all pipelines together, under the cost model.
    """

    period_s: float | None
    latency_s: float | None
    analytic_s: float | None
    bound: LowerBound | None

    @property
    def throughput_per_s(self) -> float | None:
        """Inferences per second."""
        return 1.0 / self.period_s if self.period_s else None

    @property
    def bound_s(self) -> float | None:
        """Seconds of the bound."""
        return self.bound.seconds if self.bound is not None else None


def package_figures(
    simulation: SimulationResult | None,
    partition: Partition | None,
    replication: Replication | None,
) -> PackageFigures:
    """The figures of all pipelines together.

    Args:
        simulation: of one of them.
        partition: of one of them.
        replication: how many there are; None for one.
    """
    at_once = replication.at_once if replication else 1
    bound = partition.bound if partition else None
    if replication is not None and bound is not None:
        bound = replication.bound(bound)
    return PackageFigures(
        simulation.period_s / at_once if simulation else None,
        finite(simulation.latency_s) if simulation else None,
        partition.period_s / at_once if partition else None,
        bound,
    )


DUST = 2e-12
"""Share of a period below which a number comes from rounding, and counts as 0; bounds are lowered
by half of it."""


def gap(period_s: float | None, bound_s: float | None) -> float | None:
    """`period / bound - 1`, 0 for dust; None where one is not known or the bound says nothing."""
    if period_s is None or bound_s is None or not bound_s > 0:
        return None
    return finite(without_dust(period_s / bound_s - 1.0, 1.0))


def without_dust(number: float, whole: float) -> float:
    """The number, or 0 where it is dust next to a whole."""
    return number if abs(number) > DUST * whole else 0.0


def finite(number: float | None) -> float | None:
    """The number, or None for one that JSON does not have."""
    return number if number is not None and math.isfinite(number) else None
