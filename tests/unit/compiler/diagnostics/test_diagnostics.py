"""Diagnostics and their catalogue."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from mcm_compiler.diagnostics import MAX_QUOTED, CompileError, Diagnostic, Severity, quote
from mcm_compiler.diagnostics.catalog import catalog, entries_of

ROOT = Path(__file__).parents[4]
PACKAGES = ("mcm_compiler", "passes/mcm_passes", "hardware/mcm_hardware", "models/mcm_models")
CODE = re.compile(r"MCM-[A-Z]\d{3}")


def _codes_in_sources() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.parent.name == "catalog":
                continue
            for code in sorted(set(CODE.findall(path.read_text(encoding="utf-8")))):
                found.setdefault(code, []).append(str(path.relative_to(ROOT)))
    return found


def test_every_code_of_the_sources_is_in_the_catalogue() -> None:
    known = catalog()
    assert {c: places for c, places in _codes_in_sources().items() if c not in known} == {}


def test_every_code_of_the_catalogue_is_in_the_sources() -> None:
    assert sorted(catalog().keys() - _codes_in_sources().keys()) == []


def test_entries_explain_themselves() -> None:
    for code, entry in catalog().items():
        assert CODE.fullmatch(code)
        assert entry.title
        assert not entry.title.endswith(".")
        assert len(entry.explanation) > len(entry.title)
        assert entry.example.strip() != ""
        assert entry.remedy[0].isupper() or entry.remedy.startswith(("pip ", "`"))
        assert entry.remedy.endswith(".")
        for text in (entry.explanation, entry.example, entry.remedy):
            assert max(map(len, text.splitlines())) <= 100


WHOLE = """# Family

## MCM-Z001: first

Two
lines.

**Example:** one

**What to do:** Another
thing.
"""


def test_an_entry_has_all_parts() -> None:
    (entry,) = entries_of(WHOLE)
    assert (entry.code, entry.title) == ("MCM-Z001", "first")
    assert entry.explanation == "Two\nlines."
    assert (entry.example, entry.remedy) == ("one", "Another\nthing.")
    for part in (": first", "Two\nlines.", "**Example:** one", "**What to do:** Another\nthing."):
        with pytest.raises(ValueError, match="needs a title"):
            entries_of(WHOLE.replace(part, ""))


def test_the_pages_of_the_catalogue_are_whole() -> None:
    """One family a page, and one page a family; each is listed in the reference."""
    pages = sorted((ROOT / "mcm_compiler" / "diagnostics" / "catalog").glob("*.md"))
    listed = (ROOT / "docs" / "reference" / "diagnostics.md").read_text(encoding="utf-8")
    letters: list[str] = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        codes = [entry.code for entry in entries_of(text)]
        assert codes == sorted(set(codes)), page.name
        (letter,) = {code[4] for code in codes}
        letters.append(letter)
        assert f"| `MCM-{letter}` | [{text.partition(chr(10))[0][2:]}](" in listed
    assert len(set(letters)) == len(pages)


def test_text_and_json_forms() -> None:
    full = Diagnostic("MCM-P003", "too big", "node 'x'", "shard it")
    assert str(full) == "error[MCM-P003]: too big\n  at: node 'x'\n  hint: shard it"
    bare = Diagnostic("MCM-P010", "odd", severity=Severity.WARNING)
    assert str(bare) == "warning[MCM-P010]: odd"
    assert full.to_dict() == {
        "severity": "error",
        "code": "MCM-P003",
        "message": "too big",
        "at": "node 'x'",
        "hint": "shard it",
    }


def test_a_compile_error_carries_all_diagnostics_and_at_least_one_error() -> None:
    error = Diagnostic("MCM-U001", "first")
    note = Diagnostic("MCM-U002", "second", severity=Severity.NOTE)
    assert CompileError(error).diagnostics == (error,)
    assert CompileError(iter([note, error])).diagnostics == (note, error)
    assert str(CompileError([error, note])) == "error[MCM-U001]: first\nnote[MCM-U002]: second"
    with pytest.raises(ValueError, match="at least one"):
        CompileError([note])


def test_foreign_names_are_quoted_safely() -> None:
    assert quote("conv1") == "'conv1'"
    assert quote("a\x1b[0m\n\u202e") == r"'a\x1b[0m\n\u202e'"
    assert quote("x" * MAX_QUOTED) == "'" + "x" * MAX_QUOTED + "'"
    assert quote("x" * (MAX_QUOTED + 1)) == "'" + "x" * (MAX_QUOTED - 3) + "...'"
    assert quote("\ud800").isascii()


def test_errors_travel_between_processes_whole():
    error = CompileError(Diagnostic("MCM-P008", "nothing", at="here"))
    assert pickle.loads(pickle.dumps(error)).diagnostics == error.diagnostics
