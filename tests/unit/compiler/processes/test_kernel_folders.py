"""Folders of kernels: an upgrade in place leaves none behind, and no others can write to them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcm_compiler.processes import kernel_folders

USE = """
import sys
from mcm_compiler.processes import kernel_folders
kernel_folders.installation_name = lambda: sys.argv[1]
kernel_folders.PACKAGES = {"pack"}
from pack.calling import twice
print(twice(4))
"""
CALLED = """
from mcm_compiler.arrays.kernels import entry_njit

@entry_njit
def step(x):
    return x + 1
"""
CALLING = """
from mcm_compiler.arrays.kernels import entry_njit
from pack.called import step

@entry_njit
def twice(x):
    return step(step(x))
"""


def used(folder, name):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    paths = os.pathsep.join([str(folder), clean.get("PYTHONPATH", "")])
    # Without bytecode: it would not see that a file has changed within a second.
    run = [sys.executable, "-B", "-P", "-c", USE, name]
    environment = clean | {"PYTHONPATH": paths}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.fixture
def pack(tmp_path):
    """A package with a kernel that calls one of another file."""
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "called.py").write_text(CALLED)
    (folder / "calling.py").write_text(CALLING)
    return folder


def test_an_upgrade_leaves_no_kernels_behind(tmp_path, pack):
    assert used(tmp_path, "mcm-1") == 6
    (pack / "called.py").write_text(CALLED.replace("+ 1", "+ 5"))
    assert used(tmp_path, "mcm-2") == 14
    folders = {path.name for path in (pack / "__pycache__").iterdir() if path.is_dir()}
    assert folders == {"mcm-2"}


def test_an_index_that_cannot_be_read_any_more_is_none_of_a_new_installation(tmp_path, pack):
    assert used(tmp_path, "mcm-1") == 6
    for index in (pack / "__pycache__").rglob("*.nbi"):
        index.write_bytes(index.read_bytes()[:-20] + b"torn in two by a.")
    assert used(tmp_path, "mcm-2") == 6


def kernel():
    """Of a package that the module's name says."""


@pytest.fixture
def private(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kernel_folders.private_kernels.cache_clear()
    yield tmp_path / f".mcmc-kernels-{os.geteuid()}"
    kernel_folders.private_kernels.cache_clear()


def test_kernels_of_plugins_have_no_folder_of_the_installation(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_folders, "installation_name", lambda: "mcm-1")
    (file := tmp_path / "kernels.py").write_text("")
    monkeypatch.setattr(kernel, "__module__", "elsewhere.kernels")
    found = kernel_folders.KernelLocator.from_function(kernel, str(file))
    assert found.get_cache_path() == str(tmp_path / "__pycache__")
    monkeypatch.setattr(kernel, "__module__", "mcm_passes.kernels")
    found = kernel_folders.KernelLocator.from_function(kernel, str(file))
    assert found.get_cache_path() == str(tmp_path / "__pycache__" / "mcm-1")


def test_an_installation_that_cannot_be_written_has_a_private_folder(tmp_path, private):
    (file := tmp_path / "kernels.py").write_text("")
    (tmp_path / "__pycache__").write_text("in the way")
    found = kernel_folders.KernelLocator.from_function(kernel, str(file))
    assert found.get_cache_path().startswith(str(private))
    assert private.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("taken", ["link", "open to others", "file"])
def test_a_name_that_others_could_have_taken_is_not_trusted(
    taken: str, tmp_path: Path, private: Path
) -> None:
    name = private
    if taken == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        name.symlink_to("elsewhere")
    elif taken == "file":
        name.touch()
    else:
        name.mkdir()
        name.chmod(0o777)
    assert kernel_folders.private_kernels() is None
