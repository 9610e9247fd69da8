"""What an exploration has found so far."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.exploration import journal as journals
from mcm_compiler.exploration.journal import Journal, journal_path, request_digest
from mcm_compiler.variants.points import failed_point

_POINT = failed_point([Diagnostic("MCM-P015", "it does not fit", hint="a larger chip")])


def _refusal(path: Path, digest: str = "d", *, resume: bool = True) -> str:
    with pytest.raises(CompileError) as caught:
        Journal(path, digest, resume=resume)
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-U063"
    return found.message


def _filled(path: Path) -> bytes:
    with Journal(path, "d", resume=False) as journal:
        for point in range(3):
            journal.add((0, point), "hash", _POINT)
    return path.read_bytes()


def test_what_was_found_is_found_again(tmp_path: Path) -> None:
    path = journal_path(tmp_path / "out.json")
    data = _filled(path)
    with Journal(path, "d", resume=True) as journal:
        assert journal.found == {(0, point): ("hash", _POINT) for point in range(3)}
    assert path.read_bytes() == data


def test_a_kill_at_any_byte_loses_the_cut_line_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    data = _filled(path)
    head = data.index(b"\n") + 1
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        with Journal(path, "d", resume=True) as journal:
            assert len(journal.found) == data[head:length].count(b"\n")
            for point in range(len(journal.found), 3):
                journal.add((0, point), "hash", _POINT)
        assert path.read_bytes() == data


def test_a_journal_that_does_not_fit_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    assert "no journal" in _refusal(path)
    data = _filled(path)
    assert "interrupted" in _refusal(path, resume=False)
    assert "other models" in _refusal(path, "other")
    assert path.read_bytes() == data
    below = data.splitlines(keepends=True)[-1].replace(b'"point":2', b'"point":-1')
    for line in (b"{}\n", b'{"model":0,"sha256":"h","point":0,"facts":{}}\n', b"\xff\n", below):
        path.write_bytes(data + line)
        assert "damaged" in _refusal(path)
    path.write_bytes(b"something else\n")
    assert "other models" in _refusal(path)


def test_the_file_goes_when_it_ends(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", "d", resume=False)
    journal.end()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lacking", ["model", "sha256", "facts"])
def test_a_journal_of_another_layout_is_of_other_versions(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = tmp_path / "journal", {"models": ["a.onnx"]}
    fields = [name for name in ("model", "sha256", "point", "facts") if name != lacking]
    with monkeypatch.context() as older:
        older.setattr(journals, "_Line", msgspec.defstruct("_Line", fields))
        digest = request_digest(asked)
    with Journal(path, digest, resume=False):
        pass
    assert "options, or versions" in _refusal(path, request_digest(asked))
