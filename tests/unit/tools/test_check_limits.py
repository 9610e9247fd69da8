"""The tool that holds records and folders to the project's limits."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("check_limits")


def limits(tool, *exceptions, places=("core",)):
    rows = "".join(f'{{ place = "{p}", reason = "{r}" }},' for p, r in exceptions)
    return tool.limits_of(
        f"[tool.mcm-limits]\nplaces = {list(places)}\nmax-fields = 2\nmax-modules = 2\n"
        f"exceptions = [{rows}]\n"
    )


THREE = "    a: int\n    b: int\n    c: int = 3\n"


@pytest.mark.parametrize(
    "head",
    [
        "@dataclass\nclass R:\n",
        "@dataclasses.dataclass(frozen=True, slots=True)\nclass R:\n",
        "@struct.dataclass\nclass R(Base):\n",
        "class R(NamedTuple):\n",
        "class R(typing.TypedDict, total=False):\n",
    ],
)
def test_records_of_every_kind_have_a_limit(tool, head):
    found = tool.breaches({"core/a.py": head + THREE}, limits(tool))
    assert found == ["core/a.py:R: 3 fields, 2 at most"]


@pytest.mark.parametrize(
    "text",
    [
        "class Plain:\n" + THREE,
        "class Contract(Protocol):\n" + THREE,
        "@dataclass\nclass R:\n    a: int\n    b: int\n    n: ClassVar[int] = 3\n    c = 4\n",
        "@dataclass\nclass R:\n    a: int\n    def f(self):\n        x: int\n        y: int\n",
    ],
)
def test_only_fields_of_records_count(tool, text):
    assert tool.breaches({"core/a.py": text}, limits(tool)) == []


def test_a_record_in_a_class_has_a_name_of_its_own(tool):
    text = "class Outer:\n    class Inner(NamedTuple):\n" + "".join(
        f"        {x}: int\n" for x in "abc"
    )
    assert tool.breaches({"core/a.py": text}, limits(tool, ("core/a.py:Outer.Inner", "why"))) == []


def test_a_folder_counts_modules_of_its_own(tool):
    few = dict.fromkeys(["core/__init__.py", "core/a.py", "core/b.py", "core/sub/c.py"], "")
    assert tool.breaches(few, limits(tool)) == []
    assert tool.breaches({**few, "core/c.py": ""}, limits(tool)) == ["core: 3 modules, 2 at most"]
    assert tool.breaches({**few, "core/c.py": ""}, limits(tool, ("core", "why"))) == []


def test_places_without_limits_are_not_read(tool):
    other = dict.fromkeys(["corent/a.py", "corent/b.py", "corent/c.py"], "")
    assert tool.breaches(other, limits(tool)) == []


def test_exceptions_that_nothing_needs_are_breaches(tool):
    sources = {"core/a.py": "class R(NamedTuple):\n    a: int\n"}
    excepted = limits(tool, ("core", "why"), ("core/a.py:R", "why"), ("core/a.py:Gone", "why"))
    assert tool.breaches(sources, excepted) == [
        "core: excepted, but within the limit",
        "core/a.py:Gone: excepted, but there is no such record or folder",
        "core/a.py:R: excepted, but within the limit",
    ]


@pytest.mark.parametrize(
    ("exceptions", "said"),
    [
        ([("core", " ")], "no reason for core"),
        ([("core", "why"), ("core", "again")], "excepted twice"),
    ],
)
def test_an_exception_has_one_reason(tool, exceptions, said):
    with pytest.raises(ValueError, match=said):
        limits(tool, *exceptions)


def test_missing_limits_are_told(tool):
    with pytest.raises(ValueError, match=r"\[tool.mcm-limits\] is missing or malformed"):
        tool.limits_of("[tool.other]\n")


def test_sizes_leave_docstrings_out(tool):
    long = "".join(f"    x = {i}\n" for i in range(61))
    text = f'"""Module."""\n\n\ndef f():\n    """Does."""\n{long}\n\nasync def g():\n    return 1\n'
    sources = {"core/a.py": text, "core/b.py": "class R(NamedTuple):\n" + THREE, "core/c.py": ""}
    assert tool.sizes(sources, limits(tool)) == tool.Sizes(
        statements=62 + 2 + 4, functions=2, long_functions=1, large_records=1, large_folders=1
    )


def test_the_table_shows_states_side_by_side(tool):
    before = {"mcm_compiler/a.py": "x = 1\n", "tools/b.py": "y = 1\n"}
    after = {"mcm_compiler/a.py": "x = 1\nz = 2\n", "hardware/mcm_hardware/c.py": "y = 1\n"}
    lines = tool.table(limits(tool), ("before", before), ("after", after)).splitlines()
    assert lines[0].startswith(
        "| package | statements before | statements after | functions before"
    )
    assert lines[2].startswith("| mcm_compiler | 1 | 2 | 0 | 0 |")
    assert lines[3].startswith("| mcm_hardware | 0 | 1 | 0 | 0 |")
    assert lines[6].startswith("| all | 1 | 3 | 0 | 0 |")
    assert tool.table(limits(tool), ("", after)).startswith("| package | statements | functions |")


def test_a_revision_is_read_from_the_repository(tool, tmp_path):
    def git(*words):
        name = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *name, *words], check=True, capture_output=True)

    module = tmp_path / "core" / "a.py"
    module.parent.mkdir()
    module.write_text("x = 1\n")
    (tmp_path / "readme.md").write_text("words\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    module.write_text("x = 2\n")
    assert tool.sources_at(tmp_path, "HEAD") == {"core/a.py": "x = 1\n"}
    assert tool.sources_here(tmp_path, ["core", "gone"]) == {"core/a.py": "x = 2\n"}
    with pytest.raises(ValueError, match="nonsense"):
        tool.sources_at(tmp_path, "nonsense")


def test_the_limits_of_the_project_can_be_read(tool):
    tool.limits_of((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
