"""The files for CI do what they say: steps, scripts and hooks run on a project of one model."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
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
_EXPRESSION = re.compile(r"\$\{\{ (inputs|steps\.\w+\.outputs)\.(\w+) \}\}")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with a model and its project file; what one test compiles, the next has cached."""
    folder = tmp_path_factory.mktemp("project")
    onnx.save(onnx.parser.parse_model(NET), folder / "net.onnx")
    (folder / "mcmc.toml").write_text(PROJECT)
    return folder


def run(script, folder, *commands, **variables):
    # Kernels lie where all tests have them.
    kernels = {"NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", "")}
    return shell_output(
        script, folder, [*commands, Path(sys.executable).parent], variables | kernels
    )


class Runner:
    """Runs the action as GitHub does, in a repository of its own, with caches as folders.

    Attributes:
        workspace: with the repository.
        store: what `actions/cache` has saved, by key.
        summary: what the last run put into the summary of its steps.
        log: what its steps printed.
    """

    def __init__(self, folder: Path, commands: Path) -> None:
        self.commands = commands
        self.action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
        self.workspace, self.store = folder / "work", folder / "store"
        self.store.mkdir()
        (self.workspace / "nets").mkdir(parents=True)
        onnx.save(onnx.parser.parse_model(NET), self.workspace / "nets" / "net.onnx")
        (self.workspace / "nets" / "mcmc.toml").write_text(PROJECT)
        shell_output("git init -q", self.workspace, [], {})
        self.summary = self.log = ""

    def run(self, branch: str, event: str = "push", **inputs: str) -> bool:
        """One run on a fresh runner; whether it passed."""
        given = {name: told["default"] for name, told in self.action["inputs"].items()}
        self.values = {f"inputs.{name}": value for name, value in (given | inputs).items()}
        for name in (".mcmc-cache", ".mcmc-baseline", "build"):
            shutil.rmtree(self.workspace / "nets" / name, ignore_errors=True)
        self.summary, self.log, passed = "", "", True
        for step in self.action["runs"]["steps"]:
            condition = " ".join(str(step.get("if", "")).split())
            if step["name"] in ("Install", "Cache"):
                continue
            if step["name"] == "Restore the baseline":
                assert condition == "steps.folders.outputs.versioned == 'false'"
                self._restore(step["with"])
            elif step["name"] == "Save the baseline":
                assert condition.startswith(
                    "always() && steps.folders.outputs.versioned == 'false'"
                )
                assert "github.event_name != 'pull_request'" in condition
                assert "github.event.repository.default_branch" in condition
                changed = self.values["steps.build.outputs.changed"] == "true"
                if changed and branch == "main" and event != "pull_request":
                    self._save(step["with"])
            else:
                passed = self.shell(step)
        return passed

    def filled(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: self.values[f"{found[1]}.{found[2]}"], text)

    def shell(self, step) -> bool:
        # What a user gives reaches the shell as a variable, never as text of a script.
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
        given = {name: self.filled(value) for name, value in step.get("env", {}).items()}
        files = {name: self.workspace.parent / name for name in ("output", "summary")}
        for path in files.values():
            path.write_text("")
        github = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_OUTPUT": str(files["output"]),
            "GITHUB_STEP_SUMMARY": str(files["summary"]),
        }
        script = f"bash -eo pipefail -c {shlex.quote(step['run'])} || echo FAILED"
        self.log += run(script, self.workspace, self.commands, **github, **given)
        self.summary += files["summary"].read_text()
        for line in files["output"].read_text().splitlines():
            name, _, value = line.partition("=")
            self.values[f"steps.{step.get('id')}.outputs.{name}"] = value
        return not self.log.endswith("FAILED\n")

    def _restore(self, given) -> None:
        prefix = self.filled(given["restore-keys"])
        saved = sorted(path for path in self.store.iterdir() if path.name.startswith(prefix))
        if saved:
            shutil.copytree(saved[-1], self.workspace / self.filled(given["path"]))

    def _save(self, given) -> None:
        key = f"{self.filled(given['key'].partition('${{ github')[0])}{len(os.listdir(self.store))}"
        shutil.copytree(self.workspace / self.filled(given["path"]), self.store / key)


def test_the_action_compares_with_the_baseline_of_the_main_branch(tmp_path, warm_mcmc):
    runner = Runner(tmp_path, warm_mcmc.parent)
    install = next(step for step in runner.action["runs"]["steps"] if step["name"] == "Install")
    root = install["run"].partition('"')[2].strip('"\n')
    assert (
        run(f'cd "{root}" && pwd', tmp_path, GITHUB_ACTION_PATH=str(ACTION.parent)) == f"{ROOT}\n"
    )
    main = {"branch": "main", "project": "nets", "jobs": "1"}
    pull = {**main, "branch": "feature", "event": "pull_request"}
    assert runner.run(**main)
    (first,) = runner.store.iterdir()
    # The folders are those of the project, wherever it is.
    cache = next(step for step in runner.action["runs"]["steps"] if step["name"] == "Cache")
    assert runner.filled(cache["with"]["path"]).split() == ["nets/.mcmc-cache", ".numba-cache"]
    assert runner.filled(runner.action["outputs"]["baseline"]["value"]) == "nets/.mcmc-baseline"
    ops = " ".join(f"h{i + 1} = Softmax(h{i})" for i in range(9))
    model = onnx.parser.parse_model(
        NET.replace("h = Sigmoid(x)", f"h0 = Sigmoid(x) {ops} h = Exp(h9)")
    )
    onnx.save(model, runner.workspace / "nets" / "net.onnx")
    for where in (pull, main):
        assert not runner.run(**where)
        assert runner.summary.count("## mcmc build") == 1
        assert "MCM-U031" in runner.summary
        # Annotations name files of the repository.
        assert "::error file=nets/net.onnx,line=1,title=MCM-U031 net/mcm4::" in runner.log
        assert list(runner.store.iterdir()) == [first]
    results = runner.workspace / runner.values["inputs.results"]
    assert ET.parse(results / "junit.xml").getroot()[0].get("failures") == "1"
    (log,) = json.loads((results / "results.sarif").read_text())["runs"]
    (place,) = log["results"][0]["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "nets/net.onnx"
    assert runner.run(**main, accept="true")
    assert len(list(runner.store.iterdir())) == 2
    # A baseline under version control is used as it is.
    shell_output("git add -f nets/.mcmc-baseline", runner.workspace, [], {})
    folders = next(s for s in runner.action["runs"]["steps"] if s["name"] == "Folders")
    assert runner.shell(folders)
    assert runner.values["steps.folders.outputs.versioned"] == "true"


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
