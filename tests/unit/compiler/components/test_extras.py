from __future__ import annotations

import sys

import pytest

from mcm_compiler.components import extras
from mcm_compiler.components.extras import LEARN, extra_of, missing_modules, require_learning
from mcm_compiler.diagnostics import CompileError


class Plain:
    pass


class Needing:
    extra = LEARN


def test_what_components_say_they_need():
    assert extra_of(Plain) == extra_of(Plain()) == ""
    assert extra_of(Needing) == extra_of(Needing()) == LEARN


def test_missing_modules_are_named(monkeypatch):
    monkeypatch.setitem(extras.MODULES, LEARN, ("json", "no_such_module"))
    assert missing_modules(LEARN) == ("no_such_module",)
    assert missing_modules("unknown") == ()
    with pytest.raises(CompileError) as caught:
        require_learning("strategy 'x'", "option y", "choose z")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == "strategy 'x' learns, and no_such_module is missing"
    assert diagnostic.hint == 'pip install "mcm-compiler[learn]", or choose z'


def test_module_that_hooks_forbid_is_missing(monkeypatch):
    class Forbidding:
        def find_spec(self, name, path=None, target=None):
            if name == "forbidden_module":
                raise ModuleNotFoundError(name)

    monkeypatch.setattr(sys, "meta_path", [Forbidding(), *sys.meta_path])
    monkeypatch.setitem(extras.MODULES, LEARN, ("forbidden_module",))
    assert missing_modules(LEARN) == ("forbidden_module",)
