"""The conformance run judges right, survives crashes, and its page follows its data."""

from __future__ import annotations

import importlib
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

BENCH = Path(__file__).parents[3] / "tools" / "bench"
X = np.linspace(-1, 1, 4, dtype=np.float32)


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return lambda name: importlib.import_module(f"backend_cases.{name}")


def case(tool: Any, op: str = "Relu", domain: str = "", **more: Any) -> Any:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], domain=domain, **more)],
        "g",
        [value("x", TensorProto.FLOAT, ["n"])],
        [value("y", TensorProto.FLOAT, ["n"])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    given = numpy_helper.from_array(X, "x")
    expected = numpy_helper.from_array(np.maximum(X, 0), "y")
    data = (((given,), (expected,)),)
    return tool("collection").Case("simple", op, model, data, 1e-3, 1e-7)


def test_an_equal_case(tool: Any) -> None:
    phases: list[str] = []
    outcome = tool("judging").judge(case(tool), phases.append)
    assert (outcome.verdict, outcome.reason, outcome.expected) == ("equal", "", True)
    assert outcome.chips == 1
    assert phases == ["reference", "chips"]


def test_another_result_than_expected_is_still_equal(tool: Any) -> None:
    outcome = tool("judging").judge(case(tool, "Abs"), lambda _: None)
    assert (outcome.verdict, outcome.expected) == ("equal", False)


def test_what_onnxruntime_does_not_run_has_a_reason(tool: Any) -> None:
    outcome = tool("judging").judge(case(tool, "Mystery", "acme"), lambda _: None)
    assert (outcome.verdict, outcome.reason) == ("not run by onnxruntime", "no such operator")


def test_random_cases_are_set_apart(tool: Any) -> None:
    outcome = tool("judging").judge(case(tool, "RandomNormalLike"), lambda _: None)
    assert (outcome.verdict, outcome.reason) == ("not reproducible", "draws random numbers")


@pytest.mark.forks
def test_crashes_and_hangs_are_laid_at_the_right_door(
    tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(case: Any, entered: Any) -> Any:
        entered("reference")
        if case.name == "dies early":
            os._exit(1)
        entered("chips")
        if case.name == "dies late":
            os._exit(1)
        if case.name == "hangs":
            time.sleep(60)
        return tool("judging").Outcome(case.category, case.name, "equal")

    workers = tool("workers")
    monkeypatch.setattr(workers, "judge", judge)
    names = ["fine", "dies early", "dies late", "hangs", "fine too"]
    kind = tool("collection").Case
    cases = [kind("node", name, None, (), 1e-3, 1e-7) for name in names]
    outcomes = workers.judge_all(cases, 2, 1.0)
    assert [(o.name, o.verdict, o.reason) for o in outcomes] == [
        ("fine", "equal", ""),
        ("dies early", "not run by onnxruntime", "kills the process"),
        ("dies late", "failed", "kills the process"),
        ("hangs", "failed", "takes too long"),
        ("fine too", "equal", ""),
    ]


def test_share_and_counts(tool: Any) -> None:
    table, outcome = tool("table"), tool("judging").Outcome
    outcomes = [
        outcome("node", "a", "equal", chips=2),
        outcome("node", "b", "equal", "within tolerance", "0.1", chips=1, expected=False),
        outcome("node", "c", "failed", "MCM-P012", "no type"),
        outcome("node", "d", "not run by onnxruntime", "no such operator"),
        outcome("light", "e", "not reproducible", "draws random numbers"),
    ]
    assert table.conformance_share(outcomes) == pytest.approx(2 / 3)
    assert table.conformance_share([]) == 0.0
    data = table.as_data(outcomes, {"onnx": "1", "onnxruntime": "2"})
    assert data["counts"]["node"] == {
        "cases": 4, "equal": 2, "on several chips": 1, "not reproducible": 0,
        "not run by onnxruntime": 1, "failed": 1,
    }  # fmt: skip
    assert [e["name"] for e in data["exceptions"]] == ["b", "c", "d", "e"]
    assert [e["name"] for e in data["unlike_expected"]] == ["b"]
    page = table.render(data)
    assert "**66.67 %**" in page
    assert "- MCM-P012:\n    - `c`\n" in page


def test_the_committed_page_follows_the_committed_data(tool: Any) -> None:
    table = tool("table")
    data = json.loads(table.DATA.read_text(encoding="utf-8"))
    assert table.PAGE.read_text(encoding="utf-8") == table.render(data)
    assert data["share"] > 0.99
