"""How many sequences a pipeline needs, and how many fit."""

from __future__ import annotations

import pytest

from mcm_compiler.contracts.program import ChipProgram, LoweredProgram
from mcm_compiler.machines.choices import MOST_SEQUENCES
from mcm_compiler.placements.side_by_side import fitting_sequences, needed_sequences
from mcm_hardware.families.ring.ring_target import mcm36

SRAM = 64 << 20


def program(*chips: tuple[int, int], sequences: int = 1) -> LoweredProgram:
    """Chips with what they use and what a further sequence takes."""
    return LoweredProgram(
        "mcm36",
        tuple(ChipProgram(c, (), (), used, 0, more) for c, (used, more) in enumerate(chips)),
        (),
        sequences=sequences,
    )


@pytest.mark.parametrize(
    ("latency", "period", "needed"),
    [(10.0, 4.0, 3), (12.0, 4.0, 3), (3.0, 4.0, 1), (0.3, 0.1, 3), (12.1, 4.0, 4)],
)
def test_as_many_as_steps_are_under_way(latency, period, needed):
    assert needed_sequences(latency, period) == needed


def test_the_fullest_chip_limits_the_sequences():
    assert fitting_sequences(program((SRAM - 100, 30), (0, 1 << 20), (0, 0)), mcm36()) == 4
    assert fitting_sequences(program((SRAM - 29, 30), sequences=2), mcm36()) == 2


def test_no_more_are_counted_than_a_program_may_hold():
    assert fitting_sequences(program((0, 1)), mcm36()) == MOST_SEQUENCES
    assert fitting_sequences(program((0, 0)), mcm36()) == MOST_SEQUENCES
