"""How many sequences a pipeline needs, and how many fit."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from mcm_compiler.contracts.program import ChipProgram, LoweredProgram, MemoryOverflow
from mcm_compiler.contracts.replication import Replication
from mcm_compiler.machines.choices import MOST_SEQUENCES
from mcm_compiler.placements import side_by_side
from mcm_compiler.placements.side_by_side import fitting_sequences, most_served, needed_sequences
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


@pytest.mark.parametrize(
    ("fit", "needed", "slower", "served"),
    [(24, 31, 1.0, 24), (40, 31, 1.0, 31), (24, 31, 1.5, 21), (1, 31, 1.0, 1), (2, 1, 1.0, 1)],
)
def test_chips_that_stream_hold_what_fits_or_a_little_less(
    monkeypatch, fit, needed, slower, served
):
    """Nearly full chips may stream so much more that fewer sequences are served faster."""
    over = MemoryOverflow(0, SRAM + 1, SRAM, ())

    def holding(count: int) -> LoweredProgram:
        made = program((0, 1), sequences=count)
        return replace(made, overflows=(over,)) if count > fit else made

    def simulated(_, one, *__):
        assert not one.overflows
        return SimpleNamespace(period_s=(slower if one.sequences == fit else 1.0) / one.sequences)

    monkeypatch.setattr(side_by_side, "simulate_pipelines", simulated)
    found = most_served(holding(1), mcm36(), Replication(1, 36), needed, holding)
    assert found.sequences == served
