"""Projects as a user builds them: a part of the benchmark's, and one that is asked to end."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from tests.generators.mlp_files import write_network

BENCH = Path(__file__).parents[2] / "tools" / "bench"
MCMC = Path(sys.executable).with_name("mcmc")


def load_benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("project_build", BENCH / "project_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(*arguments):
    result = CliRunner().invoke(cli, ["build", "--jobs", "1", "--format", "json", *arguments])
    assert result.exit_code == 0, result.output
    return {cell["cell"]: cell for cell in json.loads(result.stdout)["cells"]}


def test_models_for_three_targets_and_again_with_one_changed(tmp_path, monkeypatch):
    benchmark = load_benchmark(monkeypatch)
    benchmark.QUICK = benchmark.QUICK[:2]
    names = benchmark.write_models(tmp_path / "models", quick=True)
    assert len(names) == 3
    benchmark.draft(tmp_path)
    project = str(tmp_path / "mcmc.toml")
    first = build(project)
    assert first.keys() == {f"{name}/{target}" for name in names for target in benchmark.TARGETS}
    assert all(cell["ok"] and not cell["cached"] for cell in first.values())
    benchmark.change(tmp_path)
    second = build(project)
    anew = [name for name, cell in second.items() if not cell["cached"]]
    assert anew == [f"{benchmark.CHANGED}/{target}" for target in benchmark.TARGETS]
    kept = first.keys() - set(anew)
    assert {name: second[name]["figures"] for name in kept} == {
        name: first[name]["figures"] for name in kept
    }
    # Kernels take as long with other weights.
    assert all(second[name]["comparison"]["change"] == 0 for name in anew)


def test_a_build_that_is_asked_to_end_leaves_whole_folders_alone(tmp_path):
    for number in range(8):
        write_network(tmp_path / f"models/m{number}.onnx", seed=number)
    (tmp_path / "mcmc.toml").write_text(
        'targets = "mcm4"\nlevel = 0\nreplicas = 1\ndims = { batch = 1 }\n'
        '[[models]]\nfiles = "models/*.onnx"\n'
    )
    process = subprocess.Popen(
        [MCMC, "build", "--jobs", "1"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    with process:
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    assert process.returncode == 143
    made = [path for path in (tmp_path / "build/mcmc").rglob("*") if path.is_dir()]
    outputs = [path for path in made if (path / "manifest.json").is_file()]
    assert outputs
    assert {parent for path in outputs for parent in path.parents} >= {*made} - {*outputs}
    kept = {".mcmc-cache", ".mcmc-baseline"}
    assert [path for path in tmp_path.rglob(".mcmc-*") if path.name not in kept] == []
    entries = list((tmp_path / ".mcmc-cache/entries").glob("*/*"))
    assert all((path / "entry.json").is_file() for path in entries)
    assert len(entries) < 8
    after = build(str(tmp_path / "mcmc.toml"))
    assert sum(cell["cached"] for cell in after.values()) == len(entries)
    assert all(cell["ok"] for cell in after.values())
