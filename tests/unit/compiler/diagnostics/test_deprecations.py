"""The table of deprecations, the code that warns, and the page are of one mind."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import get_args

import pytest

import mcm_compiler
from mcm_compiler import api
from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.diagnostics.deprecations import DEPRECATIONS, Key

ROOT = Path(__file__).parents[4]
TABLE = ROOT / "mcm_compiler" / "diagnostics" / "deprecations.py"
SOURCES = sorted(
    path
    for package in ("mcm_compiler", "passes", "hardware", "models")
    for path in (ROOT / package).rglob("*.py")
    if path != TABLE
)
NOTES = ("MCM-X015", "MCM-U007", "MCM-L014")
"""Notes that only deprecated interfaces give."""


def _named(tree: ast.AST, name: str) -> list[ast.AST]:
    """Uses of a name or constant."""
    return [
        node
        for node in ast.walk(tree)
        if name in {getattr(node, "id", None), getattr(node, "value", None)}
    ]


def test_every_warning_of_the_code_is_in_the_table() -> None:
    used: set[str] = set()
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        assert "next release" not in text, f"{path} names no release; see {TABLE.name}"
        deprecated = [word for word in (*NOTES, "DeprecationWarning") if word in text]
        if not deprecated:
            continue
        tree = ast.parse(text)
        calls = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "removed_with"
        ]
        for call in calls:
            assert isinstance(call.args[0], ast.Constant)
            used.add(str(call.args[0].value))
        raised = [node for word in deprecated for node in _named(tree, word)]
        if path.name != "refusals.py":  # which makes warnings of all notes
            assert len(calls) >= len(raised), f"{path} warns without removed_with"
    assert used == set(DEPRECATIONS) == set(get_args(Key))


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "reference" / "deprecations.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert rows == [f"| {' | '.join(row)} |" for row in DEPRECATIONS.values()]


def test_nothing_outlives_the_release_that_removes_it() -> None:
    now = [int(part) for part in mcm_compiler.__version__.split(".")]
    known = {entry.code for entry in catalog().values()}
    for row in DEPRECATIONS.values():
        assert now < [int(part) for part in row.removed.split(".")], f"remove {row.what}"
        assert row.warning in known | {"DeprecationWarning"}


def test_the_old_name_of_place_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"removed with release 0\.3\.0"):
        old = api.place_model
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert old is mcm_compiler.place
