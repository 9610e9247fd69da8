"""Private folders: gone with their block; those of dead processes are removed, no others."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mcm_compiler.processes import private_folders
from mcm_compiler.processes.crash_journal import CrashJournal
from mcm_compiler.processes.private_folders import clean_up, private_folder, remove_stale, world
from mcm_compiler.processes.staging import staging

linux = pytest.mark.skipif(world() is None, reason="only Linux tells which processes are alive")


@pytest.fixture
def dead() -> int:
    """The number of a process that has just ended."""
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def _left(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    (folder / "chip_00.onnx").touch()
    return folder


def test_a_private_folder_is_removed_with_what_is_in_it(tmp_path: Path) -> None:
    with private_folder(tmp_path) as folder:
        (folder / "a").touch()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert folder.name.startswith(".mcmc-")
        remove_stale(tmp_path)
        assert folder.exists()
    assert os.listdir(tmp_path) == []


@linux
def test_what_a_dead_process_left_is_removed(tmp_path: Path, dead: int) -> None:
    _left(tmp_path, f".mcmc-{world()}-{dead}-abc")
    remove_stale(tmp_path)
    assert os.listdir(tmp_path) == []


@linux
def test_what_a_process_left_that_nobody_has_reaped_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        _left(tmp_path, f".mcmc-{world()}-{child.pid}-abc")
        remove_stale(tmp_path)
        assert os.listdir(tmp_path) == []


@linux
def test_a_compile_removes_what_a_dead_one_left(tmp_path: Path, dead: int) -> None:
    _left(tmp_path, f".mcmc-{world()}-{dead}-abc")
    with staging(tmp_path / "out"):
        pass
    assert os.listdir(tmp_path) == ["out"]


@linux
def test_what_may_be_in_use_is_kept(tmp_path: Path, dead: int) -> None:
    names = [
        f".mcmc-{world()}-{os.getppid()}-alive",
        f".mcmc-{world()}-1-not_ours",
        f".mcmc-00000000-{dead}-another_host",
        f".mcmc-here-{dead}-unknown_host",
        f".mcmc-{world()}-{dead}",
        f"mcmc-{world()}-{dead}-abc",
        ".mcmc-old-abc",
        ".mcmc-abc",
    ]
    for name in names:
        _left(tmp_path, name)
    (tmp_path / f".mcmc-{world()}-{dead}-file").touch()
    elsewhere = _left(tmp_path, "elsewhere")
    (tmp_path / f".mcmc-{world()}-{dead}-link").symlink_to(elsewhere)
    before = sorted(os.listdir(tmp_path))
    remove_stale(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before
    assert os.listdir(elsewhere) == ["chip_00.onnx"]


@linux
def test_what_belongs_to_another_user_is_kept(
    tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _left(tmp_path, f".mcmc-{world()}-{dead}-abc")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    remove_stale(tmp_path)
    assert folder.exists()


def test_where_the_system_tells_nothing_nothing_is_removed(
    tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_folders, "world", lambda: None)
    with private_folder(tmp_path) as folder:
        assert folder.name.startswith(f".mcmc-here-{os.getpid()}-")
    left = _left(tmp_path, f".mcmc-here-{dead}-abc")
    remove_stale(tmp_path)
    assert left.exists()


def test_a_folder_that_cannot_be_read_does_no_harm(tmp_path: Path) -> None:
    remove_stale(tmp_path / "missing")


def test_half_written_folders_of_a_dead_process_are_removed(tmp_path: Path) -> None:
    folder = _left(tmp_path, ".mcmc-x")
    missing = tmp_path / ".mcmc-y"
    clean_up(CrashJournal(unfinished=(str(folder), str(missing))))
    assert os.listdir(tmp_path) == []


def test_nothing_else_is_removed_whatever_the_journal_says(tmp_path: Path) -> None:
    mine = _left(tmp_path, "thesis")
    clean_up(CrashJournal(unfinished=(str(mine), str(tmp_path), str(mine / "chip_00.onnx"), "")))
    assert os.listdir(mine) == ["chip_00.onnx"]


def test_a_displaced_folder_goes_back_unless_a_new_one_is_there(tmp_path: Path) -> None:
    old = tmp_path / ".mcmc-old-x"
    kept, home = old / "folder", tmp_path / "out"
    kept.mkdir(parents=True)
    journal = CrashJournal(unfinished=(str(old),), displaced=((str(kept), str(home)),))
    clean_up(journal)
    assert os.listdir(tmp_path) == ["out"]
    kept.mkdir(parents=True)
    (home / "new").touch()
    clean_up(journal)
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(home) == ["new"]
