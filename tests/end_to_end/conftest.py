"""Shared pieces of the end-to-end tests."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.options import CompileOptions
from tests.end_to_end.warm_command import warm_command

Mcmc = Callable[..., subprocess.CompletedProcess[str]]


def assert_told_alone(done: subprocess.CompletedProcess[str], code: str) -> None:
    """Says that a command was refused with one diagnostic, with its place and a hint."""
    assert done.returncode == 1, done.stderr
    assert re.findall(r"error\[(MCM-\w+)\]", done.stderr) == [code], done.stderr
    assert "\n  at: " in done.stderr
    assert "\n  hint: " in done.stderr
    assert "Traceback" not in done.stderr


def shell_output(
    script: str, folder: Path, commands: Sequence[Path], variables: Mapping[str, str]
) -> str:
    """What a script of bash prints that ends well.

    Args:
        script: its text.
        folder: in which it runs.
        commands: folders that come first on its path.
        variables: beside this process's own but for those of Python and of GitHub.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GITHUB_"))}
    path = os.pathsep.join([*map(str, commands), inherited["PATH"]])
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={**inherited, "PATH": path, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"$ {script}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="session")
def warm_mcmc() -> Iterator[Path]:
    """The command `mcmc` without the time of its imports, alone in its folder."""
    with warm_command() as command:
        yield command


@pytest.fixture(scope="session")
def mcmc(warm_mcmc: Path) -> Mcmc:
    """Runs the warm command in the folder `cwd`; what came of it, which is never a stack trace."""

    def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        words = [str(warm_mcmc), *map(str, arguments)]
        done = subprocess.run(
            words, cwd=cwd, capture_output=True, text=True, check=False, timeout=300
        )
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.fixture
def workspace(tmp_path):
    """A folder that is gone right after the test: full-size models would fill the disk."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def compile_to(workspace):
    """Compiles a model into a folder of the workspace and returns the result.

    As one pipeline unless asked otherwise: these tests are about models that are cut.
    """

    def run(model, target="mcm36", name="out", force=False, **options):
        return compile_model(
            model,
            target,
            CompileOptions(**{"replicas": 1, **options}),
            output=Path(workspace) / name,
            force=force,
        )

    return run


@pytest.fixture
def wait_for_chips():
    """Waits until a compile below a folder writes its chips, at most a minute.

    Half-written folders are renamed and removed meanwhile: `glob.glob` passes over what
    vanishes as it looks, `Path.glob` raises.
    """

    def wait(folder):
        pattern = str(Path(glob.escape(str(folder))) / ".mcmc-*" / "chip_*.onnx")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not glob.glob(pattern):
            time.sleep(0.01)

    return wait
