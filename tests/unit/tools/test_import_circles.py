"""No module imports itself, directly or through others, imports within functions included."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

from core_closure import ROOT, imported_by, modules_of


def circular(imports):
    """Modules that are in a circle or lead into one."""
    left = dict(imports)
    while ends := [name for name, read in left.items() if not read & left.keys()]:
        for name in ends:
            del left[name]
    return left


def test_finds_a_circle():
    assert circular({"a": {"b"}, "b": {"a"}, "c": {"a"}, "d": set()}).keys() == {"a", "b", "c"}
    assert circular({"a": {"a"}, "b": set()}).keys() == {"a"}


def test_there_are_none():
    paths = modules_of(ROOT)
    imports = {}
    for name, path in paths.items():
        read = imported_by(path.read_text(encoding="utf-8"))
        modules = {one if one in paths else one.rpartition(".")[0] for one in read}
        imports[name] = modules & paths.keys()
    assert circular(imports) == {}
