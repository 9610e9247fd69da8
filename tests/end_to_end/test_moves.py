"""What the report says of a move holds when the move is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mcm_compiler.api import CompileResult, compile_model
from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.partition import Outcome
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.advice.moves import find_moves
from mcm_compiler.report.report_data import build_report
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp

OPTIONS = CompileOptions(
    passes="simplify,fuse,annotate_cost,shard_oversized,partition,legalize,split,lower,simulate",
    partitioner="dp",
)


def placed(model: str, chip_of: Ints, monkeypatch: pytest.MonkeyPatch) -> CompileResult:
    """A compile with this placement."""

    def solve(*_: Any) -> Outcome:
        return Outcome(chip_of, 1)

    with monkeypatch.context() as patch:
        patch.setattr(ContiguousDp, "solve", solve)
        return compile_model(model, "mcm4", OPTIONS)


@pytest.mark.parametrize("model", ["zoo:bert-tiny", "zoo:gpt2-tiny"])
def test_a_move_brings_what_it_says(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = compile_model(model, "mcm4", OPTIONS).problem
    assert problem is not None
    # Most of the work on chip 1: there is much to move, forwards and back.
    places = np.arange(problem.num_units) * 8 // problem.num_units
    crowded = np.array([0, 1, 1, 1, 1, 1, 2, 3], np.int32)[places]
    before = placed(model, crowded, monkeypatch)
    report = build_report(before)
    moves = report["bottleneck"]["moves"]
    assert before.program is not None
    held = {chip.chip: chip.high_water_bytes for chip in before.program.chips}
    assert len(moves) == 3
    assert before.certificate is not None
    units_of = {
        (problem.names[move.unit], move.to_chip, len(move.units) - 1): move.units
        for move in find_moves(before.certificate).helpful
    }
    for move in moves:
        units = units_of[move["name"], move["to_chip"], move["along"]]
        chip_of = crowded.copy()
        chip_of[list(units)] = move["to_chip"]
        after = placed(model, chip_of, monkeypatch)
        told = build_report(after)
        assert told["analytic_period_s"] == move["period_s"]
        assert move["gain"] == pytest.approx(1 - move["period_s"] / report["analytic_period_s"])
        assert told["period_s"] < report["period_s"]
        assert after.program is not None
        taken = {chip.chip: chip.high_water_bytes for chip in after.program.chips}
        assert taken[move["to_chip"]] - held[move["to_chip"]] <= move["need_bytes"]
        busy_s = {row["chip"]: row["busy_s"] for row in told["chips"]}
        assert busy_s[move["to_chip"]] == pytest.approx(move["busy_there_s"], rel=0.05)
