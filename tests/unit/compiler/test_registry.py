"""Registries over entry points, and one-file plug-ins."""

from __future__ import annotations

import errno
import importlib.metadata
import typing
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import mcm_compiler
from mcm_compiler import registry as registry_module
from mcm_compiler.contracts.boxes.placers import PlacerLevel
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.registry import (
    CHIP_KINDS,
    COST_MODELS,
    GRADIENT_RULES,
    LEVELS,
    MAPPERS,
    MAPPING_MODELS,
    MAPPINGS,
    OBJECTIVE_PROOFS,
    PASSES,
    PLACEMENT_COSTS,
    PLACER_LEVELS,
    PLACERS,
    PLANNERS,
    PROBLEM_MODELS,
    PROOF_CHECKERS,
    SHARDING_RULES,
    STEP_BOUNDS,
    STRATEGIES,
    TARGET_FAMILIES,
    TARGETS,
    TRAINERS,
    ZOO,
    Registry,
    load_plugin,
    register_placer_level,
)

PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar
from mcm_compiler.pipeline.passes import Pass
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
        importlib.metadata.EntryPoint("renamed", "string:no_such_name", "g"),
    ]
    monkeypatch.setattr(registry_module, "installed_entries", lambda group: entries)
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
        ("renamed", "string:no_such_name"),
        ("upper", "string:ascii_uppercase"),
    ]
    assert registry.get("upper").startswith("ABC")


def test_an_unknown_name_gets_the_nearest_ones(registry: Registry[Any]) -> None:
    with pytest.raises(CompileError) as caught:
        registry.get("uper")
    assert _code(caught) == "MCM-U003"
    (found,) = caught.value.diagnostics
    assert found.message == "unknown thing 'uper'; known: missing, renamed, upper"
    assert found.hint == "did you mean upper?"


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


@pytest.mark.parametrize("given", ["leave", "numbers", "no_such_function"])
def test_a_collection_that_fails_or_gives_no_registrations(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    entry = importlib.metadata.EntryPoint("odd", f"{__name__}:{given}", "many")
    monkeypatch.setattr(
        registry_module, "installed_entries", lambda group: [entry] if group == "many" else []
    )
    registry = Registry[Any]("g", "thing", collections="many")
    for look in (registry.registrations, lambda: registry.names_at_hand("odd.")):
        with pytest.raises(CompileError) as caught:
            look()
        (found,) = caught.value.diagnostics
        assert (found.code, found.at) == ("MCM-X003", entry.value)
        assert "the thing collection 'odd' cannot be imported" in found.message


def test_a_module_that_leaves_as_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_leaves.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    entries = [importlib.metadata.EntryPoint("leaves", "acme_leaves:Thing", "g")]
    monkeypatch.setattr(registry_module, "installed_entries", lambda group: entries)
    with pytest.raises(CompileError) as caught:
        Registry[Any]("g", "thing").get("leaves")
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
    entries = [
        importlib.metadata.EntryPoint("same", "string:digits", "g"),
        importlib.metadata.EntryPoint("same", "string:hexdigits", "g"),
    ]
    monkeypatch.setattr(registry_module, "installed_entries", lambda group: entries)
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


BY_THEIR_NAMES = {
    "register_pass": PASSES,
    "register_placement_cost": PLACEMENT_COSTS,
    "register_placer": PLACERS,
    "register_chip_kind": CHIP_KINDS,
    "register_mapper": MAPPERS,
    "register_mapping_model": MAPPING_MODELS,
    "register_planner": PLANNERS,
    "register_strategy": STRATEGIES,
    "register_trainer": TRAINERS,
    "register_zoo": ZOO,
}
BY_GIVEN_NAMES = {
    "register_gradient_rule": GRADIENT_RULES,
    "register_problem_model": PROBLEM_MODELS,
    "register_objective_proof": OBJECTIVE_PROOFS,
    "register_proof_checker": PROOF_CHECKERS,
    "register_sharding_rule": SHARDING_RULES,
    "register_step_bound": STEP_BOUNDS,
    "register_target": TARGETS,
    "register_target_family": TARGET_FAMILIES,
    "register_mapping": MAPPINGS,
}
REGISTERS = BY_THEIR_NAMES | BY_GIVEN_NAMES


def test_every_registry_is_open_to_a_plugin_of_one_file() -> None:
    registries = [r for r in vars(registry_module).values() if isinstance(r, Registry)]
    # Of levels and cost models the tests are elsewhere.
    open_ones = [*REGISTERS.values(), COST_MODELS, LEVELS, PLACER_LEVELS]
    assert {r.group for r in registries} <= {r.group for r in open_ones}


def _plugin_of(register: str, name: str, definition: str) -> str:
    imported = f"from mcm_compiler import {register}\n"
    if register in BY_THEIR_NAMES:
        return f"{imported}@{register}\nclass {definition}:\n    name = {name!r}\n"
    return f"{imported}@{register}({name!r})\ndef {definition}():\n    return 1\n"


@pytest.mark.parametrize("register", sorted(REGISTERS))
def test_a_plugin_of_one_file_registers_anything(tmp_path: Path, register: str) -> None:
    path = tmp_path / "acme.py"
    path.write_text(_plugin_of(register, "acme_it", "it"))
    registry_of_kind: Registry[Any] = REGISTERS[register]
    try:
        load_plugin(path)
        assert registry_of_kind.get("acme_it").__name__ == "it"
        origins = {r.name: r.origin for r in registry_of_kind.registrations()}
        assert origins["acme_it"] == str(path)
    finally:
        registry_of_kind.remove("acme_it")
    assert getattr(mcm_compiler, register) is getattr(registry_module, register)


@pytest.mark.parametrize("register", sorted(REGISTERS))
def test_a_plugin_that_registers_a_name_twice_is_told_both_lines(
    tmp_path: Path, register: str
) -> None:
    path = tmp_path / "twice.py"
    first = _plugin_of(register, "acme_twice", "first")
    path.write_text(first + _plugin_of(register, "acme_twice", "second"))
    with pytest.raises(CompileError) as caught:
        load_plugin(path)
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-X001"
    lines = first.count("\n")
    # Of a decorated definition Python names the line of the decorator or of the definition.
    assert found.at in {f"{path}:{line} and {path}:{line + lines}" for line in (2, 3)}, found.at
    # Neither stays: which of them would run is left to nobody.
    assert "acme_twice" not in {r.name for r in REGISTERS[register].registrations()}


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
    entries = [importlib.metadata.EntryPoint("shout_both", "acme_both:Shout", "g")]
    monkeypatch.setattr(registry_module, "installed_entries", lambda group: entries)
    passes = Registry[Any]("g", "pass")
    monkeypatch.setattr(registry_module, "PASSES", passes)
    assert passes.get("shout_both").summary == "does nothing, loudly"
    assert [r.origin for r in passes.registrations()] == ["acme_both:Shout"]
    # The file itself is another origin.
    with pytest.raises(CompileError) as caught:
        load_plugin(tmp_path / "acme_both.py")
    assert _code(caught) == "MCM-X001"
    assert f"acme_both:Shout and {tmp_path / 'acme_both.py'}" in str(caught.value)


def test_a_level_of_placing_is_known_by_its_name() -> None:
    level = PlacerLevel("acme-long", "ours", "local_search", 9000, 10**6)
    try:
        assert register_placer_level(level) is level
        assert PLACER_LEVELS.get("acme-long") is level
    finally:
        PLACER_LEVELS.remove("acme-long")


def test_the_installation_is_read_once_for_all_groups(monkeypatch: pytest.MonkeyPatch):
    read: list[object] = []
    plain = importlib.metadata.entry_points
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda: read.append(1) or plain())
    monkeypatch.syspath_prepend("/nowhere")  # so that nothing is known of these paths yet
    for registry in (
        Registry("mcm_compiler.passes", "pass"),
        Registry("mcm_compiler.zoo", "model"),
    ):
        assert registry.registrations()
    assert len(read) == 1
