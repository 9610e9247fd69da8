"""Registries over entry points, and one-file plug-ins."""

from __future__ import annotations

import errno
import importlib
import importlib.metadata
import typing
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcm_compiler import registry as registry_module
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.plugin_kinds import KINDS, Entry, Kind
from mcm_compiler.registry import (
    COST_MODELS,
    PASSES,
    REGISTRIES,
    STRATEGIES,
    TARGET_FAMILIES,
    TARGETS,
    ZOO,
    Registry,
    register,
)

THING = Kind("thing", "object", "things:Thing", "tests")

PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar
from mcm_compiler.pipeline.passes import Pass
from mcm_compiler.registry import register

@register("pass")
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


def _entry(name: str, value: str, origin: str | None = None) -> Entry:
    return Entry(name, origin or value, importlib.metadata.EntryPoint(name, value, "g"))


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry[Any]:
    entries = [
        _entry("upper", "string:ascii_uppercase"),
        _entry("missing", "no_such_module:x"),
        _entry("renamed", "string:no_such_name"),
    ]
    monkeypatch.setattr(registry_module, "installed_entries", lambda kind: entries)
    return Registry(THING)


@pytest.fixture
def added_passes() -> Generator[list[str]]:
    names: list[str] = []
    yield names
    for name in names:
        PASSES.remove(name)


def test_components_load_on_demand_and_tell_their_origin(registry: Registry[Any]) -> None:
    assert [(r.name, r.origin) for r in registry.registrations()] == [
        ("missing", "no_such_module:x"),
        ("renamed", "string:no_such_name"),
        ("upper", "string:ascii_uppercase"),
    ]
    assert registry.get("upper").startswith("ABC")


def test_an_unknown_name_gets_the_nearest_ones(registry: Registry[Any]) -> None:
    with pytest.raises(CompileError) as caught:
        registry.get("uper")
    assert _code(caught) == "MCM-U003"
    (found,) = caught.value.diagnostics
    assert found.message == "unknown thing 'uper'; did you mean upper?"
    assert (found.hint or "").startswith("known: missing, renamed, upper;")
    assert "--plugin" in (found.hint or "")


def test_an_unknown_name_is_not_followed_by_all_where_a_verb_lists_them() -> None:
    with pytest.raises(CompileError) as caught:
        REGISTRIES["zoo"].get("resnet5")
    (found,) = caught.value.diagnostics
    assert found.message.startswith("unknown zoo model 'resnet5'; did you mean resnet50")
    assert (found.hint or "").startswith("`mcmc zoo` lists them;")


def test_a_component_whose_module_is_missing(registry: Registry[Any]) -> None:
    with pytest.raises(CompileError) as caught:
        registry.get("missing")
    assert _code(caught) == "MCM-X003"
    assert "no_such_module" in str(caught.value)


def test_a_component_that_its_module_does_not_hold(registry: Registry[Any]) -> None:
    with pytest.raises(CompileError) as caught:
        registry.get("renamed")
    assert _code(caught) == "MCM-X003"
    assert "no_such_name" in str(caught.value)


class Own(BaseException):
    """What is no Exception."""


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("lost"),
        SystemExit(0),
        SystemExit(["a code that is no number"]),
        FileNotFoundError(errno.ENOENT, "none", "x"),
        ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
        OSError("the server is asleep"),
        Own("mine"),
        GeneratorExit("over"),
    ],
)
def test_what_a_component_raises_is_its_fault(
    registry: Registry[Any], error: BaseException
) -> None:
    registry.add("mine", 1, "a.py")
    with pytest.raises(CompileError) as caught, registry.at_work("mine"):
        raise error
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X007", "a.py")
    assert f"thing 'mine' failed: {type(error).__name__}: {error}" == found.message


@pytest.mark.parametrize(
    "error",
    [
        CompileError(Diagnostic("MCM-P001", "diagnosed")),
        SystemExit(143),
        KeyboardInterrupt(),
        OSError(errno.ENOSPC, "full"),
        PermissionError(errno.EACCES, "no", "x"),
    ],
)
def test_diagnostics_signals_and_refused_files_pass(
    registry: Registry[Any], error: BaseException
) -> None:
    with pytest.raises(type(error)) as caught, registry.at_work("mine"):
        raise error
    assert caught.value is error


class Speechless(RuntimeError):
    def __str__(self) -> str:
        raise ValueError("nothing to say")


def test_an_error_whose_text_raises_is_told_by_its_type(registry: Registry[Any]) -> None:
    registry.add("mine", 1, "a.py")
    with pytest.raises(CompileError) as caught, registry.at_work("mine"):
        raise Speechless
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X007", "a.py")
    assert "Speechless, whose text raises ValueError" in found.message


class Made:
    def fail(self) -> None:
        raise RuntimeError("lost")


def test_where_others_work_as_well_only_what_a_method_lets_through_is_told(
    registry: Registry[Any],
) -> None:
    registry.add("mine", Made, "a.py")
    made = Made()
    with pytest.raises(CompileError) as caught, registry.at_work("mine", made):
        made.fail()
    assert _code(caught) == "MCM-X007"
    with pytest.raises(RuntimeError, match="lost"), registry.at_work("mine", made):
        Made().fail()


class Untold(CompileError):
    def __init__(self) -> None:  # without diagnostics
        pass


def test_a_compile_error_without_diagnostics_is_a_fault(registry: Registry[Any]) -> None:
    with pytest.raises(CompileError) as caught, registry.at_work("mine"):
        raise Untold
    assert _code(caught) == "MCM-X007"


def test_the_origin_of_a_component(registry: Registry[Any]) -> None:
    registry.add("mine", 1, "a.py")
    assert registry.origin_of("mine") == "a.py"
    assert registry.origin_of("upper") == "string:ascii_uppercase"
    assert registry.origin_of("somebody") == "this process"


@pytest.mark.parametrize("name", [5, None, ""])
def test_a_name_is_a_text(registry: Registry[Any], name: Any) -> None:
    with pytest.raises(TypeError, match="the name of a component is a text"):
        registry.add(name, 1, "a.py")
    assert [r.name for r in registry.registrations()] == ["missing", "renamed", "upper"]


def leave() -> None:
    raise SystemExit(0)


def numbers() -> list[int]:
    return [1]


def test_a_collection_is_not_loaded_for_a_name_that_an_entry_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = {"thing": [_entry("whole", f"{__name__}:Made")], "many": [_entry("odd", "gone:x")]}
    monkeypatch.setattr(registry_module, "installed_entries", lambda kind: entries[kind])
    registry = Registry[Any](THING, Kind("many", "entry", "", ""))
    assert registry.get("whole") is Made
    with pytest.raises(CompileError, match="the thing collection 'odd' cannot be imported"):
        registry.get("other")


@pytest.mark.parametrize("given", ["leave", "numbers", "no_such_function"])
def test_a_collection_that_fails_or_gives_no_registrations(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    entry = _entry("odd", f"{__name__}:{given}")
    monkeypatch.setattr(
        registry_module, "installed_entries", lambda kind: [entry] if kind == "many" else []
    )
    registry = Registry[Any](THING, Kind("many", "entry", "", ""))
    for look in (registry.registrations, lambda: registry.names_at_hand("odd.")):
        with pytest.raises(CompileError) as caught:
            look()
        (found,) = caught.value.diagnostics
        assert (found.code, found.at) == ("MCM-X003", entry.origin)
        assert "the thing collection 'odd' cannot be imported" in found.message


def test_a_module_that_leaves_as_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_leaves.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    entries = [_entry("leaves", "acme_leaves:Thing")]
    monkeypatch.setattr(registry_module, "installed_entries", lambda kind: entries)
    with pytest.raises(CompileError) as caught:
        Registry[Any](THING).get("leaves")
    assert _code(caught) == "MCM-X003"
    assert "thing 'leaves' cannot be imported: SystemExit: 0" in str(caught.value)


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
    entries = [_entry("same", "string:digits"), _entry("same", "string:hexdigits")]
    monkeypatch.setattr(registry_module, "installed_entries", lambda kind: entries)
    registry = Registry[Any](THING)
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
        ("ends.py", "raise BaseException('end')", "BaseException: end"),
        ("cancels.py", "raise GeneratorExit", "fails: GeneratorExit"),
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
        if "does not exist" in part:  # there is nothing to correct
            assert caught.value.diagnostics[0].hint == (
                "give the path of a file that exists and ends in .py"
            )


def _plugin_of(kind: str, name: str, definition: str) -> str:
    imported = "from mcm_compiler import register\n"
    if KINDS[kind].form == "class":
        return f"{imported}@register({kind!r})\nclass {definition}:\n    name = {name!r}\n"
    return f"{imported}@register({kind!r}, {name!r})\ndef {definition}():\n    return 1\n"


@pytest.mark.parametrize("kind", sorted(REGISTRIES))
def test_a_plugin_of_one_file_registers_anything(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "acme.py"
    path.write_text(_plugin_of(kind, "acme_it", "it"))
    try:
        load_plugin(path)
        assert REGISTRIES[kind].get("acme_it").__name__ == "it"
        assert REGISTRIES[kind].origin_of("acme_it") == str(path)
    finally:
        REGISTRIES[kind].remove("acme_it")


@pytest.mark.parametrize("kind", sorted(REGISTRIES))
def test_a_plugin_that_registers_a_name_twice_gets_both_lines(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "twice.py"
    first = _plugin_of(kind, "acme_twice", "first")
    path.write_text(first + _plugin_of(kind, "acme_twice", "second"))
    with pytest.raises(CompileError) as caught:
        load_plugin(path)
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-X001"
    lines = first.count("\n")
    # Of a decorated definition Python names the line of the decorator or of the definition.
    assert found.at in {f"{path}:{line} and {path}:{line + lines}" for line in (2, 3)}, found.at
    # Neither stays: which of them would run is left to nobody.
    assert "acme_twice" not in REGISTRIES[kind]


@pytest.mark.parametrize("kind", sorted(REGISTRIES))
def test_contracts_exist_and_the_compilers_own_components_have_the_form(kind: str) -> None:
    module, _, name = KINDS[kind].contract.partition(":")
    assert hasattr(importlib.import_module(module), name)
    own = [r for r in REGISTRIES[kind].registrations() if r.origin.startswith("mcm-compiler ")]
    form = {"class": type, "function": (Callable, Mapping), "object": object}[KINDS[kind].form]
    assert own
    assert all(isinstance(REGISTRIES[kind].get(r.name), form) for r in own)


def test_what_has_a_name_is_registered_by_it() -> None:
    try:
        assert register("level")(THING) is THING
        assert REGISTRIES["level"].get("thing") is THING
        with pytest.raises(TypeError, match=r'register\("target", "NAME"\)'):
            register("target")(leave)
    finally:
        REGISTRIES["level"].remove("thing")


@pytest.mark.parametrize(
    ("kind", "hint"),
    [("stratgy", "did you mean strategy"), ("pass-collection", "no kind"), (Own, "@register")],
)
def test_a_kind_that_does_not_exist(kind: Any, hint: str) -> None:
    with pytest.raises(CompileError, match=hint) as caught:
        register(kind)
    assert _code(caught) == "MCM-X014"


@pytest.mark.parametrize("kind", ["strategy", "zoo", "cost-model"])
def test_what_is_no_class_where_one_is_due(kind: str) -> None:
    registry = Registry[Any](KINDS[kind])
    registry.add("acme_function", leave, "a.py")
    with pytest.raises(CompileError, match="is of type function, not a class") as caught:
        registry.get("acme_function")
    assert _code(caught) == "MCM-X008"


def test_a_plugin_that_fails_leaves_nothing_registered(tmp_path: Path) -> None:
    path = tmp_path / "half.py"
    path.write_text(PLUGIN.replace("{tag}", "half") + "raise RuntimeError('no')\n")
    with pytest.raises(CompileError):
        load_plugin(path)
    assert "shout_half" not in {r.name for r in PASSES.registrations()}


def test_two_plugins_of_one_file_name_do_not_mix(tmp_path: Path, added_passes: list[str]) -> None:
    """Type hints are texts that are looked up in the module of a class."""
    for tag, kind in (("one", "int"), ("two", "float")):
        path = tmp_path / tag / "same.py"
        path.parent.mkdir()
        text = "from __future__ import annotations\n" + PLUGIN.replace("{tag}", tag)
        text = text.replace("    def run", "    size: Kind = 1\n\n    def run")
        path.write_text(text + f"Kind = {kind}\n")
        added_passes.append(f"shout_{tag}")
        load_plugin(path)
    assert typing.get_type_hints(PASSES.get("shout_one"))["size"] is int
    assert typing.get_type_hints(PASSES.get("shout_two"))["size"] is float


def test_a_module_may_be_an_entry_point_and_have_its_decorator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PLUGIN.replace("{tag}", "both")
    (tmp_path / "acme_both.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    entries = [_entry("shout_both", "acme_both:Shout")]
    monkeypatch.setattr(registry_module, "installed_entries", lambda kind: entries)
    passes = Registry[Any](KINDS["pass"])
    monkeypatch.setitem(REGISTRIES, "pass", passes)
    assert passes.get("shout_both").summary == "does nothing, loudly"
    assert [r.origin for r in passes.registrations()] == ["acme_both:Shout"]
    # The file itself is another origin.
    with pytest.raises(CompileError) as caught:
        load_plugin(tmp_path / "acme_both.py")
    assert _code(caught) == "MCM-X001"
    assert f"acme_both:Shout and {tmp_path / 'acme_both.py'}" in str(caught.value)
