"""The tool that holds unit tests to the rooms of the source."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def check(monkeypatch, tmp_path):
    """Faults of a project with the modules `a.x` and `a.b.b` and these tests and lines."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool = importlib.import_module("check_tests_mirror")
    unit = tmp_path / "unit"
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "UNIT", unit)
    monkeypatch.setattr(tool, "LIST", unit / "tests_of_rooms.txt")
    monkeypatch.setattr(tool, "PACKAGES", {"a": tmp_path / "source"})
    for module in ("source/__init__", "source/x", "source/b/__init__", "source/b/b"):
        write(tmp_path / f"{module}.py")

    def run(*tests, listed=""):
        write(tool.LIST, listed)
        for test in tests:
            write(unit / test)
        return list(tool.faults())

    return run


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_what_mirrors_the_source_is_let_pass(check):
    tests = ("a/test_x.py", "a/test_a.py", "a/b/test_b.py", "a/test_both.py", "tools/test_z.py")
    assert not check(*tests, listed="a/test_both.py\n")


@pytest.mark.parametrize(
    ("test", "listed", "words"),
    [
        ("a/c/test_x.py", "", "no room"),
        ("test_x.py", "", "no room"),
        ("a/b/test_x.py", "", "not listed"),
        ("a/test_x.py", "a/test_x.py", "listed, though"),
        ("a/test_x.py", "a/test_y.py", "is gone"),
    ],
)
def test_what_does_not_is_told(check, test, listed, words):
    (fault,) = check(test, listed=listed)
    assert words in fault
