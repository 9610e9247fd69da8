"""Diagnostics and their catalogue."""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mcm_compiler.diagnostics import MAX_QUOTED, CompileError, Diagnostic, Severity, quote
from mcm_compiler.diagnostics.catalog import catalog, entries_of

ROOT = Path(__file__).parents[4]
PACKAGES = ("mcm_compiler", "passes/mcm_passes", "hardware/mcm_hardware", "models/mcm_models")
CODE = re.compile(r"MCM-[A-Z]\d{3}")


def _sources() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.parent.name != "catalog":
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def _codes_in_sources() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, source in _sources():
        for code in sorted(set(CODE.findall(source))):
            found.setdefault(code, []).append(path)
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


@pytest.mark.parametrize(
    ("remedy", "hint"),
    [
        ("Export again.", "export again"),
        ("Take a.b, c.onnx\nor `--d 1.5`. Or wait.", "take a.b, c.onnx or `--d 1.5`"),
        ("Re-run `mcmc compile`. `--force` helps.", "re-run `mcmc compile`"),
        ("ONNX has no such op.", "ONNX has no such op"),
        ("`mcmc targets` lists them.", "`mcmc targets` lists them"),
        ("A number is 0, 1, ..., 9; give one.", "a number is 0, 1, ..., 9; give one"),
    ],
)
def test_messages_print_the_first_sentence_of_a_hint(remedy: str, hint: str) -> None:
    (entry,) = entries_of(WHOLE.replace("**What to do:** Another\nthing.", f"**Hint:** {remedy}"))
    assert (entry.remedy, entry.hint) == (remedy, hint)
    (other,) = entries_of(WHOLE)
    assert (other.hint, other.severity) == (None, Severity.ERROR)


def test_an_entry_may_be_of_notes() -> None:
    text = WHOLE.replace("**Example:**", "**Severity:** note\n\n**Example:**")
    (entry,) = entries_of(text)
    assert (entry.explanation, entry.severity) == ("Two\nlines.", Severity.NOTE)
    with pytest.raises(ValueError, match="bad"):
        entries_of(text.replace("note", "bad"))


def test_a_diagnostic_takes_from_the_catalogue_what_it_does_not_say() -> None:
    entry = catalog()["MCM-V026"]
    plain = Diagnostic("MCM-V026", "it ends")
    assert (plain.hint, plain.severity) == (entry.hint, Severity.WARNING)
    assert str(plain) == f"warning[MCM-V026]: it ends\n  hint: {entry.hint}"
    assert plain.to_dict()["hint"] == entry.hint
    same = Diagnostic("MCM-V026", "it ends", None, entry.hint, Severity.WARNING)
    assert plain == same == pickle.loads(pickle.dumps(plain)) == replace(plain)
    assert hash(plain) == hash(same)
    assert replace(plain, at="here").hint == entry.hint
    other = replace(plain, hint="wait", severity=Severity.ERROR)
    assert str(other) == "error[MCM-V026]: it ends\n  hint: wait"
    assert CompileError.of("MCM-A003", "no", "there").diagnostics == (
        Diagnostic("MCM-A003", "no", "there"),
    )


def test_codes_of_plugins_have_the_hint_that_they_give() -> None:
    assert str(Diagnostic("ACME-001", "odd")) == "error[ACME-001]: odd"
    assert Diagnostic("MCM-Z999", "odd", hint="wait").hint == "wait"
    assert Diagnostic("ACME-001", "odd", severity=Severity.NOTE).severity is Severity.NOTE


def test_the_catalogue_is_read_when_a_diagnostic_is_shown() -> None:
    code = (
        "from mcm_compiler.diagnostics import Diagnostic;"
        "from mcm_compiler.diagnostics.catalog import _pages;"
        "d = Diagnostic('MCM-A003', ''); assert not _pages.cache_info().currsize; str(d);"
        "assert _pages.cache_info().currsize"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_each_remedy_has_one_place() -> None:
    """No source repeats a hint or a severity; errors without a hint of their own have one.

    Messages of MCM-U004 list the valid values, and those of MCM-U052 are one line.
    """
    known = catalog()
    hints = {entry.hint.lower() for entry in known.values() if entry.hint}
    alone = {"MCM-U004", "MCM-U052"}
    repeated: list[str] = []
    bare: list[str] = []
    for path, source in _sources():
        for node in ast.walk(ast.parse(source)) if "MCM-" in source else ():
            match node:
                case ast.Constant(value=str(text)) if text.rstrip(".").lower() in hints:
                    repeated.append(f"{path}:{node.lineno}: {text}")
                case ast.Call(args=[ast.Constant(value=str(code)), *rest]) if code in known:
                    given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                    entry = known[code]
                    if given.get("severity") == f"Severity.{entry.severity.name}":
                        repeated.append(f"{path}:{node.lineno}: {given['severity']}")
                    has_hint = len(rest) > 2 or "hint" in given or entry.hint is not None
                    makes = ast.unparse(node.func) in {"Diagnostic", "CompileError.of"}
                    is_error = entry.severity is Severity.ERROR and "severity" not in given
                    if makes and is_error and not has_hint and code not in alone:
                        bare.append(f"{path}:{node.lineno}: {code}")
                case _:
                    pass
    assert repeated == []
    assert bare == []


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
    bare = Diagnostic("ACME-010", "odd", severity=Severity.WARNING)
    assert str(bare) == "warning[ACME-010]: odd"
    assert full.to_dict() == {
        "severity": "error",
        "code": "MCM-P003",
        "message": "too big",
        "at": "node 'x'",
        "hint": "shard it",
    }


def test_a_compile_error_carries_all_diagnostics_and_at_least_one_error() -> None:
    error = Diagnostic("ACME-001", "first")
    note = Diagnostic("ACME-002", "second", severity=Severity.NOTE)
    assert CompileError(error).diagnostics == (error,)
    assert CompileError(iter([note, error])).diagnostics == (note, error)
    assert str(CompileError([error, note])) == "error[ACME-001]: first\nnote[ACME-002]: second"
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
