"""The key of a cell changes with what its output depends on, and with nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from mcm_compiler.project.content import Content, environment_digest, external_data
from mcm_compiler.project.records import Cell, Thresholds
from tests.generators.mlp_files import write_network

CELL = Cell(
    "m/a.onnx",
    PurePosixPath("a/mcm4"),
    "mcm4",
    {"batch": 1},
    frozenset(),
    None,
    {"level": 0},
    Thresholds(),
    None,
    "mcmc.toml:1",
)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_network(Path("m/a.onnx"))


def key(cell: Cell = CELL, environment: str = "e") -> str:
    return Content(Path(), environment).key(cell)


def test_what_does_not_matter() -> None:
    before = key()
    os.utime("m/a.onnx", (1, 1))
    asked = replace(
        CELL, thresholds=Thresholds(max_gap=0.1), folder=PurePosixPath("b"), place="elsewhere"
    )
    assert key(asked) == before
    assert len(before) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"dims": {"batch": 2}},
        {"target": "mcm16"},
        {"options": {"level": 1}},
        {"options": {"level": 0, "seed": 1}},
        {"options": {"level": 0, "state": (("a", "b"),)}},
        {"lenient": frozenset({"batch"})},
        {"model": "m/b.onnx"},
        {"model": "zoo:plain-cnn"},
    ],
    ids=str,
)
def test_what_matters_in_the_project_file(change) -> None:
    write_network(Path("m/b.onnx"))
    assert key(replace(CELL, **change)) != key()


def test_the_code_matters() -> None:
    assert key(environment="other") != key()


def test_files_matter_by_what_they_hold() -> None:
    Path("times.csv").write_text("a")
    Path("t").mkdir()
    Path("t/costs.csv").write_text("a")
    Path("t/edge.toml").write_text('family = "ring"\n[cost]\nmodel = "table{file=costs.csv}"\n')
    Path("long.toml").write_text('strategy = "dp"\n')
    Path("x.npz").write_bytes(b"1")
    Path("m/test_data_set_0").mkdir()
    Path("m/test_data_set_0/input_0.pb").write_bytes(b"1")
    cell = replace(
        CELL,
        target="t/edge.toml",
        inputs="x.npz",
        options={"level": "long.toml", "cost_model": 'table{file="times.csv"}'},
    )
    seen = [key(cell)]
    for name in (
        "m/a.onnx",
        "times.csv",
        "t/costs.csv",
        "t/edge.toml",
        "long.toml",
        "x.npz",
        "m/test_data_set_0/input_0.pb",
    ):
        with Path(name).open("ab") as stream:
            stream.write(b"\n#")
        seen.append(key(cell))
    Path("m/b.onnx").write_bytes(b"")  # whose data the test data are is not known any more
    seen.append(key(cell))
    assert len(set(seen)) == len(seen)
    unasked = replace(cell, options={**cell.options, "test_data": False})
    before = key(unasked)
    Path("m/test_data_set_0/input_0.pb").write_bytes(b"other")
    assert key(unasked) == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("my times.csv", 'table{file="my times.csv"}'),
        ("a,b={c}.csv", 'table{file="a,b={c}.csv",chip=x}'),
        ('a"b c.csv', r'table{file="a\"b c.csv"}'),
        ("p q.json", r'portfolio{members="dp;rl{policy=\"p q.json\"}"}'),
        ("p q.json", 'many{files="a.json;p q.json"}'),
    ],
)
def test_files_in_quotes_matter(name: str, text: str) -> None:
    Path(name).write_text("1")
    cell = replace(CELL, options={"partitioner": text})
    before = key(cell)
    Path(name).write_text("2")
    assert key(cell) != before


def test_files_of_a_level_matter_where_its_strategy_looks_for_them() -> None:
    Path("levels").mkdir()
    Path("levels/long.toml").write_text("strategy = 'rl{policy=p.json}'\n")
    Path("p.json").write_text("1")
    cell = replace(CELL, options={"level": "levels/long.toml"})
    before = key(cell)
    Path("p.json").write_text("2")
    assert key(cell) != before


def test_external_data_matters_and_is_remembered() -> None:
    write_network(Path("m/a.onnx"), external=True)
    assert external_data(Path("m/a.onnx")) == ["a.onnx.data"]

    class Memory(dict):
        recall = dict.get
        remember = dict.__setitem__

    memory = Memory()
    before = Content(Path(), "e", memory).key(CELL)
    assert list(memory.values()) == [["a.onnx.data"]]
    data = Path("m/a.onnx.data")
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    assert Content(Path(), "e", memory).key(CELL) != before
    data.unlink()
    key()  # its compile tells that it is missing


@pytest.mark.parametrize("data", [b"", b"location", b"\xff location"])
def test_what_is_no_model_has_no_external_data(data: bytes) -> None:
    Path("m/a.onnx").write_bytes(data)
    assert external_data(Path("m/a.onnx")) == []
    assert key() == key()


def test_a_target_that_is_not_toml_has_a_key() -> None:
    Path("bad.toml").write_text("= 3")
    assert key(replace(CELL, target="bad.toml")) == key(replace(CELL, target="bad.toml"))


def test_the_environment_is_the_code_that_runs(tmp_path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text("a = 1\n")
    before = environment_digest([plugin])
    assert before == environment_digest([plugin]) != environment_digest()
    plugin.write_text("a = 2\n")
    assert environment_digest([plugin]) != before


def test_keys_are_made_without_the_libraries_of_a_compile() -> None:
    program = (
        "import sys\n"
        "import mcm_compiler.cli.project_build\n"
        "heavy = {'numpy', 'onnx', 'onnx_ir', 'onnxruntime', 'numba', 'jax'} & sys.modules.keys()\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
