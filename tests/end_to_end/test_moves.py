"""What the report says a move would take holds when the move is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mcm_compiler.api import CompileResult, compile_model
from mcm_compiler.contracts.partition import Outcome
from mcm_compiler.contracts.target import machine_of
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.moves import Move, find_moves
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp

OPTIONS = CompileOptions(
    passes="simplify,fuse,annotate_cost,shard_oversized,partition,legalize,split,lower,simulate",
    partitioner="dp",
)


def moves_of(result: CompileResult, chip: int, kernel: int) -> list[Move]:
    assert result.program is not None
    assert result.simulation is not None
    program = result.program.chips[chip]
    graph = next(c.model.graph for c in result.chips or () if c.chip == chip)
    limits, machine = result.target.limits, machine_of(result.target)
    assert machine is not None
    return find_moves(kernel, program, graph, result.program, result.simulation, limits, machine)


@pytest.mark.parametrize(
    ("model", "target", "chip"),
    [("zoo:bert-tiny", "mcm4", 1), ("zoo:bert-tiny", "mcm4", 2), ("zoo:gpt2-tiny", "mcm4", 1)],
)
def test_a_move_needs_no_more_than_it_says(
    model: str, target: str, chip: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = compile_model(model, target, OPTIONS)
    assert result.program is not None
    assert result.problem is not None
    assert result.partition is not None
    program = result.program.chips[chip]
    problem, placed = result.problem, np.array(result.partition.chip_of)
    unit_of = {name: unit for unit, names in enumerate(problem.members) for name in names}
    before = {c.chip: c.high_water_bytes for c in result.program.chips}
    tried = 0
    for kernel in range(0, len(program.kernels), 2):
        for move in moves_of(result, chip, kernel):
            chip_of = placed.copy()
            for name in (n for k in move.moved for n in program.kernels[k].nodes):
                unit = unit_of.get(name)  # relays have none
                if unit is not None and not problem.clonable[unit]:
                    chip_of[unit] = move.to_chip
            outcome = Outcome(chip_of, 1)

            def solve(*_: Any, made: Outcome = outcome) -> Outcome:
                return made

            with monkeypatch.context() as patch:
                patch.setattr(ContiguousDp, "solve", solve)
                moved = compile_model(model, target, OPTIONS)
            assert moved.program is not None
            assert moved.simulation is not None
            after = {c.chip: c.high_water_bytes for c in moved.program.chips}
            assert after[move.to_chip] - before.get(move.to_chip, 0) <= move.need_bytes
            busy_s = {c.chip: c.busy_s for c in moved.simulation.chips}
            assert busy_s[move.to_chip] == pytest.approx(move.there_s, rel=0.01)
            tried += 1
    assert tried >= 3
