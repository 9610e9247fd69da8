"""Sequences in flight: how many a pipeline needs, and of how many its chips can hold the states.

A step of a sequence starts once the step before has ended, so that one sequence alone leaves most
of a pipeline idle. As many as steps are under way at once keep it as busy as independent inferences
do.
"""

from __future__ import annotations

import math
from dataclasses import replace

from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.replication import Replication
from mcm_compiler.contracts.simulation import SimulationResult
from mcm_compiler.contracts.target import Simulates, Target
from mcm_compiler.machines.choices import MOST_SEQUENCES
from mcm_compiler.placements.side_by_side import simulate_pipelines

SLACK = 1e-9
"""Relative room for rounding where a latency is a whole number of periods."""


def needed_sequences(latency_s: float, period_s: float) -> int:
    """Sequences with which a pipeline answers as often as for independent inferences."""
    return max(math.ceil(latency_s / period_s * (1.0 - SLACK)), 1)


def fitting_sequences(program: LoweredProgram, target: Target) -> int:
    """Sequences whose states fit into the chips beside all else, at most `MOST_SEQUENCES`."""
    sram = target.limits.sram_bytes
    further = [
        max(sram[chip.chip] - chip.high_water_bytes, 0) // chip.state_bytes
        for chip in program.chips
        if chip.state_bytes
    ]
    return min([MOST_SEQUENCES, *(program.sequences + more for more in further)])


def independent(target: Target, program: LoweredProgram, side: Replication) -> SimulationResult:
    """The simulation of a program as if its inferences had nothing to do with each other."""
    alone = replace(program, sequences=0)
    return simulate_pipelines(target, alone, 1, side.replicas, side.chips_each)


def wanted_sequences(program: LoweredProgram, target: Target, side: Replication) -> int:
    """Sequences that a pipeline needs; those of the program where the target has no simulator."""
    if not isinstance(target, Simulates):
        return program.sequences
    found = independent(target, program, side)
    return needed_sequences(found.latency_s, found.period_s)
