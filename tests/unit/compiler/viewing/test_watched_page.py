"""What is to be seen of a folder that is replaced, damaged and put right."""

from __future__ import annotations

import shutil

import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.page.folder_page import checked_folder_page
from mcm_compiler.viewing import page_server
from mcm_compiler.viewing.page_server import WatchedPage


def replace(folder, by) -> None:
    shutil.rmtree(folder)
    shutil.copytree(by, folder)


def test_a_folder_that_stays_is_read_once(folder, monkeypatch) -> None:
    page = WatchedPage(folder)
    first = page.look()
    assert first.content == checked_folder_page(folder)[0]
    monkeypatch.setattr(page_server, "checked_folder_page", None)
    assert page.look() is first


def test_a_new_compile_is_seen(folder, two_compiles) -> None:
    page = WatchedPage(folder)
    first = page.look()
    replace(folder, two_compiles[1])
    second = page.look()
    assert second.content == checked_folder_page(two_compiles[1])[0]
    assert second.version != first.version
    assert second.problem is None


def test_a_new_compile_with_the_same_page_is_no_other_version(folder, two_compiles) -> None:
    page = WatchedPage(folder)
    first = page.look()
    replace(folder, two_compiles[0])
    assert page.look().version == first.version


def test_the_last_page_stays_while_the_folder_cannot_be_read(folder, two_compiles) -> None:
    page = WatchedPage(folder)
    first = page.look()
    shutil.rmtree(folder)
    gone = page.look()
    assert (gone.content, gone.version) == (first.content, first.version)
    assert gone.problem is not None
    assert gone.problem.startswith("MCM-A00")
    shutil.copytree(two_compiles[1], folder)
    (folder / "report.json").write_text("{}")
    damaged = page.look()
    assert (damaged.content, damaged.version) == (first.content, first.version)
    assert "MCM-A00" in (damaged.problem or "")
    replace(folder, two_compiles[1])
    assert page.look().problem is None


def test_a_folder_that_is_replaced_amid_reading_is_no_problem(
    folder, two_compiles, monkeypatch
) -> None:
    page = WatchedPage(folder)
    first = page.look()
    replace(folder, two_compiles[1])
    read = page_server.checked_folder_page

    def replaced_meanwhile(path):
        shutil.rmtree(path)
        return read(path)

    monkeypatch.setattr(page_server, "checked_folder_page", replaced_meanwhile)
    assert page.look() is first
    monkeypatch.undo()
    shutil.copytree(two_compiles[1], folder)
    assert page.look().content == read(two_compiles[1])[0]


def test_what_is_no_output_at_first_is_told(tmp_path) -> None:
    with pytest.raises(CompileError, match="MCM-A004"):
        WatchedPage(tmp_path)
