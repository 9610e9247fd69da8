"""Folders made for an output that never came are gone; all others stay."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mcm_compiler.processes.staging import no_empty_folders, staging


def test_what_was_made_and_stays_empty_is_removed(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    deep = tmp_path / "before" / "a" / "b"

    def fail() -> None:
        with no_empty_folders(deep, tmp_path / "c"):
            deep.mkdir(parents=True)
            (tmp_path / "c").mkdir()
            (tmp_path / "c" / "file").touch()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert sorted(os.listdir(tmp_path)) == ["before", "c"]
    assert os.listdir(tmp_path / "before") == []


def test_a_folder_that_was_empty_before_stays(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with no_empty_folders(tmp_path / "empty"):
        pass
    assert (tmp_path / "empty").is_dir()


def test_a_link_to_nowhere_and_impossible_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with no_empty_folders(tmp_path / "link" / "a", tmp_path / ("n" * 10_000), tmp_path / "a\0b"):
        pass
    assert os.listdir(tmp_path) == ["link"]


def test_staging_that_fails_leaves_no_parents(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), staging(tmp_path / "a" / "b" / "out"):
        raise ValueError("no")
    assert os.listdir(tmp_path) == []


def test_one_that_fails_does_not_take_the_folder_from_one_beside_it(tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    stop = threading.Event()

    def fail_again_and_again() -> None:
        while not stop.is_set():
            with pytest.raises(ValueError, match="no"), staging(parent / "broken"):
                raise ValueError("no")

    other = threading.Thread(target=fail_again_and_again)
    other.start()
    try:
        for number in range(50):
            with staging(parent / f"out{number}") as stage:
                (stage.path / "file").touch()
            (parent / f"out{number}" / "file").unlink()
            (parent / f"out{number}").rmdir()
    finally:
        stop.set()
        other.join()
    with pytest.raises(ValueError, match="no"), staging(parent / "out"):
        raise ValueError("no")
