"""The judge of fabrics: plays flits until the state repeats; see the contract of measurements.

It is apart from the event graph of packages, in which a channel carries whole tensors: flits of
several streams take turns at each switch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Longs
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings, bound_cycles
from mcm_compiler.contracts.fabrics.legality import faults_of_mapping, faults_of_problem
from mcm_compiler.contracts.fabrics.measurement import Measurements
from mcm_hardware.families.fabric.measuring.laid_out import mesh_arrays, unit_arrays
from mcm_hardware.families.fabric.measuring.periods import cut_off_period
from mcm_hardware.families.fabric.measuring.player import Limits, play_mapping

PHYSICS = "2bcaac19b6eb09b1d1eac52dba59b42ffa4b81ef727a7f7269ee15a68d6c3c12"
"""SHA-256 of the answers to recorded cases, as the tests work it out: whatever answers otherwise
has to have another name. It is not one of the source, which may be written better."""

ENOUGH = 0.02
"""Error bound with which targets give plays up whose state has not repeated yet. Such plays take
most of the time; the bound is reached after some hundred samples, and is several times as wide as
what periods are off by."""

MOST_HOPS = 1_000_000_000
"""Hops of flits in a play: some 20 seconds on one core, what the largest chips take."""

FEWEST_ENDS = 5
"""Samples that a period without a repeat is read off."""


@dataclass(frozen=True)
class FlitJudge:
    """Measures by playing every flit.

    Attributes:
        most_work: cycles in which anything happens that are played for one mapping; where no state
            repeats by then, the period has an error bound.
        most_hops: hops of flits that are played for one mapping, likewise. They take the time: a
            cycle of a full chip has hundreds of them, one of a small block a few.
        most_samples: samples that are played.
        enough: error bound with which a play is given up whose state has not repeated yet; 0 to go
            on to the end.
    """

    most_work: int = 4_000_000
    most_hops: int = MOST_HOPS
    most_samples: int = 2_000
    enough: float = 0.0

    @property
    def name(self) -> str:
        return "flit"

    @property
    def physics(self) -> str:
        return PHYSICS

    def bound_cycles(self, problem: MappingProblem, fabric: Fabric) -> float:
        return bound_cycles(problem, fabric)

    def measure(self, problem: MappingProblem, fabric: Fabric, mappings: Mappings) -> Measurements:
        faults = faults_of_problem(problem, fabric) or faults_of_mapping(problem, fabric, mappings)
        if faults:
            raise ValueError("; ".join(faults))
        arrays, mesh = unit_arrays(problem), mesh_arrays(fabric)
        bound = bound_cycles(problem, fabric)
        # One kind of array, whatever mappers make: each kind is a compilation of the whole play.
        sites = np.array(mappings.site, np.int32, order="C")
        turns = np.array(mappings.turn, np.int32, order="C")
        limits = Limits(self.most_work, self.most_hops, self.most_samples, float(self.enough))
        period, latency, error = np.empty((3, len(mappings)))
        for k in range(len(mappings)):
            played = play_mapping(arrays, mesh, sites[k], turns[k], limits)
            if played.first < 0:
                raise AssertionError(f"mapping {k} of {problem.name} stands still")
            latency[k] = played.ends[0] + 1 if len(played.ends) else np.inf
            period[k], error[k] = period_of(played.ends, played.first)
            if error[k] > 0:
                # A guess may lie below what no mapping reaches; an exact period never does.
                period[k] = max(period[k], bound)
        return Measurements(period, latency, error)


def period_of(ends: Longs, first: int) -> tuple[float, float]:
    """Cycles per sample, and by which share they may be wrong.

    Where no state came back, the second half of the samples is taken for the state that the fabric
    comes to; see `periods.cut_off_period`.

    Args:
        ends: `[n]`, cycle in which each sample ended.
        first: samples that had ended in the same state as after the last; 0 where none did.
    """
    n = len(ends)
    if first > 0:
        return float(ends[n - 1] - ends[first - 1]) / (n - first), 0.0
    if n < FEWEST_ENDS:  # too few to tell
        return (float(ends[-1] + 1) / n if n else np.inf), 1.0
    return cut_off_period(ends, n)
