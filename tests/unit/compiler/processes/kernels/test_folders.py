"""An upgrade in place leaves no kernel behind that is taken."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mcm_compiler.processes.kernels.shipped import LOCATORS

USE = """
import sys
from mcm_compiler.processes.kernels import folders
folders.installation_name = lambda: sys.argv[1]
folders.PACKAGES = {"pack"}
from pack.calling import twice
print(twice(4))
"""
CALLED = "from numba import njit\n\n@njit(cache=True)\ndef step(x):\n    return x + 1\n"
CALLING = """
from numba import njit
from pack.called import step

@njit(cache=True)
def twice(x):
    return step(step(x))
"""


def used(folder, name):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    clean[LOCATORS] = (
        "mcm_compiler.processes.kernels.folders.InstallationLocator,InTreeCacheLocator"
    )
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


def test_a_kernel_is_compiled_anew_when_one_that_it_calls_has_changed(tmp_path, pack):
    assert used(tmp_path, "mcm-1") == 6
    (pack / "called.py").write_text(CALLED.replace("+ 1", "+ 5"))
    # numba alone does not see it, and a checkout, which has no name, goes by its rules.
    assert used(tmp_path, "mcm-1") == 6
    assert used(tmp_path, "mcm-2") == 14
    folders = {path.name for path in (pack / "__pycache__").iterdir() if path.is_dir()}
    assert folders == {"mcm-2"}


def test_an_index_that_cannot_be_read_any_more_is_none_of_a_new_installation(tmp_path, pack):
    assert used(tmp_path, "mcm-1") == 6
    for index in (pack / "__pycache__").rglob("*.nbi"):
        index.write_bytes(index.read_bytes()[:-20] + b"torn in two by a.")
    assert used(tmp_path, "mcm-2") == 6


def test_functions_of_others_stay_where_numba_has_them(tmp_path, monkeypatch):
    from mcm_compiler.processes.kernels import folders

    monkeypatch.setattr(folders, "installation_name", lambda: "mcm-1")
    (file := tmp_path / "kernels.py").write_text("")

    def kernel():
        """Of a package that the module's name tells."""

    kernel.__module__ = "elsewhere.kernels"
    assert folders.InstallationLocator.from_function(kernel, str(file)) is None
    kernel.__module__ = "mcm_passes.kernels"
    found = folders.InstallationLocator.from_function(kernel, str(file))
    assert found is not None
    assert found.get_cache_path().endswith("mcm-1")
