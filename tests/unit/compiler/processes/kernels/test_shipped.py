"""Whether kernels of a wheel are used: each reason against it, provoked."""

from __future__ import annotations

import os
import platform
import sys

import pytest

from mcm_compiler.processes.kernels import shipped
from mcm_compiler.processes.kernels.header import KernelHeader
from mcm_compiler.processes.kernels.shipped import (
    CPU_FEATURES,
    CPU_NAME,
    LOCATORS,
    common_level,
    use_shipped_kernels,
)


@pytest.fixture
def fresh(monkeypatch):
    """A process that has not loaded numba, on a processor of the level `generic`."""
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    for name in (CPU_NAME, CPU_FEATURES, LOCATORS):
        # Set first, so that what is set later is taken back.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(shipped, "_state", shipped.kernel_state())
    monkeypatch.setattr(shipped, "common_level", lambda: "generic")


def archive(folder, **other):
    fields = {
        "python": sys.implementation.cache_tag,
        "system": sys.platform,
        "machine": platform.machine(),
        "numba": "1",
        "llvmlite": "2",
        "cpu_name": "generic",
        "cpu_features": "",
    }
    header = KernelHeader(**fields | other, kernels=3, index_bytes=2, data_bytes=0)
    path = folder / "kernels.bin"
    path.write_bytes(header.line() + b"{}")
    path.chmod(0o644)
    folder.chmod(0o755)
    return path


def test_archive_that_fits_is_used(fresh, tmp_path):
    state = use_shipped_kernels(archive(tmp_path))
    assert (state.reason, state.header.kernels) == ("", 3)
    assert (os.environ[CPU_NAME], os.environ[CPU_FEATURES]) == ("generic", "")
    assert os.environ[LOCATORS].startswith("mcm_compiler.processes.kernels.archive.ArchiveHook,")
    # A process that this one starts finds the variables set, to the same.
    assert use_shipped_kernels(archive(tmp_path)).header is not None


def test_locators_are_numbas_own_after_ours():
    from numba.core.caching import CacheImpl

    own = tuple(cls.__name__ for cls in CacheImpl._locator_classes)
    assert own == shipped._CLASSES[2:]


def test_other_python_and_other_processor(fresh, tmp_path):
    reason = use_shipped_kernels(archive(tmp_path, python="cpython-299")).reason
    assert reason.startswith("they are for cpython-299")
    reason = use_shipped_kernels(archive(tmp_path, cpu_name="z80")).reason
    assert reason == "they are for z80, and this processor is not"


def test_what_a_user_has_set_stays(fresh, tmp_path, monkeypatch):
    monkeypatch.setenv(CPU_NAME, "mine")
    assert f"{CPU_NAME} or" in use_shipped_kernels(archive(tmp_path)).reason
    assert os.environ[CPU_NAME] == "mine"
    assert LOCATORS not in os.environ
    monkeypatch.delenv(CPU_NAME)
    monkeypatch.setenv(LOCATORS, "InTreeCacheLocator")
    assert use_shipped_kernels(archive(tmp_path)).reason == f"{LOCATORS} is set to something else"


def test_numba_that_was_loaded_first_is_left_alone(fresh, tmp_path, monkeypatch):
    class Config:
        CPU_NAME = None
        CPU_FEATURES = None
        CACHE_LOCATOR_CLASSES = ""

    class Loaded:
        config = Config

    monkeypatch.setitem(sys.modules, "numba", Loaded)
    reason = use_shipped_kernels(archive(tmp_path)).reason
    assert reason == "numba was imported before mcm_compiler"
    assert CPU_NAME not in os.environ


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_archive_that_others_can_write_is_not_read(fresh, tmp_path):
    path = archive(tmp_path)
    path.chmod(0o646)
    assert use_shipped_kernels(path).reason == f"others can write to {path}"
    path.chmod(0o644)
    tmp_path.chmod(0o777)
    assert use_shipped_kernels(path).reason == f"others can write to {tmp_path}"
    tmp_path.chmod(0o755)
    assert use_shipped_kernels(path).header is not None


def test_missing_and_damaged_archives(fresh, tmp_path):
    assert use_shipped_kernels(tmp_path / "none").reason == "this installation brings none"
    path = archive(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert "kernels.bin cannot be read: it has" in use_shipped_kernels(path).reason


def test_level_of_this_machine(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert common_level() == "generic"
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    flags = shipped._V3_FLAGS
    monkeypatch.setattr(shipped, "_flags", lambda: flags | {"avx512f"})
    assert common_level() == "x86-64-v3"
    monkeypatch.setattr(shipped, "_flags", lambda: flags - {"fma"})
    assert common_level() == ""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert common_level() == ""
