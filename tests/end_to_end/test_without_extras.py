"""Without the extra `learn`: what does not learn works, and what does says what to install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import onnx
import pytest

NET = (
    '<ir_version: 8, opset_import: ["" : 17]> net (float[2,4] x) => (float[2,4] y)'
    "<float[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},"
    " float[4,4] v = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}>"
    "{ h = MatMul(x, w) g = Relu(h) y = MatMul(g, v) }"
)
EXTRA = ("jax", "jaxlib", "flax", "optax", "orbax", "tensorstore", "scipy", "chex")
BLOCKER = f"""\
import sys


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRA!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None


sys.meta_path.insert(0, Blocker())
"""


RUNNER = """\
import json, os, sys

sys.path[:] = [path for path in sys.path if path != os.getcwd()]
from mcm_compiler.cli.main import main

commands = json.loads(sys.argv[1])
statuses = {}
for name, words in commands.items():
    for stream, number in (("out", 1), ("err", 2)):
        with open(f"{name}.{stream}", "w") as file:
            os.dup2(file.fileno(), number)
    sys.argv = ["mcmc", *words]
    try:
        main()
    except SystemExit as end:
        statuses[name] = end.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
with open("statuses.json", "w") as file:
    json.dump(statuses, file)
"""
"""Several commands in one process, which loads the libraries once."""

COMMANDS = {
    "long": ("compile", "net.onnx", "--target", "mcm4", "-O3", "-o", "long"),
    "check": ("check", "long"),
    "refused": (
        *("compile", "net.onnx", "--target", "mcm4", "-o", "refused"),
        *("--partitioner", 'portfolio{members="dp;rl"}'),
    ),
    "train": ("train", "policy", "-o", "policy"),
    "drawn": (
        *("compile", "net.onnx", "--target", "mcm4", "-o", "drawn"),
        *("--partitioner", "rl-zeroshot", "--samples", "20"),
    ),
    "plan": (
        *("parallelize", "net.onnx", "--target", "mcm4", "--operator", "2"),
        *("--objective", "paper-count"),
    ),
    "strategies": ("strategies", "--format", "json"),
    "trainers": ("train",),
}


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")
    # Every process of a compile begins with it.
    (folder / "blocker").mkdir()
    (folder / "blocker" / "sitecustomize.py").write_text(BLOCKER)
    onnx.save(onnx.parser.parse_model(NET), folder / "net.onnx")
    return folder


@pytest.fixture(scope="module")
def done(work):
    paths = [str(work / "blocker"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-c", RUNNER, json.dumps(COMMANDS)]
    subprocess.run(command, cwd=work, env=environment, check=True)
    statuses = json.loads((work / "statuses.json").read_text())
    return {
        name: Done(status, *((work / f"{name}.{end}").read_text() for end in ("out", "err")))
        for name, status in statuses.items()
    }


def words_of(text):
    return " ".join(text.replace("\n", " ").split())


def test_blocker_reaches_a_process(work):
    environment = {**os.environ, "PYTHONPATH": str(work / "blocker")}
    command = [sys.executable, "-c", "import jax"]
    failed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "No module named 'jax'" in failed.stderr


def test_every_level_does_without(work, done):
    assert done["long"].status == 0, done["long"].err
    assert done["check"].status == 0, done["check"].err
    report = json.loads((work / "long" / "report.json").read_text())
    assert not [each for each in report["diagnostics"] if each["code"].startswith("MCM-L")]


@pytest.mark.parametrize("name", ["refused", "train"])
def test_what_is_asked_for_by_name_is_refused(work, done, name):
    assert done[name].status == 1
    assert "MCM-L012" in done[name].err
    assert "jax and optax are missing" in words_of(done[name].err)
    assert 'pip install "mcm-compiler[learn]"' in words_of(done[name].err)
    assert not (work / "refused").exists()
    assert not (work / "policy").exists()


def test_a_trained_policy_and_plans_do_without(done):
    assert done["drawn"].status == 0, done["drawn"].err
    assert "MCM-L0" not in done["drawn"].err
    plan = done["plan"]
    assert plan.status == 0, plan.err
    assert "MCM-L0" not in plan.out + plan.err


def test_lists_say_who_needs_what(done):
    rows = json.loads(done["strategies"].out)["strategies"]
    extras = {row["name"]: row.get("extra") for row in rows}
    assert extras["rl"] == extras["rl-finetune"] == "learn"
    assert extras["dp"] is extras["rl-zeroshot"] is extras["portfolio"] is None
    assert all(row["fault"] is None for row in rows)
    # Policies of partitions and of placements; mapping models are fitted without JAX.
    assert done["trainers"].out.count("needs mcm-compiler[learn]") == 2
