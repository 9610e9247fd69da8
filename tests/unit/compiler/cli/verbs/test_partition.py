"""`mcmc partition`: its result in both forms, what it writes, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.placements.assignment_file import read_assignment
from mcm_compiler.placements.placement_file import read_placement, with_devices
from mcm_passes.mapping.device_placement.device_loads import device_loads
from tests.generators.placement_examples import PUBLISHED

PROBLEM = str(PUBLISHED / "layer_gnmt.json")


def _partition(*args: str) -> Any:
    return CliRunner().invoke(cli, ["partition", *args])


def _data(*args: str) -> dict[str, Any]:
    result = _partition(*args, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_json_holds_the_answer_and_its_certificate() -> None:
    data = _data(PROBLEM, "--max-cpus", "0")
    assert data["period"] == data["lower_bound"] == pytest.approx(32.910658203125)
    assert data["gap"] == 0.0
    assert data["price"] is None
    assert data["method"] == "ideals"
    assert (data["cost"], data["rule"]) == ("device-placement", "none")
    assert "order ideals" in data["argument"]
    assert data["proof"] == "ideals"
    problem = with_devices(read_placement(Path(PROBLEM)), None, 0)
    assert [row["id"] for row in data["assignment"]] == list(problem.ids)
    device_of = np.array([row["device"] for row in data["assignment"]], np.int32)
    loads = device_loads(problem, device_of, "none")
    assert not loads.violations
    assert loads.load.tolist() == data["device_load"]
    assert max(data["device_load"]) == data["period"]


def test_the_same_arguments_give_the_same_bytes() -> None:
    arguments = [PROBLEM, "--max-cpus", "0", "--rule", "strict", "--format", "json"]
    assert _partition(*arguments).stdout == _partition(*arguments).stdout


def test_text_tells_the_devices_and_the_price() -> None:
    result = _partition(PROBLEM, "--max-cpus", "0", "--rule", "strict")
    assert result.exit_code == 0
    for words in ("35.4052", "7.58%", "triangle rule", "accelerator"):
        assert words in result.stdout
    assert "CPU" not in result.stdout
    assert "CPU" in _partition(PROBLEM).stdout


@pytest.mark.parametrize("rule", ["relay", "strict"])
def test_on_a_ring_that_overlaps_any_strategy_searches(rule: str) -> None:
    arguments = [PROBLEM, "--cost", "ring", "--rule", rule, "--max-cpus", "0"]
    data = _data(*arguments, "--partitioner", "dp{orders=2}")
    assert data["method"] == "dp{orders=2}"
    assert 0.9 * 182.563 / 6 <= data["lower_bound"] <= data["period"]
    assert max(data["device_load"]) <= data["period"] * (1 + 1e-6)


@pytest.mark.parametrize("name", ["cut.csv", "cut.json"])
def test_the_assignment_is_written_and_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    result = _partition(PROBLEM, "--max-cpus", "0", "--assignment-out", str(path))
    assert result.exit_code == 0
    problem = read_placement(Path(PROBLEM))
    assert [row.name for row in read_assignment(path)] == list(problem.names)
    assert "device" in path.read_text()
    again = _partition(PROBLEM, "--assignment-out", str(path))
    assert again.exit_code == 1
    assert "MCM-U021" in again.stderr
    assert _partition(PROBLEM, "--assignment-out", str(path), "--force").exit_code == 0


def test_a_plug_in_may_bring_a_strategy(tmp_path: Path) -> None:
    plugin = tmp_path / "all_first.py"
    plugin.write_text(
        "import numpy as np\n"
        "from mcm_compiler.contracts.partition import Outcome\n"
        "from mcm_compiler.registry import STRATEGIES\n"
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\n"
        "class AllFirst:\n"
        "    name = 'all_first'\n"
        "    summary = 'all on the first'\n"
        "    def solve(self, problem, evaluate, rng, budget):\n"
        "        return Outcome(np.zeros(problem.num_units, np.int32), 1)\n"
        "STRATEGIES.add('test_all_first', AllFirst, __file__)\n"
    )
    arguments = ["--max-cpus", "0", "--plugin", str(plugin), "--partitioner", "test_all_first"]
    data = _data(PROBLEM, *arguments)
    assert data["period"] == pytest.approx(182.563)
    assert data["gap"] > 4


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["none.json"], "MCM-F001"),
        ([PROBLEM, "--max-accelerators", "97", "--max-cpus", "0"], "MCM-F006"),
        ([PROBLEM, "--max-accelerators", "0", "--max-cpus", "0"], "MCM-F006"),
        ([PROBLEM, "--rule", "relay"], "MCM-F005"),
        ([PROBLEM, "--cost", "ring", "--max-cpus", "0"], "MCM-F005"),
        ([PROBLEM, "--cost", "other"], "MCM-U003"),
        ([PROBLEM, "--max-cpus", "0", "--partitioner", "other"], "MCM-U003"),
        ([PROBLEM, "--max-cpus", "0", "--partitioner", "manual"], "MCM-F007"),
    ],
)
def test_bad_input_is_diagnosed(arguments: list[str], code: str) -> None:
    result = _partition(*arguments, "--format", "json")
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["diagnostics"]
    assert found["code"] == code
    assert found["at"]
    assert found["hint"]


def _file(tmp_path: Path, edges: list[tuple[int, int]], latency: str = "1.0") -> str:
    """A problem of three nodes with the given dependencies; `latency` is that of the first."""
    nodes = [
        {"id": v, "fpgaLatency": 1.0, "cpuLatency": 1.0, "supportedOnFpga": 1, "isBackwardNode": 0}
        for v in range(3)
    ]
    data = {
        "maxFPGAs": 2,
        "maxCPUs": 0,
        "maxSizePerFPGA": 1e9,
        "nodes": nodes,
        "edges": [{"sourceId": u, "destId": v, "cost": 1.0} for u, v in edges],
    }
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(data).replace('"fpgaLatency": 1.0', f'"fpgaLatency": {latency}', 1))
    return str(path)


@pytest.mark.parametrize(
    ("edges", "latency", "arguments", "code", "words"),
    [
        ([(0, 1), (1, 2), (2, 1)], "1.0", [], "MCM-F004", "cycle"),
        ([(0, 1)], "Infinity", [], "MCM-F001", "Infinity"),
        ([(0, 1)], "NaN", [], "MCM-F001", "NaN"),
        ([(0, 1)], "1e999", [], "MCM-F002", "nodes[0].fpgaLatency"),
        ([(0, 1)], "-1.0", [], "MCM-F002", "nodes[0].fpgaLatency"),
        ([(0, 1)], "1.0", ["--max-accelerators", "4"], "MCM-F006", "3 nodes"),
    ],
)
def test_bad_problems_are_diagnosed(
    tmp_path: Path,
    edges: list[tuple[int, int]],
    latency: str,
    arguments: list[str],
    code: str,
    words: str,
) -> None:
    result = _partition(_file(tmp_path, edges, latency), *arguments, "--format", "json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)["diagnostics"][0]
    assert found["code"] == code
    assert words in found["message"]
    assert found["at"]


def test_text_names_the_kind_of_proof(tmp_path: Path) -> None:
    result = _partition(_file(tmp_path, [(0, 1), (1, 2)]))
    assert result.exit_code == 0, result.output
    assert "(proof ideals)" in " ".join(result.stdout.split())


def test_a_strategy_that_breaks_a_rule_is_told_so(tmp_path: Path) -> None:
    plugin = tmp_path / "backwards.py"
    plugin.write_text(
        "import numpy as np\n"
        "from mcm_compiler.contracts.partition import Outcome\n"
        "from mcm_compiler.registry import STRATEGIES\n"
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\n"
        "class Backwards:\n"
        "    name = 'backwards'\n"
        "    summary = 'data flows in circles'\n"
        "    def solve(self, problem, evaluate, rng, budget):\n"
        "        return Outcome(np.arange(problem.num_units, dtype=np.int32) % 2, 1)\n"
        "STRATEGIES.add('test_backwards', Backwards, __file__)\n"
    )
    arguments = ["--max-cpus", "0", "--plugin", str(plugin), "--partitioner", "test_backwards"]
    result = _partition(PROBLEM, *arguments)
    assert result.exit_code == 1
    assert "MCM-P009" in result.stderr
    assert "circles" in result.stderr


@pytest.mark.parametrize("option", ["--max-cpus=-1", "--rule=loose", "--budget=never"])
def test_wrong_usage(option: str) -> None:
    assert _partition(PROBLEM, option).exit_code == 2


def test_latency_is_an_objective_of_its_own() -> None:
    problem = str(PUBLISHED / "latency" / "layer_bert24.json")
    data = _data(problem, "--objective", "latency", "--samples", "100")
    assert (data["objective"], data["cost"]) == ("latency", "device-latency")
    assert "period" not in data
    assert data["latency"] == data["lower_bound"] == pytest.approx(100.2185)
    text = _partition(problem, "--objective", "latency", "--samples", "100").stdout
    assert text.startswith("latency      100.219  cost device-latency")


@pytest.mark.parametrize(
    ("objective", "cost", "words"),
    [
        ("latency", "ring", "one of the period, not of the latency"),
        ("period", "device-latency", "one of the latency, not of the period"),
    ],
)
def test_objective_and_cost_have_to_fit(objective: str, cost: str, words: str) -> None:
    result = _partition(PROBLEM, "--objective", objective, "--cost", cost)
    assert result.exit_code == 1
    assert "MCM-F022" in result.stderr
    assert words in " ".join(result.stderr.split())
