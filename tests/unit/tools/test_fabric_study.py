"""The switches of the judge under open-loop traffic, and what is recorded of booksim2."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.generators.small_fabric import small_fabric

REPRODUCE = Path(__file__).resolve().parents[3] / "tools" / "reproduce"
ROWS = json.loads((REPRODUCE / "data" / "fabric_switches.json").read_text(encoding="utf-8"))["rows"]


def test_the_record_holds_what_is_promised() -> None:
    """Latency without load equal, saturation within 5 %."""
    for row in ROWS:
        if row["rate"] < 0.1:
            # A channel of a cycle before the first router, and one behind the last.
            assert row["latency"] == pytest.approx(row["booksim_latency"] - 2, rel=0.01)
        else:
            assert row["accepted"] == pytest.approx(row["booksim_accepted"], rel=0.05)


def test_the_record_is_what_the_switches_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPRODUCE / "fabrics"))
    monkeypatch.delitem(sys.modules, "lcm_study", raising=False)
    from lcm_study.open_loop import open_loop

    fabric = replace(small_fabric(8, 8), hop_cycles=3)
    for row in ROWS[:2]:
        seen = open_loop(
            replace(fabric, fifo_flits=row["fifo_flits"]), row["rate"], row["traffic"], 12_000, 1
        )
        assert round(seen.latency, 3) == row["latency"]
        assert round(seen.accepted, 4) == row["accepted"]
