"""Proofs about memory against brute force over the memory planner: a sample of the kept run."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture
def oracle(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    return lambda name: importlib.import_module(f"memory_oracle.{name}")


@pytest.mark.parametrize("first", range(2000, 2008, 8))
def test_no_claim_is_contradicted(oracle, first):
    cases, evaluated = oracle("cases"), oracle("oracle")
    found = [evaluated.examine(cases.draw_case(seed)) for seed in range(first, first + 8)]
    assert [text for one in found for text in one.contradictions] == []
    assert any(one.fit for one in found)


def test_the_oracle_sees_a_claim_that_is_wrong(oracle):
    evaluated = oracle("oracle")
    found = evaluated.Found(0, fit=3)
    hold = evaluated.hold
    hold(found, "a liar", infeasible=True, bound_s=0.0, best_s=1.0)
    hold(found, "a liar", infeasible=False, bound_s=1.1, best_s=1.0)
    hold(found, "an honest one", infeasible=False, bound_s=1.0, best_s=1.0)
    hold(found, "an honest one", infeasible=True, bound_s=9.0, best_s=float("inf"))
    assert found.contradictions == [
        "a liar: none exists, and 3 fit",
        "a liar: bound 1.1 s, and 1 s fits",
    ]


def test_the_kept_run_is_long_and_contradicts_nothing():
    kept = json.loads((TOOLS / "bench" / "data" / "memory_proofs.json").read_text())
    assert kept["cases"] >= 1000
    assert kept["contradictions"] == []
    assert kept["not_found_though_some_fit"] == 0
    assert kept["cases_where_some_fit"] > kept["cases"] // 3
