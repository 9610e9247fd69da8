"""The tool that compares sizes of packages with budgets."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("count_lines")


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("", (0, 1, 0)),
        ('"""Docstring\n\nof a module."""\n\n# A comment.\nX = 1  # counts\n', (1, 1, 0)),
        ("import a\nfrom b import (\n    c,\n    d,\n)\n", (5, 1, 5)),
        ('def f():\n    """One."""\n    import a\n\n    return a\n', (3, 1, 1)),
        ('X = """\n\n# no comment\n"""\n', (4, 1, 0)),
        ('X = 1\n"""About X,\nin two lines."""\n', (1, 1, 0)),
        ('X = f"""\n\n{1}"""\nprint(\n    "a"\n    # why\n)\n', (6, 1, 0)),
    ],
)
def test_lines_of_code(tool, text, sizes):
    assert tool.sizes_of(text) == sizes


PROJECT = (
    '[tool.other]\n"a" = [1, 2, 3]\n\n[tool.mcm-sizes]\n"p/a" = [5, 2, 1]\n"p/b" = [9, 3, 4]\n'
)


def test_a_larger_package_fails(tool):
    budgets = tool.budgets_of(PROJECT)
    assert tool.faults({"p/a": (5, 2, 1), "p/b": (9, 3, 4)}, budgets) == []
    assert tool.faults({"p/a": (6, 2, 0), "p/b": (1, 1, 5)}, budgets) == [
        "p/a: 6 lines of code, 5 at most",
        "p/b: 5 lines of imports, 4 at most",
    ]


def test_packages_and_budgets_are_the_same(tool):
    found = tool.faults({"p/a": (5, 2, 1), "p/c": (1, 1, 0)}, tool.budgets_of(PROJECT))
    assert found == ['p/c: no budget; add "p/c" = [1, 1, 0]', "p/b: a budget for no package"]


def test_an_update_lowers_and_never_raises(tool):
    text = tool.lowered(PROJECT, {"p/a": (7, 1, 1)})
    assert text == PROJECT.replace("[5, 2, 1]", "[5, 1, 1]").replace('"p/b" = [9, 3, 4]\n', "")


def test_packages_are_folders_of_the_four_places(tool, tmp_path):
    for path, text in {
        "mcm_compiler/api.py": "import a\n",
        "mcm_compiler/ir/reading/deep.py": "X = 1\nY = 2\n",
        "models/mcm_models/zoo/net.py": "",
        "passes/mcm_passes/families/ring/moves/swap.py": "X = 1\n",
        "tests/test_a.py": "X = 1\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert tool.package_sizes(tmp_path) == {
        "mcm_compiler": (1, 1, 1),
        "mcm_compiler/ir": (2, 1, 0),
        "models/mcm_models/zoo": (0, 1, 0),
        "passes/mcm_passes/families/ring": (1, 1, 0),
    }
