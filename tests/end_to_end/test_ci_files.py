"""The files for CI do what they say: steps, scripts and hooks run on a project of one model."""

from __future__ import annotations

import os
import re
import shlex
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import onnx
import onnx.parser
import pytest
import yaml

from mcm_compiler.cli.main import VERBS
from tests.end_to_end.conftest import shell_output

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "how-to" / "examples"
ACTION = ROOT / ".github" / "actions" / "mcmc-build" / "action.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
DOCKERFILE = EXAMPLES / "Dockerfile"
NET = """<ir_version: 8, opset_import: ["": 17]>
net (float[batch, 64] x) => (float[batch, 64] y) { h = Sigmoid(x) y = Softmax(h) }"""
PROJECT = """targets = ["mcm4"]
level = 0
[[models]]
files = "*.onnx"
dims = { batch = 1 }
"""
_EXPRESSION = re.compile(r"\$\{\{ inputs\.([a-z]+) \}\}")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with a model and its project file; what one test compiles, the next has cached."""
    folder = tmp_path_factory.mktemp("project")
    onnx.save(onnx.parser.parse_model(NET), folder / "net.onnx")
    (folder / "mcmc.toml").write_text(PROJECT)
    return folder


def run(script, folder, **variables):
    # Kernels lie where all tests have them.
    kernels = {"NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", "")}
    return shell_output(script, folder, [Path(sys.executable).parent], variables | kernels)


def test_the_action_builds_and_summarises(project):
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    defaults = {name: given["default"] for name, given in action["inputs"].items()}
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        if "uses" in step:
            assert step["uses"] == "actions/cache@v4"
            continue
        assert step["shell"] == "bash"
        # What a user gives reaches the shell as a variable, never as text of a script.
        assert "${{" not in step["run"]
        if step["name"] == "Install":
            root = step["run"].partition('"')[2].strip('"\n')
            assert run(f'cd "{root}" && pwd', project, GITHUB_ACTION_PATH=str(ACTION.parent)) == (
                f"{ROOT}\n"
            )
            continue
        given = {
            name: _EXPRESSION.sub(lambda found: defaults[found[1]], value)
            for name, value in step.get("env", {}).items()
        }
        run(step["run"], project, GITHUB_STEP_SUMMARY="summary.txt", **given)
    outputs = {
        name: _EXPRESSION.sub(lambda found: defaults[found[1]], given["value"])
        for name, given in action["outputs"].items()
    }
    assert ET.parse(project / outputs["junit"]).getroot()[0].get("failures") == "0"
    assert (project / outputs["sarif"]).is_file()
    assert "net" in (project / "summary.txt").read_text()


def test_the_script_for_gitlab(project):
    job = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text(encoding="utf-8"))["mcmc"]
    for line in job["script"]:
        run(line, project)
    assert (project / job["artifacts"]["reports"]["junit"]).is_file()
    assert all((project / path).is_dir() for path in job["artifacts"]["paths"])
    assert (project / job["cache"]["paths"][0]).is_dir()


def test_the_hook_builds_when_a_model_or_the_project_changes(project):
    run(f"pre-commit validate-manifest {shlex.quote(str(HOOKS))}", project)
    (hook,) = yaml.safe_load(HOOKS.read_text(encoding="utf-8"))
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    for name in ("a/net.onnx", "net.onnx.data", "mcmc.toml", "a/mcmc.toml"):
        assert re.search(hook["files"], name)
    for name in ("net.onnx.txt", "notmcmc.toml", "README.md"):
        assert not re.search(hook["files"], name)
    run(hook["entry"], project)


def test_the_image_copies_what_is_there_and_runs_verbs():
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    instructions = [line.partition(" ")[::2] for line in lines]
    copied = [shlex.split(rest) for name, rest in instructions if name == "COPY"]
    assert copied
    for *sources, _destination in copied:
        assert all((ROOT / source).exists() for source in sources)
    # What the wheel is made of is in the image.
    packages = re.findall(r"packages = \[(.*)\]", (ROOT / "pyproject.toml").read_text())[0]
    folders = {source for *sources, _ in copied for source in sources}
    assert all(path.strip('" ').partition("/")[0] in folders for path in packages.split(","))
    verbs = re.findall(r"mcmc ([a-z]+) ", " ".join(rest for name, rest in instructions))
    verbs += [dict(instructions)["CMD"].strip('[]"')]
    assert dict(instructions)["ENTRYPOINT"] == '["mcmc"]'
    assert verbs == ["compile", "build"]
    assert set(verbs) <= VERBS.keys()


def test_no_file_names_an_index_of_packages():
    for path in (ACTION, HOOKS, DOCKERFILE, *EXAMPLES.glob("*.yml")):
        assert not re.search(r"https?://|index-url", path.read_text(encoding="utf-8")), path
