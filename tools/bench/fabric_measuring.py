"""How many mappings of blocks a second the judge of fabrics measures, and that it can be relied on.

Blocks are of the four families and bound by at most 2,000 cycles; measurements are per core, by
processor time. `disagreements` counts random problems whose period or latency differs from a plain
simulator's; `standstills` random legal mappings in which nothing moves any more, of 10,000;
`accepted_illegal` illegal ones that are not refused. `cut_off_error` is how far a measurement that
was given up with an error bound lies from one of ten times as many samples or more, at the 95th
percentile of those, of three times as many blocks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from harness.bars import Bar, median_bar
from harness.command_line import Settings, run_script

if TYPE_CHECKING:
    from mcm_compiler.contracts.fabrics.fabric import MappingProblem

# Generators and the plain simulator are those of the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

MOST_CYCLES = 2000
"""Bound of the blocks that are timed."""

BLOCKS = 40
CUT_OFF_BLOCKS = 120
MAPPINGS = 4
RANDOM_PROBLEMS = 300
STANDSTILL_PROBLEMS = 1000
"""With ten mappings each."""


def measure(settings: Settings) -> list[Bar]:
    """All bars; a tenth of the cases where `settings.quick`."""
    part = 10 if settings.quick else 1
    problems = list(_blocks(max(BLOCKS // part, 8)))
    return [
        _rate(problems, settings),
        median_bar("disagreements", [float(_disagreements(RANDOM_PROBLEMS // part))], 0.5),
        median_bar("standstills", [float(_standstills(STANDSTILL_PROBLEMS // part))], 0.5),
        median_bar("accepted_illegal", [float(_accepted(STANDSTILL_PROBLEMS // part))], 0.5),
        median_bar("cut_off_error", [_cut_off(CUT_OFF_BLOCKS // part)], 0.005),
    ]


def _blocks(count: int) -> Iterator[MappingProblem]:
    """Problems of random blocks, bound as `MOST_CYCLES` says."""
    from mcm_compiler.contracts.fabrics.target import UnitChoice
    from mcm_compiler.diagnostics import CompileError
    from mcm_hardware.families.fabric.fabric_package import fabric_12
    from mcm_hardware.families.fabric.layout.subgraph_layout import mapping_problem
    from mcm_hardware.families.fabric.measuring.player import FlitJudge
    from mcm_models.blocks.random_blocks import FAMILIES, random_block

    fabric, judge, seed = fabric_12().fabric, FlitJudge(), 0
    while count > 0:
        rng = np.random.default_rng(seed)
        block = random_block(FAMILIES[seed % len(FAMILIES)], rng, 40)
        seed += 1
        try:
            problem = mapping_problem(block.model, fabric, UnitChoice(block.compute_units, seed))
        except CompileError:  # too large for the units that were drawn
            continue
        if judge.bound_cycles(problem, fabric) <= MOST_CYCLES:
            count -= 1
            yield problem


def _rate(problems: Sequence[MappingProblem], settings: Settings) -> Bar:
    from mcm_hardware.families.fabric.fabric_package import fabric_12
    from mcm_hardware.families.fabric.measuring.player import ENOUGH, FlitJudge
    from tests.generators.small_fabric import legal_mappings

    fabric, judge = fabric_12().fabric, FlitJudge(enough=ENOUGH)
    rng = np.random.default_rng(0)
    cases = [(problem, legal_mappings(problem, fabric, MAPPINGS, rng)) for problem in problems]
    judge.measure(cases[0][0], fabric, cases[0][1])
    samples: list[float] = []
    for _ in range(settings.repetitions):
        start = time.process_time()
        for problem, mappings in cases:
            judge.measure(problem, fabric, mappings)
        samples.append(len(cases) * MAPPINGS / (time.process_time() - start))
    return median_bar("block_measurements_per_s", samples, 30.0, "above")


def _disagreements(count: int) -> int:
    from mcm_hardware.families.fabric.measuring.player import FlitJudge
    from tests.generators.random_fabric import random_fabric, random_problem
    from tests.generators.small_fabric import legal_mappings
    from tests.oracles.plain_fabric import play

    found = 0
    for seed in range(count):
        rng = np.random.default_rng([1, seed])
        fabric = random_fabric(rng)
        problem = random_problem(rng, fabric)
        mapping = legal_mappings(problem, fabric, 1, rng)
        measured, played = (
            FlitJudge().measure(problem, fabric, mapping),
            play(problem, fabric, mapping),
        )
        found += (
            measured.period_cycles[0] != float(played.period)
            or measured.latency_cycles[0] != played.latency
        )
    return found


def _standstills(count: int) -> int:
    from mcm_hardware.families.fabric.measuring.player import FlitJudge
    from tests.generators.random_fabric import random_fabric, random_problem
    from tests.generators.small_fabric import legal_mappings

    found = 0
    for seed in range(count):
        rng = np.random.default_rng([2, seed])
        fabric = random_fabric(rng)
        problem = random_problem(rng, fabric)
        try:
            FlitJudge().measure(problem, fabric, legal_mappings(problem, fabric, 10, rng))
        except AssertionError:
            found += 1
    return found


def _accepted(count: int) -> int:
    """Each mapping with one site or turn made wrong."""
    from mcm_compiler.contracts.fabrics.legality import faults_of_mapping
    from tests.generators.random_fabric import random_fabric, random_problem
    from tests.generators.small_fabric import legal_mappings

    found = 0
    for seed in range(count):
        rng = np.random.default_rng([3, seed])
        fabric = random_fabric(rng)
        problem = random_problem(rng, fabric)
        mapping = legal_mappings(problem, fabric, 1, rng)
        unit = int(rng.integers(problem.num_units))
        other_kind = np.flatnonzero(fabric.kind != problem.kind[unit])
        another = (unit + 1) % problem.num_units
        wrong = (-1, fabric.num_sites, int(rng.choice(other_kind)), int(mapping.site[0, another]))
        mapping.site[0, unit] = wrong[seed % len(wrong)]
        found += not faults_of_mapping(problem, fabric, mapping)
    return found


def _cut_off(count: int) -> float:
    from mcm_hardware.families.fabric.fabric_package import fabric_12
    from mcm_hardware.families.fabric.measuring.player import ENOUGH, FlitJudge
    from tests.generators.small_fabric import legal_mappings

    fabric, rng = fabric_12().fabric, np.random.default_rng(4)
    away: list[float] = []
    for problem in _blocks(count):
        mappings = legal_mappings(problem, fabric, MAPPINGS, rng)
        short = FlitJudge(enough=ENOUGH).measure(problem, fabric, mappings)
        late = np.flatnonzero(short.error > 0)
        for k in late:
            whole = FlitJudge(most_samples=2000).measure(problem, fabric, mappings[int(k)])
            away.append(abs(short.period_cycles[k] / whole.period_cycles[0] - 1))
    return float(np.percentile(away, 95)) if away else 0.0


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
