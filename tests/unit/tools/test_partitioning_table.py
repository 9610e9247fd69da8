"""The table of partitioning strategies: what is run, how, and that the page follows the data."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.diagnostics import CompileError, Diagnostic

BENCH = Path(__file__).parents[3] / "tools" / "bench"
INPUTS = Path(__file__).parents[2] / "data" / "device_placement"
TINY = "zoo:bert-tiny{shape_only=true}"
MIB = 2**20


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return lambda name: importlib.import_module(f"partition_cases.{name}")


def _run(tool: Any, jobs: list[Any], workers: int = 2) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    tool("isolation").run_jobs(jobs, workers, lambda record: kept.update({record["key"]: record}))
    return kept


def _job(tool: Any, key: str, work: Any, limit_s: float = 60.0, **more: Any) -> Any:
    return tool("isolation").Job(key, {"kind": "toy"}, limit_s, work, **more)


@pytest.mark.forks
def test_a_job_is_measured_in_a_process_of_its_own(tool: Any) -> None:
    def work() -> dict[str, Any]:
        # What a system under pressure takes away of the base meanwhile is far less.
        held = np.ones(256 * MIB // 8)
        start = time.process_time()
        while time.process_time() - start < 0.2:
            held += 1.0
        return {"pid": os.getpid()}

    record = _run(tool, [_job(tool, "a", work)])["a"]
    assert record["kind"] == "toy"
    assert record["status"] == "found"
    assert record["pid"] != os.getpid()
    assert record["cpu_s"] >= 0.2
    assert record["peak_rss_mib"] >= record["base_rss_mib"] + 60


@pytest.mark.forks
def test_no_job_keeps_the_others_from_running(tool: Any, tmp_path: Path) -> None:
    fault = Diagnostic("MCM-P008", "nothing fits", at="here", hint="try less")

    def refuse() -> dict[str, Any]:
        raise CompileError(fault)

    def mistake() -> dict[str, Any]:
        raise ValueError("odd")

    def crash() -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    def hang() -> dict[str, Any]:
        if os.fork() == 0:
            time.sleep(2.0)
            (tmp_path / "survived").touch()
            os._exit(0)
        time.sleep(60.0)
        return {}

    kept = _run(
        tool,
        [
            _job(tool, "hang", hang, limit_s=0.5),
            _job(tool, "unbuilt", dict, prepare=refuse),
            _job(tool, "refuse", refuse),
            _job(tool, "mistake", mistake),
            _job(tool, "crash", crash),
            _job(tool, "fine", lambda: {"period_s": 1.0}),
        ],
    )
    told = {key: (r["status"], r.get("code"), r.get("message")) for key, r in kept.items()}
    assert told == {
        "hang": ("timed out", "", "no answer after 0.5 s"),
        "unbuilt": ("refused", "MCM-P008", "nothing fits"),
        "refuse": ("refused", "MCM-P008", "nothing fits"),
        "mistake": ("crashed", "", "ValueError: odd"),
        "crash": ("crashed", "", "ended with -9"),
        "fine": ("found", None, None),
    }
    time.sleep(2.0)
    assert not (tmp_path / "survived").exists()


@pytest.mark.forks
def test_records_outlive_a_run_that_was_ended(tool: Any, tmp_path: Path) -> None:
    path = tmp_path / "new" / "cells.jsonl"
    records = tool("records").Records(path)
    records.keep({"key": "a", "period_s": float("inf")})
    records.keep({"key": "b", "period_s": 1.0})
    records.keep({"key": "b", "period_s": 2.0})
    with path.open("a") as file:
        file.write('{"key": "c", "per')
    again = tool("records").Records(path)
    assert again.find("a")["period_s"] is None
    assert again.find("b", fresh=True)["period_s"] == 2.0
    assert again.find("c") is None
    again.code = "other"
    assert again.find("b", fresh=True) is None
    assert again.find("b") is not None


def _tiny_plan(tool: Any, **changes: Any) -> Any:
    arguments = {
        "models": {"Tiny": TINY},
        "strategies": ("dp", "portfolio"),
        "seeds": (0, 1),
        "budget_s": 0.0,
        "placements": (INPUTS / "layer_bert24.json",),
    }
    return tool("plan").Plan(**(arguments | changes))


@pytest.mark.forks
def test_a_tiny_model_from_the_plan_to_the_page(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = _tiny_plan(tool)
    attempt = {"chips": 3, "sram_mib": 40.0, "factor": 1.5, "why": "dp", "verdict": "fits"}
    monkeypatch.setattr(
        tool("plan"),
        "find_tightness",
        lambda *_: {
            "weights_mib": 80.0,
            "at_bar": attempt | {"verdict": "none exists", "why": "too small"},
            "most_chips": attempt,
            "one_more": attempt | {"verdict": "none found", "why": "not found"},
            "least_factor": attempt | {"verdict": "none exists"},
        },
    )
    records = tool("records").Records(tmp_path / "cells.jsonl")
    for job in plan.tightness():
        tool("isolation").run_jobs([job], 1, records.keep)
    tight = {"Tiny": records.find("tightness Tiny")}
    specs = plan.specs(tight)
    assert [(spec.kind, spec.routing, spec.chips) for spec in specs] == [
        ("roomy", "relay", None),
        ("tight", "relay", 3),
    ]
    jobs = plan.cells(specs)
    keys = [job.key for job in jobs]
    assert len(keys) == len(set(keys))
    tool("isolation").run_jobs(jobs, 1, records.keep)
    context = {
        "command": "the command",
        "seeds": [0, 1],
        "budget_s": 0.0,
        "workers": 1,
        "note": "",
        "cpus": 2,
        "machine": "x86_64",
        "python": "3.11.0",
        "versions": {"numpy": "2"},
    }
    data = tool("table_data").as_data(plan.tightness(), jobs, records, context)
    data = json.loads(json.dumps(data, allow_nan=False))
    assert data["missing"] == 0
    roomy, narrow = data["cases"]
    assert {(c["strategy"], c["seed"]) for c in tool("table_data").of_level(roomy, 2)} == {
        ("dp", 0),
        ("portfolio", 0),
        ("portfolio", 1),
    }
    assert [c for c in roomy["cells"] if c["status"] != "found"] == []
    assert all(c["simulated_s"] > 0 for c in roomy["cells"])
    assert (narrow["chips"], narrow["sram_mib"]) == (3, 40.0)
    bars = {bar.name: bar for bar in tool("checks").bars(data)}
    assert bars["portfolio_losses"].value == 0.0
    assert bars["layer_bert24_period"].holds
    page = tool("table").render(data)
    assert "| Tiny, mcm36, relay |" in page
    assert "| Tiny, tight, relay |" in page
    assert "| Tiny | " in page
    assert "| layer_bert24 | 32 | 6 | 17.7899 |" in page
    # Nothing is left to measure.
    assert all(records.find(job.key) is not None for job in jobs)


def _cell(strategy: str, period_s: float, simulated_s: float | None, **more: Any) -> Any:
    found = {"status": "found", "level": 2, "seed": 0, "bound_s": 1.0, "chips_used": 3}
    spent = {"cpu_s": 0.5, "peak_rss_mib": 200.0, "base_rss_mib": 150.0}
    cell = {"strategy": strategy, "period_s": period_s, "simulated_s": simulated_s}
    return found | spent | cell | more


@pytest.fixture
def members(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = tool("checks")
    monkeypatch.setattr(checks, "PORTFOLIO", "portfolio")
    monkeypatch.setattr(checks, "members", lambda _: ("dp", "cpsat"))
    monkeypatch.setattr(checks, "slack", lambda _: 1e-3)


@pytest.mark.usefixtures("members")
@pytest.mark.parametrize(
    ("rival", "beats"),
    [
        (_cell("dp", 9.98, 99.0), True),
        (_cell("dp", 9.999, 12.1), False),
        (_cell("dp", 9.999, 12.0), True),
        (_cell("dp", 10.0, 12.0), False),
        (_cell("dp", 10.0, 11.9), True),
        (_cell("dp", 10.0, None), False),
        (_cell("dp", 10.001, 11.0), False),
        (_cell("dp", 9.0, 11.0, seed=1), False),
        (_cell("dp", 9.0, 11.0, status="refused"), False),
        (_cell("ideals", 9.0, 11.0), False),
    ],
)
def test_when_a_member_beats_the_portfolio(tool: Any, rival: Any, beats: bool) -> None:
    case = {"cells": [_cell("portfolio", 10.0, 12.0), rival]}
    assert bool(tool("checks").losses(case)) == beats


@pytest.mark.usefixtures("members")
def test_a_member_that_finds_one_beats_a_portfolio_that_finds_none(tool: Any) -> None:
    case = {"cells": [_cell("portfolio", 0.0, None, status="timed out"), _cell("dp", 9.0, 11.0)]}
    assert tool("checks").losses(case) == ["dp (seed 0)"]
    assert tool("checks").compared(case) == 1


def test_all_built_in_strategies_run_but_those_that_need_an_option(tool: Any) -> None:
    names = tool("cells").strategies()
    assert {"dp", tool("cells").PORTFOLIO, *tool("cells").members("portfolio")} <= set(names)
    assert "manual" not in names
    assert "acme_even" not in names


def test_tight_packages_differ_in_chips_and_memory_alone(tool: Any) -> None:
    packages = tool("packages")
    tight, roomy = packages.package(5, 7.25).limits, packages.package().limits
    assert tight.sram_bytes == (7.25 * MIB,) * 5
    assert roomy.num_chips == 36
    assert tight.link_bytes_per_s == roomy.link_bytes_per_s
    assert packages.package().cost_model().name == "roofline"  # as of the record


def _chain(weights: list[int], sram: int, chips: int) -> PartitionProblem:
    """A chain of units with one weight each; tensors of 64 bytes, the last goes to the host."""
    n = len(weights)
    return PartitionProblem(
        names=tuple(f"u{u}" for u in range(n)),
        members=tuple((f"u{u}",) for u in range(n)),
        compute_s=np.full(n, 1e-6),
        clonable=np.zeros(n, dtype=np.bool_),
        pinned_chip=np.full(n, -1, dtype=np.int32),
        tensor_names=tuple(f"t{u}" for u in range(n)),
        tensor_bytes=np.full(n, 64, dtype=np.int64),
        tensor_producer=np.arange(n, dtype=np.int32),
        tensor_ptr=np.array([*range(n), n - 1], dtype=np.int64),
        tensor_consumers=np.arange(1, n, dtype=np.int32),
        tensor_to_host=np.arange(n) == n - 1,
        relay_s=np.zeros(n),
        weight_names=tuple(f"w{u}" for u in range(n)),
        weight_bytes=np.array(weights, dtype=np.int64),
        weight_ptr=np.arange(n + 1, dtype=np.int64),
        weight_users=np.arange(n, dtype=np.int32),
        limits=PackageLimits(chips, (sram,) * chips, 1e9, 1e-6, "any", 1e9),
        routing="relay",
    )


def test_weights_of_more_than_half_a_chip_need_a_chip_each(tool: Any) -> None:
    reason = tool("memory_need").too_little_memory(_chain([640] * 4, 1279, 3))
    assert reason.startswith("4 weights, or pieces of weights, take more than half a chip each")
    assert tool("memory_need").too_little_memory(_chain([640] * 4, 1280, 3)) == ""


def test_what_is_too_little_is_never_too_much_to_ask(tool: Any) -> None:
    """Against all partitions of small chains: where one fits, there is no proof against it."""
    from itertools import product

    from mcm_passes.mapping.machine.evaluation import evaluate

    rng = np.random.default_rng(7)
    proven = 0
    for _ in range(60):
        weights = (64 * rng.integers(1, 12, size=4)).tolist()
        problem = _chain(weights, int(rng.integers(500, 1600)), 2)
        fits = any(
            evaluate(problem, np.array(row, np.int32)).valid for row in product(range(2), repeat=4)
        )
        reason = tool("memory_need").too_little_memory(problem)
        proven += bool(reason)
        assert not (fits and reason)
    assert proven > 5


def test_a_case_that_cannot_be_built_does_not_fit(tool: Any) -> None:
    spec = tool("cases").CaseSpec("Tiny", TINY, "tight", "relay", 1, 0.01)
    verdict, why = tool("tightness").try_to_fit(spec)
    assert verdict == "none exists"
    assert why.startswith("MCM-")


def test_the_page_follows_the_data(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    script = importlib.import_module("partitioning")
    assert script.__file__ == str(BENCH / "partitioning.py")
    if not script.DATA.exists():
        assert not script.PAGE.exists()
        return
    data = json.loads(script.DATA.read_text(encoding="utf-8"))
    assert script.PAGE.read_text(encoding="utf-8") == tool("table").render(data)
    assert sys.modules.pop("partitioning") is script
