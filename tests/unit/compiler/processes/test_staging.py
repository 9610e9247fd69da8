"""Output folders appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.processes.staging import cannot_write, staging


def _code(caught: pytest.ExceptionInfo[CompileError]) -> str:
    (found,) = caught.value.diagnostics
    return found.code


def _old_output(path: Path) -> None:
    path.mkdir()
    (path / "manifest.json").write_text('{"files": {"old.onnx": "its hash"}}')
    (path / "old.onnx").write_text("old")


def test_the_folder_appears_when_the_block_succeeds(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    with staging(out) as stage:
        (stage.path / "a").write_text("1")
        assert stage.destination == out
        assert not out.exists()
    assert (out / "a").read_text() == "1"
    assert os.listdir(out.parent) == ["out"]


def test_the_folder_has_the_permissions_of_a_new_folder(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with staging(tmp_path / "out"):
        pass
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "out")}
    assert len(modes) == 1


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_nothing_is_left_when_the_block_fails(tmp_path: Path, error: BaseException) -> None:
    def write_and_fail() -> None:
        with staging(tmp_path / "out") as stage:
            (stage.path / "a").write_text("1")
            raise error

    with pytest.raises(type(error)):
        write_and_fail()
    assert os.listdir(tmp_path) == []


def test_without_a_destination_nothing_is_kept() -> None:
    with staging(None) as stage:
        (stage.path / "a").write_text("1")
        path = stage.path
    assert not path.exists()


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_what_exists_is_refused(tmp_path: Path, make: object) -> None:
    out = tmp_path / "out"
    make(out)  # type: ignore[operator]
    with pytest.raises(CompileError) as caught, staging(out):
        pytest.fail("the block must not run")
    assert _code(caught) == "MCM-A001"


def test_a_dangling_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with pytest.raises(CompileError) as caught, staging(tmp_path / "out"):
        pass
    assert _code(caught) == "MCM-A001"


def test_force_replaces_an_output_folder_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _old_output(out)
    with staging(out, force=True) as stage:
        (stage.path / "new.onnx").write_text("new")
        assert (out / "old.onnx").exists()
    assert os.listdir(out) == ["new.onnx"]
    assert os.listdir(tmp_path) == ["out"]


def test_force_keeps_the_old_folder_when_the_block_fails(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _old_output(out)
    with pytest.raises(ValueError, match="no"), staging(out, force=True):
        raise ValueError("no")
    assert sorted(os.listdir(out)) == ["manifest.json", "old.onnx"]


def test_force_replaces_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with staging(tmp_path / "out", force=True) as stage:
        (stage.path / "a").write_text("1")
    assert os.listdir(tmp_path / "out") == ["a"]


def test_force_refuses_a_foreign_folder_a_file_and_a_link(tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").touch()
    (tmp_path / "file").touch()
    _old_output(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("foreign", "file", "link"):
        with pytest.raises(CompileError) as caught, staging(tmp_path / name, force=True):
            pass
        assert _code(caught) == "MCM-A003"
    assert (tmp_path / "foreign" / "thesis.tex").exists()


def test_a_full_disk_is_a_diagnostic(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught, staging(tmp_path / "out"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert _code(caught) == "MCM-A002"
    assert "free space" in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_file_elsewhere_that_the_system_refuses_is_not_the_output(tmp_path: Path) -> None:
    data = str(tmp_path / "m.data")
    with pytest.raises(CompileError) as caught, staging(tmp_path / "out"):
        raise PermissionError(errno.EACCES, "Permission denied", data)
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-U053", f"'{data}'")
    assert "output" not in str(caught.value)


@pytest.mark.parametrize("below", ["", "out", "out/a.onnx", ".mcmc-1/a.onnx"])
def test_what_cannot_be_written_of_the_output_is_the_output(tmp_path: Path, below: str) -> None:
    with pytest.raises(CompileError) as caught, staging(tmp_path / "out"):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / below))
    assert _code(caught) == "MCM-A002"


def test_a_parent_that_is_a_file_is_a_diagnostic(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CompileError) as caught, staging(tmp_path / "file" / "out"):
        pass
    assert _code(caught) == "MCM-A002"


def test_the_place_of_a_failed_write_without_a_destination() -> None:
    error = cannot_write(OSError(errno.EACCES, "Permission denied", "/x/y"), None)
    (found,) = error.diagnostics
    assert (found.code, found.at) == ("MCM-A002", "/x/y")


@pytest.mark.parametrize("manifest", ["{}", "[]", "not JSON", '{"files": ["thesis.tex"]}'])
def test_force_refuses_a_folder_with_another_kind_of_manifest(
    tmp_path: Path, manifest: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "manifest.json").write_text(manifest)
    (out / "thesis.tex").touch()
    with pytest.raises(CompileError) as caught, staging(out, force=True):
        pass
    assert _code(caught) == "MCM-A003"
    assert sorted(os.listdir(out)) == ["manifest.json", "thesis.tex"]


def test_force_refuses_an_output_folder_that_holds_files_of_the_user(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _old_output(out)
    (out / "notes.txt").touch()
    with pytest.raises(CompileError) as caught, staging(out, force=True):
        pass
    assert _code(caught) == "MCM-A003"
    assert caught.value.diagnostics[0].at == str(out / "notes.txt")


def test_a_folder_that_another_compile_made_meanwhile_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(CompileError) as caught, staging(out):
        _old_output(out)
    assert _code(caught) == "MCM-A001"
    assert sorted(os.listdir(out)) == ["manifest.json", "old.onnx"]
    assert os.listdir(tmp_path) == ["out"]


def test_force_replaces_what_another_compile_made_meanwhile(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with staging(out, force=True) as stage:
        (stage.path / "mine").touch()
        _old_output(out)
    assert os.listdir(out) == ["mine"]
    assert os.listdir(tmp_path) == ["out"]


def test_an_interrupted_replacement_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    _old_output(out)
    rename = Path.rename

    def interrupt(path: Path, target: Path) -> Path:
        if target == out and not out.exists() and path.name != "folder":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt), staging(out, force=True) as stage:
        (stage.path / "mine").touch()
    assert sorted(os.listdir(out)) == ["manifest.json", "old.onnx"]
    assert os.listdir(tmp_path) == ["out"]
