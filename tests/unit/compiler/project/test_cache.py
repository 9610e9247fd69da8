"""The cache: whole entries, noticed changes, and a limit."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.project.cache import BuildCache, TamperedError
from mcm_compiler.project.cell_record import CellFigures, CellRecord, StoredDiagnostic
from tests.generators.example_result import example_verdict

FIGURES = CellFigures(10.0, 0.1, 0.2, 0.05, 0.5, 3, example_verdict())
NOTE = StoredDiagnostic("note", "MCM-P020", "odd \udcff", None, None)
RECORD = CellRecord(FIGURES, (), (NOTE,), (), 1.5)
A, B, C = ("a" * 64, "b" * 64, "c" * 64)


@pytest.fixture
def cache(tmp_path) -> BuildCache:
    made = BuildCache(tmp_path / "cache", 1 << 20)
    made.open()
    return made


@pytest.fixture
def output(tmp_path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"files": {"chip.onnx": ""}}))
    (folder / "chip.onnx").write_bytes(b"chip")
    return folder


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_stored_is_found_and_placed(cache, output, tmp_path) -> None:
    assert cache.find(A) is None
    cache.store(A, output, RECORD)
    entry = cache.find(A)
    assert entry.record == RECORD
    assert entry.record.diagnostics[0].code == "MCM-P020"
    assert cache.is_placed(entry, output)
    cache.place(entry, tmp_path / "deep" / "other")
    assert held(tmp_path / "deep" / "other") == held(output)
    assert (tmp_path / "deep" / "other" / "chip.onnx").stat().st_nlink == 1
    # The next look needs no file to be read.
    assert cache.is_placed(cache.find(A), tmp_path / "deep" / "other")
    assert cache.find(A).report_sha256 is None


def test_a_failed_cell_has_no_files(cache, tmp_path) -> None:
    cache.store(A, None, RECORD)
    cache.place(cache.find(A), tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_a_changed_output_is_put_right(cache, output) -> None:
    cache.store(A, output, RECORD)
    before = held(output)
    (output / "chip.onnx").write_bytes(b"mine")
    cache.place(cache.find(A), output)
    assert held(output) == before
    (output / "mine.txt").write_bytes(b"mine")
    with pytest.raises(CompileError) as caught:
        cache.place(cache.find(A), output)
    assert caught.value.diagnostics[0].code == "MCM-A003"
    assert (output / "mine.txt").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: (entry / "output" / "chip.onnx").write_bytes(b"chiP"),
        lambda entry: (entry / "output" / "chip.onnx").unlink(),
        lambda entry: (entry / "output" / "more.onnx").write_bytes(b""),
        lambda entry: (entry / "entry.json").write_text("{"),
        lambda entry: (entry / "entry.json").write_text("[]"),
        lambda entry: (entry / "entry.json").unlink(),
        lambda entry: (entry / "entry.json").write_text(
            (entry / "entry.json").read_text().replace("0.5", "0.1")
        ),
    ],
)
def test_changes_of_an_entry_are_noticed(cache, output, change) -> None:
    cache.store(A, output, RECORD)
    change(cache.root / "entries" / A[:2] / A[2:])
    before = held(output)
    with pytest.raises(TamperedError):
        cache.place(cache.find(A), output)
    assert held(output) == before


def test_an_entry_that_lies_under_another_key_is_noticed(cache, output) -> None:
    cache.store(A, output, RECORD)
    (cache.root / "entries" / "bb").mkdir()
    (cache.root / "entries" / A[:2] / A[2:]).rename(cache.root / "entries" / B[:2] / B[2:])
    with pytest.raises(TamperedError, match="another cell"):
        cache.find(B)


def test_an_entry_may_name_no_file_outside(cache, output, monkeypatch) -> None:
    cache.store(A, output, RECORD)
    path = cache.root / "entries" / A[:2] / A[2:] / "entry.json"
    stored = json.loads(path.read_text())["entry"]
    stored["files"]["../../evil"] = stored["files"].pop("chip.onnx")
    from mcm_compiler.project import cache as module

    path.write_text(json.dumps({"sha256": module._digest(stored), "entry": stored}))
    with pytest.raises(TamperedError, match="evil"):
        cache.find(A)


def test_storing_again_replaces(cache, output) -> None:
    cache.store(A, output, RECORD)
    (output / "chip.onnx").write_bytes(b"new")
    cache.store(A, output, RECORD)
    cache.place(cache.find(A), output)
    assert (output / "chip.onnx").read_bytes() == b"new"
    assert sorted(os.listdir(cache.root)) == [".gitignore", "CACHEDIR.TAG", "entries", "external"]


def test_the_least_recently_used_go_first(cache, output) -> None:
    for number, key in enumerate((A, B, C)):
        cache.store(key, output, RECORD)
        os.utime(cache.root / "entries" / key[:2] / key[2:], (number, number))
    assert cache.trim() == 0
    one = sum(f.stat().st_size for f in (cache.root / "entries" / "aa").rglob("*") if f.is_file())
    cache.limit_bytes = 2 * one + one // 2
    cache.touch([A])
    assert cache.trim() == 1
    assert [cache.find(key) is not None for key in (A, B, C)] == [True, False, True]
    assert not (cache.root / "entries" / "bb").exists()
    # What this build has used goes last.
    os.utime(cache.root / "entries" / A[:2] / A[2:], (1, 1))
    cache.limit_bytes = one + one // 2
    assert cache.trim([A]) == 1
    assert cache.find(A) is not None
    cache.limit_bytes = 0
    assert cache.trim([A]) == 1
    cache.remove(A)


def test_a_foreign_folder_is_no_cache(tmp_path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(CompileError) as caught:
        BuildCache(tmp_path, 1).open()
    assert caught.value.diagnostics[0].code == "MCM-B019"
    assert os.listdir(tmp_path) == ["x"]
    with pytest.raises(CompileError) as caught:
        BuildCache(tmp_path / "x", 1).open()
    assert caught.value.diagnostics[0].code == "MCM-A002"


def test_names_of_external_data_are_remembered(cache) -> None:
    assert cache.recall(A) is None
    cache.remember(A, ["a.data"])
    assert cache.recall(A) == ["a.data"]
    (cache.root / "external" / A).write_text('{"a": 1}')
    assert cache.recall(A) is None


def test_a_page_lies_beside_the_files_of_an_entry(cache, output, tmp_path) -> None:
    cache.store(A, output, RECORD)
    assert cache.page(cache.find(A)) is None
    cache.keep_page(A, b"page")
    cache.keep_page(A, b"page")
    assert cache.page(cache.find(A)) == b"page"
    cache.place(cache.find(A), tmp_path / "other")
    assert held(tmp_path / "other") == held(output)
    (kept,) = cache.find(A).folder.glob("page-*.html")
    kept.write_bytes(b"mine")
    # What this installation did not write is no page, whatever its name.
    assert cache.page(cache.find(A)) is None
    kept.rename(kept.with_name(f"page-{hashlib.sha256(b'mine').hexdigest()}.html"))
    assert cache.page(cache.find(A)) is None
    cache.keep_page(A, b"second")
    assert cache.page(cache.find(A)) == b"second"


def test_the_page_of_an_entry_that_has_gone_is_kept_nowhere(cache) -> None:
    cache.keep_page(A, b"page")
    assert list((cache.root / "entries").iterdir()) == []
    assert {path.name for path in cache.root.iterdir()} >= {"entries", "external"}
    assert not list(cache.root.glob(".mcmc-*"))


@pytest.mark.parametrize("moment", range(10))
def test_builds_that_open_a_cache_at_the_same_moment_share_it(
    tmp_path, monkeypatch, moment: int
) -> None:
    """A whole second opening, before and after each step of a first one."""
    root, steps = tmp_path / "cache", iter(range(100))

    def stepping(step):
        def with_other(*args, **options):
            if next(steps) == moment:
                BuildCache(root, 1).open()
            answer = step(*args, **options)
            if next(steps) == moment:
                BuildCache(root, 1).open()
            return answer

        return with_other

    for name in ("mkdir", "write_text", "is_file", "iterdir"):
        monkeypatch.setattr(Path, name, stepping(getattr(Path, name)))
    BuildCache(root, 1).open()
    assert next(steps) > moment
