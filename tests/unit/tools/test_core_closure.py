"""The tool that counts what the core needs."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("core_closure")


def test_modules_that_run_are_reached_with_their_packages(tool, tmp_path):
    files = {
        "p.__init__": "",
        "p.a": "def f():\n    from q.b import thing\n",
        "q.__init__": "import q.c\n",
        "q.b": "if TYPE_CHECKING:\n    import q.typed\nelse:\n    import q.d\n",
        "q.c": "",
        "q.d": "",
        "q.typed": "",
        "q.unused": "import p.a\n",
    }
    modules = {}
    for name, text in files.items():
        modules[name.removesuffix(".__init__")] = path = tmp_path / name
        path.write_text(text)
    assert tool.reached(["p.a"], modules) == ["p", "p.a", "q", "q.b", "q.c", "q.d"]


def test_a_product_is_no_root(tool):
    project = (
        '[project.entry-points."mcm_compiler.plugins"]\n'
        '"a" = "mcm_passes.mapping.here:A"\n"b" = "mcm_passes.differentiation.there:B"\n'
    )
    roots = tool.roots_of(project)
    assert "mcm_passes.mapping.here" in roots
    assert "mcm_passes.differentiation.there" not in roots
    assert "mcm_compiler.cli.verbs.compile" in roots


def test_the_core_reaches_no_product(tool):
    modules = tool.modules_of(ROOT)
    roots = tool.roots_of((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    core = tool.reached(roots, modules)
    assert set(roots) <= set(core)
    assert not [name for name in core if tool.in_product(name)]
