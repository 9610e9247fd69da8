"""Searches whose samples are measured go on where they ended, and their table is right."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.evaluation import ResultKind
from tests.generators.partition_problems import make_problem
from tools.kept_records import KeptRecords
from tools.reproduce.machines import ring_searches
from tools.reproduce.machines.ring_searches import (
    CHIPS,
    MODELS,
    SEARCHES,
    MeasuredRing,
    SpentError,
    search_key,
    section,
)


class FakeRun:
    """Measures what the second of two units takes."""

    measured = 0

    def __init__(self, model: str, chips: int, *_: Any) -> None:
        self.problem, self.kernel_s = make_problem([1, 1], [(0, 1)]), {"u0": 1.0, "u1": 2.0}

    def record(self, chip_of: dict[str, int], tries: int) -> dict[str, Any]:
        FakeRun.measured += 1
        busy_s = [2.0] if len({*chip_of.values()}) == 1 else [1.0, 2.0]
        return {
            "at": [*range(len(busy_s))], "busy_s": busy_s, "period_cpu_s": max(busy_s),
            "repeat_error": 0.0, "load": 1.0, "outputs_equal": True,
        }  # fmt: skip


@pytest.fixture
def records(tmp_path: Path) -> KeptRecords:
    return KeptRecords(tmp_path / "searches.jsonl", "code")


def test_a_partition_is_measured_once(
    records: KeptRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring_searches, "Run", FakeRun)
    FakeRun.measured = 0
    ring = MeasuredRing("m", 2, records, float("inf"))
    found = ring.evaluate(np.array([[0, 1], [1, 0], [0, 1]], np.int32))
    assert found.kind.tolist() == [ResultKind.RUNS, ResultKind.OVERFLOWS, ResultKind.RUNS]
    assert found.period_s.tolist() == ring.seen == [2.0, np.inf, 2.0]
    assert found.chip_busy_s[0].tolist() == [1.0, 2.0]
    spent = MeasuredRing("m", 2, records, 0.0)
    assert spent.evaluate(np.array([[0, 1]], np.int32)).period_s.tolist() == [2.0]
    with pytest.raises(SpentError):
        spent.evaluate(np.array([[0, 0]], np.int32))
    assert FakeRun.measured == 1


def test_the_table_has_whole_seeds_alone(records: KeptRecords) -> None:
    for model, chips in itertools.product(MODELS, CHIPS):
        for row, period_s in (("01", 1.0), ("10", 2.0)):
            records.keep(
                {
                    "key": f"{model} {chips} {row}", "model": model, "chips": chips, "row": row,
                    "period_s": period_s, "predicted_s": period_s, "roofline_s": -period_s,
                    "repeat_error": 0.01, "load": 2.0,
                }
            )  # fmt: skip
    whole = [(*problem, 20) for problem in itertools.product(MODELS, CHIPS)]
    for model, chips, samples in (*whole, (MODELS[0], CHIPS[0], 100)):
        before = section(records)
        for name in SEARCHES:
            assert section(records) == before
            key = search_key(model, chips, name, samples, 0)
            steps = [[1, 2.0], [3, 1.1 if name == "Random" else 1.0]]
            records.keep({"key": key, "search": name, "steps": steps})
    lines = section(records).splitlines()
    heads = ("2 chips, 20 samples", f"2 chips, 100 samples, `{MODELS[0]}`", "4 chips, 20 samples")
    assert f"| search | {' | '.join(f'{head}, 1 seed' for head in heads)} |" in lines
    assert "| Random | 10.0 % | 10.0 % | 10.0 % |" in lines
    assert "| Thompson | 0.0 % | 0.0 % | 0.0 % |" in lines
    assert any("1.00 to 1.00 by measured kernels, -1.00" in line for line in lines)
