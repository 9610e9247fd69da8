"""What a process tells ahead: in order, undone when blocks end, free where nobody listens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcm_compiler.processes.crash_journal import (
    MAX_STEP_CHARACTERS,
    CrashJournal,
    displaced,
    doing,
    finished,
    is_heard,
    tell_to,
    unfinished,
)
from mcm_compiler.processes.private_folders import clean_up, private_folder


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[CrashJournal]]:
    journal: list[CrashJournal] = []
    monkeypatch.setattr("mcm_compiler.processes.crash_journal._teller.unfinished", [])
    tell_to(journal.append)
    yield journal
    tell_to(None)


def test_steps_nest_and_end(told: list[CrashJournal]) -> None:
    with doing("model"), doing("pass"):
        assert told[-1].steps == ("model", "pass")
    assert [w.steps for w in told] == [("model",), ("model", "pass"), ("model",), ()]


def test_equal_steps_are_told_apart(told: list[CrashJournal]) -> None:
    with doing("a"):
        with doing("b"), doing("a"):
            assert told[-1].steps == ("a", "b", "a")
        assert told[-1].steps == ("a",)


def test_a_failing_block_ends_its_step(told: list[CrashJournal]) -> None:
    with pytest.raises(ValueError, match="no"), doing("model"), unfinished(Path("x")):
        raise ValueError("no")
    assert told[-1] == CrashJournal()


def test_what_a_signal_keeps_from_being_removed_stays_told(
    told: list[CrashJournal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    with (
        monkeypatch.context() as patch,
        pytest.raises(KeyboardInterrupt),
        private_folder(tmp_path) as folder,
    ):
        patch.setattr("mcm_compiler.processes.private_folders.shutil.rmtree", interrupted)
    assert told[-1].unfinished == (str(folder),)
    clean_up(told[-1])
    assert list(tmp_path.iterdir()) == []


def test_paths_are_absolute(told: list[CrashJournal]) -> None:
    with unfinished(Path("x")), displaced(Path("kept"), Path("home")):
        here = os.getcwd()
        assert told[-1].unfinished == (f"{here}/x",)
        assert told[-1].displaced == ((f"{here}/kept", f"{here}/home"),)


def test_long_steps_are_cut(told: list[CrashJournal]) -> None:
    with doing("x" * 10_000):
        assert len(told[-1].steps[0]) == MAX_STEP_CHARACTERS


def test_the_end_is_told(told: list[CrashJournal]) -> None:
    finished(3)
    assert told == [CrashJournal(exit_code=3)]


@pytest.mark.forks
def test_a_fork_tells_nothing(told: list[CrashJournal]) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with doing("in the fork"):
            os.write(writing, str(len(told)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"0"
    os.close(reading)
    os.close(writing)


def test_without_a_listener_nothing_is_kept() -> None:
    assert not is_heard()
    with doing("unheard"):
        journal: list[CrashJournal] = []
        tell_to(journal.append)
        try:
            assert is_heard()
            finished(0)
        finally:
            tell_to(None)
    assert journal == [CrashJournal(exit_code=0)]


def test_any_file_name_survives_the_way() -> None:
    journal = CrashJournal(("pass 'a'",), (os.fsdecode(b"/x/\xff\n"),), (("/kept", "/é"),), 1)
    assert CrashJournal.from_bytes(journal.to_bytes()) == journal
