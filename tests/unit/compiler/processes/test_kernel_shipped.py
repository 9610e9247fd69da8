"""Whether kernels of a wheel are used: each reason against it, provoked."""

from __future__ import annotations

import os
import platform

import pytest

from mcm_compiler.processes import kernel_archive
from mcm_compiler.processes.kernel_archive import (
    archive_bytes,
    common_level,
    facts_here,
    kernel_state,
)


@pytest.fixture(autouse=True)
def generic(monkeypatch):
    """A processor of the level `generic`, and nothing that was found out before."""
    monkeypatch.setattr(kernel_archive, "common_level", lambda: "generic")
    kernel_state.cache_clear()
    common_level.cache_clear()
    yield
    kernel_state.cache_clear()
    common_level.cache_clear()


def archive(folder, name="kernels.bin", **other):
    path = folder / name
    path.write_bytes(archive_bytes(facts_here() | other, {"pack/a.f": {1: b"x", 2: b"y"}}))
    path.chmod(0o644)
    folder.chmod(0o755)
    return path


def test_archive_that_fits_is_used(tmp_path):
    state = kernel_state(archive(tmp_path))
    assert (state.reason, state.archive.header["kernels"]) == ("", 2)


def test_other_python_processor_and_numba(tmp_path):
    reason = kernel_state(archive(tmp_path, "python", python="cpython-299")).reason
    assert reason == f"they are for python cpython-299, not {facts_here()['python']}"
    reason = kernel_state(archive(tmp_path, "processor", processor="z80")).reason
    assert reason == "they are for processor z80, not generic"
    reason = kernel_state(archive(tmp_path, "numba", numba="1")).reason
    assert reason == f"they are for numba 1, not {facts_here()['numba']}"


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_archive_that_others_can_write_is_not_read(tmp_path):
    path = archive(tmp_path)
    for place, mode, usual in ((path, 0o646, 0o644), (tmp_path, 0o777, 0o755)):
        place.chmod(mode)
        kernel_state.cache_clear()
        assert kernel_state(path).reason == f"others can write to {place}"
        place.chmod(usual)
    kernel_state.cache_clear()
    assert kernel_state(path).archive is not None


def test_missing_and_damaged_archives(tmp_path):
    assert kernel_state(tmp_path / "none").reason == "this installation brings none"
    path = archive(tmp_path)
    for damaged in (path.read_bytes()[:-1], b"", b"PK" * 9000):
        kernel_state.cache_clear()
        path.write_bytes(damaged)
        reason = "kernels.bin cannot be read: File is not a zip file"
        assert kernel_state(path).reason == reason


@pytest.mark.parametrize(
    ("machine", "less", "level"),
    [
        ("aarch64", set(), "generic"),
        ("x86_64", set(), "x86-64-v3"),
        ("x86_64", {"fma"}, ""),
        ("riscv64", set(), ""),
    ],
)
def test_level_of_a_machine(monkeypatch, machine, less, level):
    flags = kernel_archive._V3_FLAGS
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(kernel_archive, "_flags", lambda: (flags | {"avx512f"}) - less)
    assert common_level() == level
