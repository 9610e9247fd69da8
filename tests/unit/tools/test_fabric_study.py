"""Studies of fabrics: records are what the flit simulator gives, and tables are fair."""

from __future__ import annotations

import importlib
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcm_hardware.families.fabric.fabric_package import fabric_12
from mcm_hardware.families.fabric.layout.rules import lowering_hash
from mcm_hardware.families.fabric.measuring.player import ENOUGH, PHYSICS, FlitJudge
from mcm_models.mapping_model.data_files import load_data
from mcm_models.mapping_model.data_set import Learned, make_of
from tests.generators.small_fabric import small_fabric

REPRODUCE = Path(__file__).resolve().parents[3] / "tools" / "reproduce"
ROWS = json.loads((REPRODUCE / "data" / "fabric_switches.json").read_text(encoding="utf-8"))["rows"]

PAGES_WITH_PLOTS = ("results/fabrics.md", "explanation/learned-mapping.md")


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
    row, *_ = ROWS
    alike = replace(fabric, fifo_flits=row["fifo_flits"])
    seen = open_loop(alike, row["rate"], row["traffic"], 12_000, 1)
    assert round(seen.latency, 3) == row["latency"]
    assert round(seen.accepted, 4) == row["accepted"]


def _row(flow: str, block: str, seed: int, over_bound: float) -> dict[str, object]:
    return {"flow": flow, "block": block, "seed": seed, "over_bound": over_bound, "evaluations": 10}


def test_a_learned_flow_wins_only_where_its_interval_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(REPRODUCE / "fabrics"))
    monkeypatch.delitem(sys.modules, "lcm_study", raising=False)
    from lcm_study.flow_table import compared, winners

    learned = {"formula": False, "wires": False, "network": True}
    plain = [_row("formula", f"b{k}", 0, 2.0) for k in range(8)]
    plain += [_row("wires", f"b{k}", 0, 3.0) for k in range(8)]
    # Cells that not all have run do not count.
    plain.append(_row("network", "b9", 0, 0.1))
    sure = [_row("network", f"b{k}", 0, 1.8) for k in range(8)]
    assert winners(plain + sure, learned) == ("network", "formula")
    unsure = [_row("network", f"b{k}", 0, 1.2 if k == 0 else 2.02) for k in range(8)]
    assert winners(plain + unsure, learned) == ("formula", "formula")
    found = compared(plain + sure, list(learned), "formula")
    assert [row.ratio for row in found] == pytest.approx([1, 1.5, 0.9])
    assert [row.over_bound for row in found] == pytest.approx([2, 3, 1.8])
    assert found[2].low == pytest.approx(0.9)


def test_a_network_of_another_lowering_is_refused_and_the_blocks_are_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(REPRODUCE / "fabrics"))
    monkeypatch.delitem(sys.modules, "lcm_study", raising=False)
    import lcm_adaptivity as study

    assert study.refusal() == "MCM-M053"
    (plain,) = study.blocks(fabric_12().fabric, 0, 1)
    (changed,) = study.blocks(fabric_12().fabric, 0, 1, rules=study.CHANGED)
    assert plain.name == changed.name
    # Streams are read more often.
    assert changed.flits.sum() > plain.flits.sum()


def test_the_published_measurements_are_what_the_judge_says() -> None:
    """Arrays, card, make, lowering and physics fit together; exact labels are measured anew."""
    path = REPRODUCE / "data" / "fabric_measurements.npz"
    data = load_data(path)
    card = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    known = Learned(make_of(fabric_12().fabric), lowering_hash(), PHYSICS)
    assert data.learned == known == Learned(**card["learned"])
    assert (data.measurements, len(data.graphs)) == (card["measurements"], card["graphs"])
    assert data.measurements >= 5878
    assert path.stat().st_size < 10_000_000
    exact = [graph for graph in data.graphs if (graph.error == 0).any()]
    small = sorted(exact, key=lambda g: g.bound_cycles * g.problem.num_units)[:6]
    for graph in small:
        row = int(np.flatnonzero(graph.error == 0)[-1])
        found = FlitJudge(enough=ENOUGH).measure(graph.problem, data.fabric, graph.mappings[row])
        assert found.period_cycles[0] == graph.period_cycles[row]
        assert found.latency_cycles[0] == graph.latency_cycles[row]


def test_records_of_accuracy_are_of_the_published_measurements() -> None:
    known = load_data(REPRODUCE / "data" / "fabric_measurements.npz")
    for name in ("accuracy", "ablations", "knowable", "physics"):
        record = json.loads((REPRODUCE / "data" / f"lcm_{name}.json").read_text(encoding="utf-8"))
        assert Learned(**record["learned"]) == known.learned
        assert record["graphs"] <= len(known.graphs)


@pytest.mark.parametrize("section", ["ablations", "knowable", "physics"])
def test_pages_show_what_records_hold(
    section: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(REPRODUCE / "fabrics"))
    monkeypatch.delitem(sys.modules, "lcm_study", raising=False)
    module = importlib.import_module(f"lcm_{section}")
    shown = module.PAGE.read_text(encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(re.sub(r"0\.\d\d\d", "?", shown), encoding="utf-8")
    monkeypatch.setattr(module, "PAGE", page)
    module.write_page(json.loads(module.RECORD.read_text(encoding="utf-8")))
    written = page.read_text(encoding="utf-8")
    table = written.partition(f"<!-- begin {section} -->")[2].partition(f"<!-- end {section}")[0]
    assert "0." in table
    assert table in shown


def test_races_are_recorded_on_the_page_and_reach_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPRODUCE / "fabrics"))
    monkeypatch.delitem(sys.modules, "lcm_study", raising=False)
    import lcm_racing as study

    record = json.loads(study.RECORD.read_text(encoding="utf-8"))
    assert record["knows"] == study.knows(study.FLOWS[0])
    assert study.page_of(record["rows"]) in study.PAGE.read_text(encoding="utf-8")
    for limit in {row["limit"] for row in record["rows"]}:
        rows = [row for row in record["rows"] if row["limit"] == limit]
        found = study.compared(rows, sorted({row["flow"] for row in rows}), study.BASE)
        assert min(row.low for row in found) > 0.97


def test_plots_are_there_and_draw_what_tables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPRODUCE / "fabrics"))
    monkeypatch.delitem(sys.modules, "lcm_study", raising=False)
    import lcm_plots as study

    docs = REPRODUCE.parents[1] / "docs"
    pages = [(docs / page).read_text(encoding="utf-8") for page in PAGES_WITH_PLOTS]
    for plot in study.PLOTS:
        assert any(f"images/{plot.name}" in page for page in pages)
    drawn, errors = study.PLOTS
    record = json.loads(study.ACCURACY.read_text(encoding="utf-8"))
    assert errors.read_text(encoding="utf-8") == study.errors_picture(record)
    rows = study.lcm_placers.recorded()
    assert drawn.read_text(encoding="utf-8") == study.flows_picture(rows)
    for kind, limit in (("short", "1 s"), ("short", "10 s"), ("long", "10 s")):
        there, flows = study.lcm_placers.of_limit(rows, kind, limit)
        plain = study.lcm_placers.best_plain(there, flows)
        found = study.compared(there, [flow.name for flow in flows], plain)
        assert [row.ratio for row in found if row.flow == plain] == [1]
        shown = [row for row in found if row.flow in study.lcm_placers.SHOWN]
        assert len(shown) >= 6
        for row in shown:
            assert f"| {row.text} |" in pages[0]


def test_a_half_turn_keeps_kinds_and_the_lengths_of_all_ways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(REPRODUCE / "fabrics"))
    monkeypatch.delitem(sys.modules, "lcm_study", raising=False)
    from lcm_knowable import half_turn

    fabric = fabric_12().fabric
    turned = half_turn(fabric)
    sites = np.arange(fabric.num_sites)
    np.testing.assert_array_equal(turned[turned], sites)
    np.testing.assert_array_equal(fabric.kind[turned], fabric.kind)

    def lengths(order: np.ndarray) -> np.ndarray:
        row, col = np.divmod(fabric.switch[order], fabric.cols)
        return abs(row[:, None] - row) + abs(col[:, None] - col)

    np.testing.assert_array_equal(lengths(turned), lengths(sites))
    # Sites that share a memory channel share one afterwards.
    io = np.flatnonzero(fabric.channel >= 0)
    pairs = np.unique(np.c_[fabric.channel[io], fabric.channel[turned[io]]], axis=0)
    assert len(pairs) == fabric.num_channels
    with pytest.raises(ValueError, match="does not look the same"):
        half_turn(replace(fabric, switch=np.roll(fabric.switch, 1)))
