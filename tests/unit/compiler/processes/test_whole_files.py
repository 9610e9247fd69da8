"""Single output files: whole or not at all, and never through or over what is no file."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.processes.staging import (
    appended_file,
    refuse_irregular,
    whole_file,
    write_changed,
    write_whole,
)


def _irregular(kind: str, folder: Path) -> Path:
    path = folder / "y"
    if kind == "link":
        (folder / "elsewhere").write_text("mine")
        path.symlink_to("elsewhere")
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(os.path.relpath(path))
    return path


KINDS = ["link", "dangling link", "pipe", "folder", "socket"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_neither_replaced_nor_written_through(kind: str, tmp_path: Path) -> None:
    path = _irregular(kind, tmp_path)
    before = path.lstat(), sorted(os.listdir(tmp_path))
    for write in (lambda: write_whole(path, b"new"), lambda: appended_file(path).__enter__()):
        with pytest.raises(CompileError) as caught:
            write()
        (found,) = caught.value.diagnostics
        assert found.code == "MCM-U050"
        assert found.at == f"'{path}'"
    after = path.lstat(), sorted(os.listdir(tmp_path))
    assert (after[0].st_ino, after[0].st_mode, after[1]) == (
        before[0].st_ino,
        before[0].st_mode,
        before[1],
    )
    if kind == "link":
        assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_device_stays() -> None:
    with pytest.raises(CompileError) as caught:
        refuse_irregular(Path("/dev/full"))
    assert "a device" in caught.value.diagnostics[0].message


def test_what_takes_the_place_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "y"

    def write() -> None:
        with whole_file(path) as partial:
            partial.write_bytes(b"new")
            os.mkfifo(path)

    with pytest.raises(CompileError, match="MCM-U050"):
        write()
    assert path.is_fifo()
    assert os.listdir(tmp_path) == ["y"]


def test_a_file_is_written_in_a_folder_whose_name_nobody_can_guess(tmp_path: Path) -> None:
    path, places = tmp_path / "y", set()
    for _ in range(2):
        with whole_file(path) as partial:
            assert not path.exists() or path.read_bytes() == b"new"
            partial.write_bytes(b"new")
            assert partial.parent.parent == tmp_path
            assert partial.parent.stat().st_mode & 0o777 == 0o700
            places.add(partial.parent.name)
    assert len(places) == 2
    assert all(len(name.rpartition("-")[2]) == 16 for name in places)
    assert os.listdir(tmp_path) == ["y"]


def test_the_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "y", b"new", lasting=True)
    (tmp_path / "z").write_bytes(b"new")
    assert (tmp_path / "y").stat().st_mode == (tmp_path / "z").stat().st_mode


def test_a_block_that_fails_leaves_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "y"
    path.write_text("before")

    def write() -> None:
        with whole_file(path) as partial:
            partial.write_text("half")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        write()
    assert os.listdir(tmp_path) == ["y"]
    assert path.read_text() == "before"


def test_lines_are_appended(tmp_path: Path) -> None:
    for line in (b"a\n", b"b\n"):
        with appended_file(tmp_path / "log") as stream:
            stream.write(line)
    assert (tmp_path / "log").read_bytes() == b"a\nb\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["zoo", "mobilenet-v2{shape_only=true}", "-o"],
        ["opt", "zoo:bert-tiny{layers=1}", "--passes", "simplify", "-o"],
        ["parallelize", "zoo:bert-tiny{layers=1}", "--target", "mcm4", "-o"],
        ["parallelize", "zoo:bert-tiny{layers=1}", "--target", "mcm4", "--annotated"],
        ["parallelize", "zoo:bert-tiny{layers=1}", "--target", "mcm4", "--sharded"],
        ["compile", "zoo:bert-tiny{layers=1}", "--target", "mcm4", "-o", "out", "--junit"],
        ["compile", "zoo:bert-tiny{layers=1}", "--target", "mcm4", "-o", "out", "--assignment-out"],
        ["run", "folder", "-i", "x.npz", "-o"],
        ["simulate", "folder", "--trace"],
        ["partition", "problem.json", "--assignment-out"],
    ],
    ids=lambda arguments: " ".join([arguments[0], arguments[-1]]),
)  # fmt: skip
def test_verbs_refuse_a_pipe_and_a_link_before_any_work(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("link").symlink_to("elsewhere")
    for name in ("pipe", "link"):
        result = CliRunner().invoke(cli, [*arguments, name, "--force"])
        assert result.exit_code == 1
        assert result.stderr.startswith("error[MCM-U050]")
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]
    assert Path("pipe").is_fifo()
    assert Path("link").is_symlink()


def test_a_file_that_has_its_bytes_already_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_changed(path, b"one")
    before = path.stat()
    write_changed(path, b"one")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    write_changed(path, b"two")
    assert path.read_bytes() == b"two"
    (tmp_path / "folder").mkdir()
    with pytest.raises(CompileError, match="MCM-U050"):
        write_changed(tmp_path / "folder", b"one")
