"""The experiments of learned search: curves, thresholds, promises, and cells that are kept."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.evaluation import BatchResults, ResultKind
from mcm_compiler.registry import STRATEGIES

ROOT = Path(__file__).parents[3]
REPRODUCE = ROOT / "tools" / "reproduce"
MODEL = "zoo:bert-tiny{shape_only=true}"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    monkeypatch.syspath_prepend(str(REPRODUCE))
    yield lambda name: importlib.import_module(f"mcm_study.{name}")
    for name in ("random", "annealing"):  # strategies that an import of the study registers
        STRATEGIES.remove(name)


def _record(
    steps: Sequence[tuple[int, float]], samples: int = 1000, marks: int = 0
) -> dict[str, Any]:
    """A cell whose best improvement over a heuristic of one second rises in steps."""
    return {
        "baseline_s": 1.0,
        "steps": [(at, 1.0 / better, 0.01 * at) for at, better in steps],
        "samples": samples,
        "valid": samples if steps else 0,
        "cpu_s": 0.01 * samples,
        "cpu_at_marks": [0.01] * marks,
    }


def _panel(study: Any, methods: dict[str, Any], seeds: int = 2, bound: float = 2.0) -> Any:
    """A panel of two graphs on which the methods do the same with all seeds."""
    setting = study("problems").Setting(MODEL)
    found: list[Any] = []
    for graph in ("a", "b"):
        cell = study("cells").Cell("test", graph, setting, study("classical").Portfolio(), 0)
        classical = {"baseline_s": 1.0, "period_s": 0.5, "bound_s": 1 / bound, "cpu_s": 0.5}
        classical |= {"nodes": 9, "clonable": 1}
        found.append((cell, classical))
        for name, steps in methods.items():
            method = study("methods").Method(name, name.upper(), "random", 1000)
            given = steps[graph] if isinstance(steps, dict) else steps
            found += [
                (study("cells").Cell("test", graph, setting, method, seed), _record(given))
                for seed in range(seeds)
            ]
    return study("curves").Panel.of(found)


def test_graphs_where_a_baseline_finds_nothing_soon_are_not_compared(study: Any) -> None:
    panel = _panel(study, {"random": {"a": [(1, 0.5)], "b": []}, "rl": [(1, 1.0)]})
    assert panel.unsolved() == {"b": ["random"]}
    assert panel.comparable().graphs == ("a",)
    # What learned search does not find counts against it.
    other = _panel(study, {"random": [(1, 0.5)], "rl": {"a": [(1, 1.0)], "b": []}})
    assert other.comparable().graphs == ("a", "b")


def test_a_lead_is_over_the_better_of_the_others(study: Any) -> None:
    lead_row = study("bars").lead_row
    panel = _panel(study, {"random": [(1, 1.0)], "sa": [(1, 1.1)], "rl": [(1, 1.21)]})
    assert lead_row(panel, "c", "rl", ["random"], 1000, 20.9)["holds"] is True
    assert lead_row(panel, "c", "rl", ["random"], 1000, 21.1)["holds"] is False
    held = lead_row(panel, "c", "rl", ["random", "sa"], 1000, 15)
    assert held["holds"] is False
    assert held["measured"] == "+10.0 ± 0.0 %"
    assert lead_row(panel, "c", "rl-no-prior", ["random"], 1000, 1)["holds"] is None


def test_nothing_valid_is_no_figure(study: Any) -> None:
    lead_row = study("bars").lead_row
    panel = _panel(study, {"random": [], "rl": [(900, 1.0)]})
    found = lead_row(panel, "c", "rl", ["random"], 1000, 5)
    assert (found["holds"], found["measured"]) == (
        True,
        "nothing valid found: `random` 2 of 2 seeds",
    )
    assert lead_row(panel, "c", "rl", ["random"], 800, 5)["holds"] is False


def test_promises_on_samples_areas_and_the_optimum(study: Any) -> None:
    bars = study("bars")
    panel = _panel(
        study,
        {"rl": [(1, 0.5), (40, 1.9)], "fine-tuned": [(1, 0.5), (20, 1.9)], "zero-shot": [(1, 1.0)]},
    )
    assert bars.threshold_row(panel, "c", "fine-tuned", "rl", 1.5)["holds"] is True
    assert bars.threshold_row(panel, "c", "rl", "fine-tuned", 1.5)["holds"] is False
    assert bars.threshold_row(panel, "c", "zero-shot", "rl", 1.5)["holds"] is False
    assert bars.catch_up_row(panel, "c", "fine-tuned", "rl")["holds"] is True
    assert bars.catch_up_row(panel, "c", "zero-shot", "rl")["holds"] is False
    # Over the first 200 samples a late but large gain weighs more than an early small one.
    assert bars.area_row(panel, "c", "fine-tuned", "zero-shot")["holds"] is True
    assert bars.area_row(panel, "c", "zero-shot", "fine-tuned")["holds"] is False
    # The bound is an improvement of 2.
    assert bars.optimum_row(panel, "c", "rl", 1000, 0.95)["holds"] is True
    assert bars.optimum_row(panel, "c", "rl", 39, 0.95)["holds"] is False


def test_without_a_proof_the_optimum_is_open(study: Any) -> None:
    """The portfolio stands at 2, and nothing is proven below 2.5."""
    optimum_row = study("bars").optimum_row
    held = [
        optimum_row(_panel(study, {"rl": [(1, best)]}, bound=2.5), "c", "rl", 1000, 0.95)
        for best in (1.8, 1.95, 2.4)
    ]
    assert [found["holds"] for found in held] == [False, None, True]
    assert held[1]["measured"] == (
        "78.0 ± 0.0 % of the bound, 97.5 ± 0.0 % of the best known; proven to be the optimum on "
        "0 of 2"
    )


def test_equal_time_is_told_against_the_portfolio(study: Any) -> None:
    panel = _panel(study, {"rl": [(10, 1.0), (51, 2.0)], "prior": [(1, 2.0)]})
    against = study("equal_time").against_classical(panel)
    # Sample 51 comes after the portfolio's half second.
    assert against["rl"] == {"share": [0.5, 0.0], "below": 4, "equal": 0, "above": 0}
    assert (against["prior"]["equal"], against["prior"]["below"]) == (4, 0)


def test_the_page_tells_what_holds_and_what_does_not(study: Any) -> None:
    panel = _panel(study, {"random": {"a": [(1, 0.5)], "b": []}, "rl": [(1, 1.0)]})
    common = panel.comparable()
    common_data = {
        "command": "python tools/reproduce/mcm_test_graphs.py",
        "cells": {"all": 9, "measured": 8},
        "code": ["abc"],
        "versions": {"numpy": "2"},
        "policies": {},
    }
    data = common_data | {
        "panels": {"test graphs": study("summary").panel_summary(panel, _labels(panel))},
        "thresholds": {"place": study("thresholds").samples_tables(common, [0.7])},
        "bars": [
            *study("bars").test_graph_rows(common),
            study("bars").lead_row(common, "by far", "rl", ["random"], 1000, 500),
        ],
    }
    page = study("page").render({"mcm_test_graphs": json.loads(json.dumps(data))})
    assert "| by far | at least 500 % | +100.0 ± 0.0 % | **does not hold** |" in page
    assert "| RL over Random, 1,000 samples | at least 25 % | +100.0" in page
    assert "| open |" in page
    assert "8 of 9 cells are measured" in page
    assert "without `b`, where Random or SA finds nothing" in page
    assert "`rl` is slower than the portfolio in 4 of 4 runs" in page
    assert "| `random` | never |" in page


def _labels(panel: Any) -> dict[str, str]:
    return {name: name for name, _, _ in panel.runs}


def test_the_committed_page_follows_the_committed_data(study: Any, tmp_path: Path) -> None:
    page = ROOT / "docs" / "results" / "learned-search-results.md"
    data = study("page").read_data(REPRODUCE / "data")
    assert page.exists() == bool(data)
    assert not data or page.read_text(encoding="utf-8") == study("page").render(data)
    (summary,) = data["mcm_test_graphs"]["panels"].values()
    drawn = (page.parent / "images" / study("page").PICTURE).read_text(encoding="utf-8")
    assert drawn == study("plot").picture(summary, study("page").DRAWN)
    study("page").write_claims(data, tmp_path / "claims.csv")
    claims = page.parent / "data" / study("page").CLAIMS
    assert claims.read_bytes() == (tmp_path / "claims.csv").read_bytes()


def test_cells_are_kept_and_found_again(study: Any, tmp_path: Path) -> None:
    cells, measuring = study("cells"), study("measuring")
    method = study("methods").Method("random", "Random", "random", 30)
    prior = study("methods").Method(
        "prior", "prior", "draw", 30, "zero", importlib.import_module(
            "mcm_passes.families.ring.learning.recipes"
        ).RECIPES["default"],
    )  # fmt: skip
    setting = study("problems").Setting(MODEL)
    wanted = [
        cells.Cell("test", "tiny", setting, m, seed) for m in (method, prior) for seed in (0, 1)
    ]
    path = tmp_path / "build" / "cells.jsonl"
    assert measuring.measure_cells(wanted[:3], measuring.measure_cell, cells.KeptCells(path)) == 0
    with path.open("a", encoding="utf-8") as file:
        file.write('{"key": "test | cut sho')
    kept = cells.KeptCells(path)
    assert [kept.find(cell) is not None for cell in wanted] == [True, True, True, False]
    record = kept.find(wanted[0])
    assert record["samples"] == 30
    assert record["steps"][0][0] == 1
    periods = [step[1] for step in record["steps"]]
    assert periods == sorted(periods, reverse=True)
    again = measuring.measure_cell(wanted[0], study("problems").study_problem(setting))
    assert [step[:2] for step in again["steps"]] == [tuple(s[:2]) for s in record["steps"]]
    assert kept.find(wanted[2])["steps"] != record["steps"]


def test_every_method_that_learns_has_a_control(study: Any) -> None:
    methods = study("methods")
    known = {method.name: method for method in methods.standard_methods(100, 400)}
    learning = [m for m in known.values() if m.kind in {"learn", "draw and learn"}]
    assert len(learning) >= 9
    for method in learning:
        control = known[method.name + methods.CONTROL]
        assert (control.samples, control.weights) == (method.samples, method.weights)
        assert control.recipe == method.recipe
        assert control.kind.endswith("do not learn")
    assert methods.DP in known


def test_controls_and_dp_are_measured_without_an_update(
    study: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcm_passes.families.ring.learning import rl

    methods, problems = study("methods"), study("problems")
    problem = problems.study_problem(problems.Setting(MODEL))
    known = {method.name: method for method in methods.standard_methods(60, 60)}
    # Is called before JAX is loaded, which only learning needs.
    monkeypatch.setattr(rl, "use_one_thread", None)
    evaluated: dict[str, int] = {}
    for name in ("dp", "rl-still", "fine-tuned-no-prior-still", "everything-still"):
        record = study("recording").RecordedPeriods(problem, ())
        methods.run_method(known[name], problem, 0, record)
        assert record.valid > 0
        evaluated[name] = record.samples
    assert evaluated.pop("dp") < 20
    assert set(evaluated.values()) == {60}
    record = study("recording").RecordedPeriods(problem, ())
    with pytest.raises(TypeError):
        methods.run_method(known["rl"], problem, 0, record)


def test_what_learning_adds_is_told_seed_by_seed(study: Any) -> None:
    panel = _panel(study, {"dp": [(1, 1.0)], "rl": [(1, 1.1)], "rl-still": [(1, 1.0), (40, 1.1)]})
    data = study("summary").panel_summary(panel, _labels(panel))
    controls = data["methods"]["rl"]["controls"]
    assert controls["dp"]["20"] == pytest.approx([10.0, 0.0])
    assert controls["no updates"]["20"] == pytest.approx([10.0, 0.0])
    assert controls["no updates"]["1000"] == pytest.approx([0.0, 0.0])
    rows = study("bars").control_rows(panel, "here: ", 20)
    found = {row["claim"]: row["measured"] for row in rows}
    assert found["here: RL over `dp`, 20 samples"] == "+10.0 ± 0.0 %"
    assert found["here: RL over the same without updates, 20 samples"] == "+10.0 ± 0.0 %"
    assert found["here: zero-shot over `dp`, 20 samples"] == "not measured"


def test_a_refused_cell_is_told_and_not_kept(
    study: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mcm_compiler.diagnostics import CompileError, Diagnostic

    def refuse(_cell: Any, _study: Any) -> dict[str, Any]:
        raise CompileError(Diagnostic("MCM-L001", "no such policy", at="here", hint="train one"))

    method = study("methods").Method("random", "Random", "random", 30)
    cell = study("cells").Cell("test", "tiny", study("problems").Setting(MODEL), method, 0)
    kept = study("cells").KeptCells(tmp_path / "cells.jsonl")
    assert study("measuring").measure_cells([cell], refuse, kept) == 1
    assert kept.find(cell) is None
    assert "no such policy" in capsys.readouterr().err


class _Evaluator:
    name = "toy"

    def evaluate(self, partitions: Any) -> BatchResults:
        count = len(partitions)
        nothing = np.zeros((count, 1))
        runs = np.arange(count) % 2 == 1
        return BatchResults(
            np.where(runs, ResultKind.RUNS, ResultKind.OVERFLOWS).astype(np.int32),
            np.where(runs, 1.0 / (1.0 + np.arange(count)), np.inf),
            np.ones(count),
            nothing.astype(np.int64),
            nothing,
            nothing,
        )


def test_with_an_evaluator_its_periods_are_recorded(study: Any) -> None:
    problems = study("problems")
    problem = problems.study_problem(problems.Setting(MODEL)).problem
    evaluated = problems.StudyProblem(problem, 1.0, _Evaluator())
    record = study("recording").RecordedPeriods(evaluated, [2, 4, 9])
    periods = record.periods(np.zeros((4, problem.num_units), np.int32))
    assert periods.tolist() == [np.inf, 0.5, np.inf, 0.25]
    assert [step[:2] for step in record.steps] == [(2, 0.5), (4, 0.25)]
    assert (record.samples, record.valid, len(record.cpu_at_marks)) == (4, 2, 2)


@pytest.mark.parametrize(
    "script", ["mcm_test_graphs", "mcm_bert", "mcm_without_solver", "mcm_ablations"]
)
def test_scripts_render_what_there_is(study: Any, script: str, tmp_path: Path) -> None:
    asked = ["--render", "--cells", str(tmp_path / "none.jsonl")]
    asked += ["--data", str(tmp_path), "--docs", str(tmp_path)]
    assert importlib.import_module(script).main(asked) == 0
    data = json.loads((tmp_path / f"{script}.json").read_text(encoding="utf-8"))
    assert data["cells"]["measured"] == 0
    assert data["cells"]["all"] > 0
    assert all(bar["holds"] is None for bar in data["bars"])
    page = (tmp_path / "learned-search-results.md").read_text(encoding="utf-8")
    assert "cells are measured" in page


def test_kept_cells_are_found_whatever_the_text_of_their_target(study, monkeypatch):
    """Of the test graphs and of BERT-large."""
    kept = study("cells").KeptCells(REPRODUCE / "data" / "mcm_cells.jsonl")
    methods = study("methods").standard_methods
    test_graphs, bert = (importlib.import_module(f"mcm_{n}") for n in ("test_graphs", "bert"))
    cells = test_graphs._cells(methods(1000, 4000), test_graphs.data_set("mcm87").test, 5)
    cells += bert._cells(methods(800, 800), 5)
    found = sum(kept.find(cell) is not None for cell in cells)
    assert found == len(cells) == 2616
    cell, problems = cells[0], study("problems")
    key, text = cell.key, problems.package(cell.setting).source_text

    def with_text(changed):
        target = problems.target_from_text("changed", changed)
        monkeypatch.setattr(study("cells"), "package", lambda setting: target)
        return cell.key

    reworded = "# another comment\n" + text
    without_energy = re.sub(r"(?m)^(\[(energy|area)\]|\w+_(pj|mm2) = .*)$", "", text)
    assert with_text(reworded) == with_text(without_energy) == key
    assert with_text(text.replace("sram_mib = 64", "sram_mib = 63")) != key


def test_digests_leave_out_what_is_off_and_nothing_else(study):
    digest = study("cells").digest_of
    setting, options = (
        study("problems").Setting,
        ("routing", "clones", "roomy", "measure", "target"),
    )
    base = setting(MODEL)
    others = [
        dataclasses.replace(base, **{name: value})
        for name, value in zip(options, ("strict", False, True, "judge", "mcm4"), strict=True)
    ]
    assert len({digest(each) for each in (base, setting(MODEL + "x"), *others)}) == 7

    newer = dataclasses.make_dataclass("Setting", [*vars(base), ("option", float, 0.0)])
    assert digest(newer(**vars(base))) == digest(base)
    assert digest(newer(**vars(base), option=2.0)) != digest(base)
    assert digest([1.0, None], {"b": 0}) != digest([1.0], {"b": 0})
