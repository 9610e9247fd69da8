"""Options are checked once, at the edge."""

from __future__ import annotations

from typing import Any

import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import AUTO, DEFAULT_LEVEL, DEFAULT_PIPELINE, CompileOptions
from mcm_compiler.text.spec_text import parse_list


def test_defaults_are_valid() -> None:
    options = CompileOptions()
    assert (options.partitioner, options.level) == (AUTO, DEFAULT_LEVEL)
    assert [spec.name for spec in parse_list(DEFAULT_PIPELINE)][-1] == "verify"


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"routing": "loose"}, "routing is 'loose', not strict or relay"),
        ({"pins": (("a", 2**31),)}, "pin of 'a' is chip 2147483648, not between 0 and 2147483647"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**63}, "2^63 - 1"),
        ({"samples": 0}, "samples is 0, not at least 1"),
        ({"level": -1}, "level is -1, not at least 0"),
        ({"inferences": 0}, "inferences is 0"),
        ({"inferences": 100_001}, "more than 100000"),
        ({"verify_seeds": 0}, "verify_seeds is 0"),
        ({"budget_s": 0.0}, "budget_s is 0.0"),
        ({"budget_s": float("inf")}, "budget_s is inf"),
        ({"budget_s": float("nan")}, "budget_s is nan"),
        ({"dims": {"batch": -1}}, "dim 'batch' is -1"),
        ({"sequences": 0}, "sequences is 0, not at least 1"),
        ({"sequences": 1025}, "sequences is 1025, more than 1024"),
        ({"context": 0}, "context is 0, not at least 1"),
        ({"serve": {"latency": 1.0}}, "serve has 'latency', not tpot or ttft"),
        ({"serve": {"tpot": 0.0}}, "serve has 0.0 for 'tpot', not a positive number"),
        ({"serve": {"tpot": 1.0}, "objective": "latency"}, "objective is 'latency'"),
        ({"shapes": {"x": (1, -2)}}, "shape of 'x' is 1,-2"),
    ],
)
def test_a_value_out_of_range_is_told(change: dict[str, Any], part: str) -> None:
    with pytest.raises(CompileError) as caught:
        CompileOptions(**change)
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-U004"
    assert part in found.message


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2**63 - 1},
        {"inferences": 100_000},
        {"budget_s": 1e-3},
        {"shapes": {"x": (0,), "scalar": ()}},
        {"dims": {"batch": 1}},
    ],
)
def test_values_at_the_edge_of_the_range_hold(change: dict[str, Any]) -> None:
    CompileOptions(**change)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(CompileError) as caught:
        CompileOptions(seed=-1, samples=0, dims={"n": -1})
    assert len(caught.value.diagnostics) == 3
