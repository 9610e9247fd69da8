"""Registries over entry points, and one-file plug-ins."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import (
    COST_MODELS,
    PASSES,
    STRATEGIES,
    TARGET_FAMILIES,
    TARGETS,
    ZOO,
    Registry,
    load_plugin,
)

PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar
from mcm_compiler.passes import Pass
from mcm_compiler.registry import register_pass

@register_pass
@dataclass(frozen=True)
class Shout(Pass):
    name: ClassVar[str] = "shout_{tag}"
    summary: ClassVar[str] = "does nothing, loudly"

    def run(self, model, context):
        pass
"""


def _code(error: pytest.ExceptionInfo[CompileError]) -> str:
    (found,) = error.value.diagnostics
    return found.code


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry[Any]:
    entries = [
        importlib.metadata.EntryPoint("upper", "string:ascii_uppercase", "g"),
        importlib.metadata.EntryPoint("missing", "no_such_module:x", "g"),
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: entries)
    return Registry("g", "thing")


@pytest.fixture
def added_passes() -> Generator[list[str]]:
    names: list[str] = []
    yield names
    for name in names:
        PASSES.remove(name)


def test_components_load_on_demand_and_tell_their_origin(registry: Registry[Any]) -> None:
    assert [(r.name, r.origin) for r in registry.registrations()] == [
        ("missing", "no_such_module:x"),
        ("upper", "string:ascii_uppercase"),
    ]
    assert registry.get("upper").startswith("ABC")


def test_an_unknown_name_gets_the_nearest_ones(registry: Registry[Any]) -> None:
    with pytest.raises(CompileError) as caught:
        registry.get("uper")
    assert _code(caught) == "MCM-U003"
    (found,) = caught.value.diagnostics
    assert found.message == "unknown thing 'uper'; known: missing, upper"
    assert found.hint == "did you mean upper?"


def test_a_component_whose_module_is_missing(registry: Registry[Any]) -> None:
    with pytest.raises(CompileError) as caught:
        registry.get("missing")
    assert _code(caught) == "MCM-X003"
    assert "no_such_module" in str(caught.value)


def test_a_name_taken_by_another_origin_is_an_error(registry: Registry[Any]) -> None:
    registry.add("mine", 1, "a.py")
    registry.add("mine", 2, "a.py")  # run again: the same file may replace its own
    assert registry.get("mine") == 2
    with pytest.raises(CompileError) as caught:
        registry.add("mine", 3, "b.py")
    assert _code(caught) == "MCM-X001"
    assert "a.py and b.py" in str(caught.value)
    with pytest.raises(CompileError):
        registry.add("upper", 4, "b.py")


def test_removed_components_are_unknown(registry: Registry[Any]) -> None:
    registry.add("mine", 1, "a.py")
    registry.remove("mine")
    registry.remove("never there")
    with pytest.raises(CompileError):
        registry.get("mine")


def test_two_distributions_with_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        importlib.metadata.EntryPoint("same", "string:digits", "g"),
        importlib.metadata.EntryPoint("same", "string:hexdigits", "g"),
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: entries)
    registry = Registry[Any]("g", "thing")
    for _ in range(2):  # every look finds it, not the first alone
        with pytest.raises(CompileError) as caught:
            registry.registrations()
        assert _code(caught) == "MCM-X001"


@pytest.mark.parametrize(
    ("registry_of_kind", "name"),
    [
        (PASSES, "simplify"),
        (TARGETS, "mcm36"),
        (TARGET_FAMILIES, "ring"),
        (STRATEGIES, "dp"),
        (COST_MODELS, "roofline"),
        (ZOO, "resnet50"),
    ],
)
def test_built_in_components_come_through_entry_points(
    registry_of_kind: Registry[Any], name: str
) -> None:
    origins = {r.name: r.origin for r in registry_of_kind.registrations()}
    assert origins[name].startswith("mcm-compiler ")


def test_a_one_file_plugin(tmp_path: Path, added_passes: list[str]) -> None:
    path = tmp_path / "shout.py"
    path.write_text(PLUGIN.replace("{tag}", "once"))
    added_passes.append("shout_once")
    load_plugin(path)
    load_plugin(path)
    assert PASSES.get("shout_once").summary == "does nothing, loudly"
    origins = {r.name: r.origin for r in PASSES.registrations()}
    assert origins["shout_once"] == str(path)


def test_a_plugin_that_takes_a_built_in_name(tmp_path: Path) -> None:
    path = tmp_path / "thief.py"
    path.write_text(PLUGIN.replace("shout_{tag}", "simplify"))
    with pytest.raises(CompileError) as caught:
        load_plugin(path)
    assert _code(caught) == "MCM-X001"


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("gone.py", None, "does not exist"),
        ("notes.txt", "hello", "does not exist or is not Python"),
        ("broken.py", "def", "SyntaxError"),
        ("raises.py", "raise RuntimeError('no')", "RuntimeError: no"),
        ("exits.py", "raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_plugin_that_fails(tmp_path: Path, name: str, text: str | None, part: str) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    for _ in range(2):  # a failed import leaves nothing behind that would hide the second one
        with pytest.raises(CompileError) as caught:
            load_plugin(path)
        assert _code(caught) == "MCM-X004"
        assert part in str(caught.value)
