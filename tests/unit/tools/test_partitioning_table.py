"""The table of partitioning strategies: what is run, and that the page follows the data."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

BENCH = Path(__file__).parents[3] / "tools" / "bench"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return lambda name: importlib.import_module(f"partition_cases.{name}")


def _results(tool: Any) -> Any:
    cell = tool("cells").Cell
    case = SimpleNamespace(
        model="Toy",
        package="mcm36, tight",
        sram_mib=2.5,
        routing="relay",
        bound_s=10e-6,
        argument="total work",
        problem=SimpleNamespace(num_units=7, weight_bytes=np.array([1 << 20, 1 << 19])),
    )
    cells = [
        cell("dp", 0, 12e-6, 10e-6, 13e-6, 36, 0.5, 200.0),
        cell("random", 0, 40e-6, 10e-6, None, 9, 1.0, 210.0),
        cell("random", 1, 30e-6, 10e-6, None, 8, 3.0, 230.0),
        cell("cpsat", 0, 11e-6, 11e-6, 11.5e-6, 35, 5.0, 400.0),
        cell("annealing", 0, float("inf"), 10e-6, None, 0, 2.0, 100.0),
    ]
    return [(case, cells)]


def test_a_table_compares_with_the_best_bound_that_any_strategy_proved(tool: Any) -> None:
    table = tool("table")
    context = {"cpus": 2, "machine": "x86_64", "python": "3.11.0"}
    data = json.loads(json.dumps(table.as_data(_results(tool), context), allow_nan=False))
    lines = table.render(data).splitlines()
    assert "## Toy, mcm36, tight, relay" in lines
    assert (
        "7 units, 1.5 MiB of weights, 2.5 MiB per chip. No partition is faster than 11.00 us."
        in (lines)
    )
    assert [line for line in lines if line.startswith("| ")][1:] == [
        "| annealing | none found | | | | | 2.00 | 100 |",
        "| cpsat | 11.00 | 0.00 % | 11.50 | 4.55 % | 35 | 5.00 | 400 |",
        "| dp | 12.00 | 9.09 % | 13.00 | 18.18 % | 36 | 0.50 | 200 |",
        "| random | 30.00 to 40.00 | 172.73 % | does not fit |  | 8 | 2.00 | 220 |",
    ]


def test_all_built_in_strategies_run_but_those_that_need_an_option(tool: Any) -> None:
    names = tool("cells").strategies()
    assert {"greedy", "dp", "portfolio"} <= set(names)
    assert "manual" not in names
    assert "acme_even" not in names


def test_the_tight_package_differs_in_memory_alone(tool: Any) -> None:
    cases = tool("cases")
    tight = cases._package_with(7.25).limits
    roomy = cases.load_target(cases.PACKAGE).limits
    assert set(tight.sram_bytes) == {7.25 * 2**20}
    assert tight.num_chips == roomy.num_chips
    assert tight.link_bytes_per_s == roomy.link_bytes_per_s


def test_the_page_follows_the_data(tool: Any) -> None:
    table = tool("table")
    if not table.DATA.exists():
        assert not table.PAGE.exists()
        return
    data = json.loads(table.DATA.read_text(encoding="utf-8"))
    assert table.PAGE.read_text(encoding="utf-8") == table.render(data)
