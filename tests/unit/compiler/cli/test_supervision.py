"""The supervising parent: what it supervises, what it hears, and what it says."""

from __future__ import annotations

import signal

import pytest

from mcm_compiler.cli import supervision
from mcm_compiler.cli.main import all_verbs
from mcm_compiler.cli.supervision import SUPERVISED_VERBS, SharedJournal, crash, supervise
from mcm_compiler.processes.crash_journal import CrashJournal

WORDS = CrashJournal(("model 'm.onnx'", "pass 'verify'", "running chip_03.onnx in onnxruntime"))


def test_the_last_journal_wins() -> None:
    shared = SharedJournal()
    for step in ("a", "b", "c"):
        shared.write(CrashJournal((step,)))
        assert shared.read() == CrashJournal((step,))


def test_a_journal_that_does_not_fit_is_left_out() -> None:
    shared = SharedJournal()
    shared.write(WORDS)
    shared.write(CrashJournal(unfinished=("x" * SharedJournal.SLOT_BYTES,)))
    assert shared.read() == WORDS


@pytest.mark.parametrize("garbage", [b"\xfe" * 99, b"\0\5\0\0\0[1,2]", b"\0"], ids=len)
def test_an_overwritten_journal_is_none(garbage: bytes) -> None:
    shared = SharedJournal()
    shared.write(WORDS)
    shared._memory[: len(garbage)] = garbage  # pyright: ignore[reportPrivateUsage]
    assert shared.read() == CrashJournal()


def test_only_verbs_that_exist_are_supervised() -> None:
    assert set(all_verbs()) >= SUPERVISED_VERBS


@pytest.mark.parametrize(
    "arguments",
    [[], ["--help"], ["--version"], ["explain", "MCM-U040"], ["compile", "--help"],
     ["compile", "x.onnx", "-h"]],
)  # fmt: skip
def test_what_touches_no_model_is_not_supervised(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(supervision, "SharedJournal")
    supervise(arguments)


def test_supervision_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(supervision, "SharedJournal")
    monkeypatch.setenv("MCMC_SUPERVISE", "0")
    supervise(["compile", "x.onnx"])


def test_without_fork_there_is_no_supervision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(supervision, "SharedJournal")
    monkeypatch.delattr("os.fork")
    supervise(["compile", "x.onnx"])


def test_the_place_of_a_crash_is_the_last_step() -> None:
    found = crash(-signal.SIGFPE, WORDS, "compile")
    assert found.code == "MCM-U040"
    assert found.message.endswith("crashed with SIGFPE")
    assert found.at == "model 'm.onnx', pass 'verify', running chip_03.onnx in onnxruntime"
    assert "mcmc run" in str(found.hint)


def test_a_killed_process_hints_at_memory() -> None:
    found = crash(-signal.SIGKILL, CrashJournal(), "check")
    assert (found.at, found.message[-21:]) == ("mcmc check", " was killed (SIGKILL)")
    assert "memory" in str(found.hint)


def test_an_exit_in_a_library_is_told_with_its_status() -> None:
    assert crash(3, CrashJournal(), "opt").message.endswith("ended by a library with exit status 3")


def test_signals_without_a_name() -> None:
    assert crash(-33, CrashJournal(), "opt").message.endswith("crashed with signal 33")


def test_json_is_asked_for_in_two_ways() -> None:
    wants_json = supervision._wants_json  # pyright: ignore[reportPrivateUsage]
    assert wants_json(["compile", "x", "--format", "json"])
    assert wants_json(["compile", "--format=json", "x"])
    assert not wants_json(["compile", "json", "--format", "text"])
