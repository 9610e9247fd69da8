"""`mcmc new`: what it writes is installed, and its own tests pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.cli.verbs.new import KINDS
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.registry import COST_MODELS, PASSES, STRATEGIES


def _write(word: str, folder: Path, name: str) -> None:
    result = CliRunner().invoke(cli, ["new", word, name, "-o", str(folder / word)])
    assert result.exit_code == 0, result.stderr


def _run(words: list[str], site: Path, cwd: Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _register(source: Path, site: Path) -> None:
    """What an installer does with a package of Python: its folder and its entry points."""
    project: dict[str, Any] = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    package = project["name"].replace("-", "_")
    (site / package).symlink_to(source / package)
    info = site / f"{package}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines: list[str] = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def test_their_own_tests_pass_where_they_are_installed(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    for word in KINDS:
        _write(word, tmp_path, f"acme-new-{word}")
        if word != "target":
            _register(tmp_path / word, site)
    # A real installation of the one that has a file beside its modules.
    pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    _run([*pip, "--disable-pip-version-check", "--target", str(site), "./target"], site, tmp_path)
    quiet = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir", str(tmp_path)]
    told = _run(["-m", "pytest", *quiet, *(f"{word}/tests" for word in KINDS)], site, tmp_path)
    assert "13 passed" in told, told


def test_their_types_are_right_in_the_strict_modes_of_mypy_and_pyright(tmp_path: Path) -> None:
    for word in KINDS:
        _write(word, tmp_path, f"acme-typed-{word}")
    sources = [str(path) for path in sorted(tmp_path.glob("*/acme_typed_*"))]
    assert len(sources) == len(KINDS)
    cache = ["--cache-dir", str(tmp_path / "cache")]
    _run(["-m", "mypy", "--strict", *cache, *sources], tmp_path, tmp_path)
    strict = {"typeCheckingMode": "strict", "extraPaths": [*map(str, KINDS)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(strict))
    found = _run(["-m", "pyright", "--pythonpath", sys.executable], tmp_path, tmp_path)
    assert "0 errors" in found, found


def test_files_work_without_an_installation(tmp_path: Path) -> None:
    for word, file, found in (
        ("pass", "graph_pass.py", PASSES),
        ("strategy", "strategy.py", STRATEGIES),
        ("cost-model", "cost_model.py", COST_MODELS),
    ):
        name = f"acme_alone_{word.replace('-', '_')}"
        _write(word, tmp_path, name)
        load_plugin(tmp_path / word / name / file)
        assert found.get(name).name == name
        found.remove(name)


def test_the_text_is_ours_to_lint(tmp_path: Path) -> None:
    for word in KINDS:
        _write(word, tmp_path, f"acme-lint-{word}")
        ruff = ["-m", "ruff", "check", "--isolated", "--line-length", "100", "--no-cache", "."]
        _run([*ruff, "--select", "E,F,W,I,B,UP"], tmp_path, tmp_path / word)
        _run(["-m", "ruff", "format", "--isolated", "--line-length", "100", "--no-cache", "--check",
              "."], tmp_path, tmp_path)  # fmt: skip
