"""`--plugin` of the verbs that take a name: what one file registers is listed, and runs."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.registry import PLACEMENT_COSTS, TRAINERS, ZOO

# `train` sets variables for libraries that are imported later; here they are set already.
use_one_thread()

PLUGIN = """
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from mcm_compiler import register
from mcm_compiler.contracts.placement import Placement
from mcm_compiler.contracts.training import TrainingResult


@register("zoo")
@dataclass(frozen=True)
class Lone:
    name: ClassVar[str] = "test_lone"
    summary: ClassVar[str] = "a single Relu"

    size: int = 4
    seed: int = 0
    shape_only: bool = False

    def build(self) -> ir.Model:
        kind, shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape((self.size,))
        x, y = (ir.Value(name=n, type=kind, shape=shape) for n in "xy")
        node = ir.Node("", "Relu", [x], outputs=[y], name="relu")
        graph = ir.Graph([x], [y], nodes=[node], name="lone", opset_imports={"": 21})
        return ir.Model(graph, ir_version=10)


@register("trainer")
@dataclass(frozen=True)
class Counter:
    name: ClassVar[str] = "test_counter"
    summary: ClassVar[str] = "counts"

    samples: int = 3

    def train(self, request, tell):
        request.folder.mkdir()
        path = request.folder / "count"
        path.write_text(str(self.samples + request.seed))
        return TrainingResult(path, self.samples, {"count": float(self.samples)})


@register("placement-cost")
class Same:
    name = "test_same"
    summary = "everything on the first device"

    def place(self, request):
        problem = request.problem
        devices = problem.max_accelerators + problem.max_cpus
        load = np.zeros(devices)
        load[0] = 1.0
        return Placement(
            np.zeros(len(problem.ids), np.int32), "by hand", 0,
            device_load=load, period=1.0, lower_bound=1.0, argument="nothing moves",
        )
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Generator[Path]:
    path = tmp_path / "three.py"
    path.write_text(PLUGIN)
    yield path
    ZOO.remove("test_lone")
    TRAINERS.remove("test_counter")
    PLACEMENT_COSTS.remove("test_same")


def _invoke(*args: str | Path) -> Any:
    result = CliRunner().invoke(cli, [*map(str, args)])
    assert result.exit_code == 0, result.output
    return result


def test_a_model_of_a_plugin_is_listed_written_and_compiled(plugin: Path, tmp_path: Path) -> None:
    more = ("--plugin", plugin)
    rows = json.loads(_invoke("zoo", *more, "--format", "json").stdout)["models"]
    assert {row["name"]: row["origin"] for row in rows}["test_lone"] == str(plugin)
    assert "a single Relu" in _invoke("zoo", *more, "test_lone").stdout
    _invoke("zoo", *more, "test_lone{size=8}", "-o", tmp_path / "lone.onnx")
    assert (tmp_path / "lone.onnx").exists()
    out = tmp_path / "out"
    options = ("--target", "mcm4", "-O0", "-o", out)
    _invoke("compile", *more, "zoo:test_lone{size=8}", *options)
    _invoke("check", *more, out, "--model", "zoo:test_lone{size=8}")


def test_a_trainer_of_a_plugin_is_listed_and_trains(plugin: Path, tmp_path: Path) -> None:
    more = ("--plugin", plugin)
    assert "options: samples=3" in _invoke("train", *more).stdout
    folder = tmp_path / "trained"
    told = _invoke(
        "train", *more, "test_counter", "--set", "samples=7", "--seed", "2", "-o", folder
    )
    assert (folder / "count").read_text() == "9"
    assert "7.0000" in told.stdout


def test_a_placement_cost_of_a_plugin_places(plugin: Path, tmp_path: Path) -> None:
    problem = tmp_path / "problem.json"
    nodes = [
        {"id": i, "name": f"n{i}", "size": 1, "cpuLatency": 1, "fpgaLatency": 1,
         "supportedOnFpga": 1, "isBackwardNode": 0} for i in range(2)
    ]  # fmt: skip
    edges = [{"sourceId": 0, "destId": 1, "cost": 1}]
    problem.write_text(
        json.dumps(
            {"maxSizePerFPGA": 9, "maxFPGAs": 2, "maxCPUs": 0, "nodes": nodes, "edges": edges}
        )
    )
    told = _invoke(
        "partition", "--plugin", plugin, problem, "--cost", "test_same", "--format", "json"
    )
    data = json.loads(told.stdout)
    assert (data["cost"], data["argument"]) == ("test_same", "nothing moves")
    assert [row["device"] for row in data["assignment"]] == [0, 0]
