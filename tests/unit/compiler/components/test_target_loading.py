"""Finding targets by name and by path."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcm_compiler.components.target_loading import load_target, target_from_text
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_compiler.registry import TARGET_FAMILIES, TARGETS
from mcm_compiler.text.toml_description import MAX_DESCRIPTION_BYTES


def refused(text, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CompileError) as caught:
        load_target(str(path))
    return caught.value.diagnostics


@pytest.mark.parametrize(("name", "chips"), [("mcm4", 4), ("mcm16", 16), ("mcm36", 36)])
def test_builtin(name, chips):
    target = load_target(name)
    assert target.name == name
    assert target.limits.num_chips == chips


@pytest.mark.parametrize("make", [lambda: None, lambda: "mcm4", lambda _: None, 5])
def test_what_gives_no_target_is_named(make):
    TARGETS.add("test_odd", make, "odd.py")
    try:
        with pytest.raises(CompileError) as caught:
            load_target("test_odd")
    finally:
        TARGETS.remove("test_odd")
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X007", "odd.py")


def test_a_file_works_like_a_builtin(tmp_path):
    builtin = load_target("mcm4")
    path = tmp_path / "mine.toml"
    path.write_text(builtin.source_text)
    mine = load_target(str(path))
    assert mine.name == "mine"
    assert mine.limits == builtin.limits


def test_faults_are_placed_in_the_file(tmp_path):
    text = load_target("mcm4").source_text.replace("sram_mib", "sram_mb")
    faults = refused(text, tmp_path)
    assert {d.code for d in faults} == {"MCM-T002"}
    assert all(d.at.startswith(f"{tmp_path}/mine.toml") for d in faults)


@pytest.mark.parametrize("text", ["a = ", "[" * 5000, "x = " + "9" * 5000])
def test_not_toml(text, tmp_path):
    assert [d.code for d in refused(text, tmp_path)] == ["MCM-T001"]


def test_not_text_and_too_large(tmp_path):
    assert [d.code for d in refused(b"\xff\xfe\x00", tmp_path)] == ["MCM-T001"]
    assert [d.code for d in refused("#" * (MAX_DESCRIPTION_BYTES + 1), tmp_path)] == ["MCM-T001"]


def test_missing_file_and_unknown_name(tmp_path):
    with pytest.raises(CompileError) as caught:
        load_target(str(tmp_path / "none.toml"))
    assert caught.value.diagnostics[0].code == "MCM-T001"
    with pytest.raises(CompileError) as caught:
        load_target("mcm63")
    assert caught.value.diagnostics[0].code == "MCM-U003"
    assert "did you mean mcm36" in caught.value.diagnostics[0].message


def test_family():
    with pytest.raises(CompileError) as caught:
        target_from_text("t", "x = 1")
    assert caught.value.diagnostics[0].code == "MCM-T003"
    with pytest.raises(CompileError) as caught:
        target_from_text("t", '# none\nfamily = "torus"', place="mine.toml")
    assert caught.value.diagnostics[0].code == "MCM-U003"
    assert caught.value.diagnostics[0].at == "mine.toml:2: 'family'"
    with pytest.raises(CompileError) as caught:
        target_from_text("t", "family = 3")
    assert [(d.code, d.at) for d in caught.value.diagnostics] == [("MCM-T004", "t:1: 'family'")]


class Circular:
    """A target whose routes wait for each other around a square, made when it is asked for."""

    name = "square"

    @property
    def machine(self) -> Machine:
        links = MachineBuilder(4)
        around = [links.channel(c, (c + 1) % 4, 1.0) for c in range(4)]
        for c in range(4):
            links.route(c, (c + 2) % 4, [around[c], around[(c + 1) % 4]])
        return links.machine("square", [1] * 4, [1.0] * 4)


def broken(name: str, text: str = "") -> Machine:
    """A family that makes its machine at once, and wrongly."""
    links = MachineBuilder(2)
    links.route(0, 1, [links.channel(1, 0, -1.0)])
    return links.machine(name, [1, 1], [1.0, 1.0])


@pytest.fixture
def strangers() -> Iterator[None]:
    TARGET_FAMILIES.add("square", lambda name, text: Circular(), "a test")
    TARGET_FAMILIES.add("broken", broken, "a test")
    TARGETS.add("square", Circular, "a test")
    yield
    TARGET_FAMILIES.remove("square")
    TARGET_FAMILIES.remove("broken")
    TARGETS.remove("square")


@pytest.mark.usefixtures("strangers")
def test_a_family_whose_routes_wait_for_each_other_is_refused(tmp_path):
    (fault,) = refused('family = "square"\n', tmp_path)
    assert fault.code == "MCM-T014"
    assert "routes wait for each other in a circle over the channels" in fault.message
    assert "0 to 1" in fault.message
    assert "rows" in fault.hint
    assert fault.at.endswith("mine.toml'")
    with pytest.raises(CompileError, match="MCM-T014"):
        load_target("square")


@pytest.mark.usefixtures("strangers")
def test_a_family_whose_machine_makes_no_sense_is_refused(tmp_path):
    (fault,) = refused('family = "broken"\n', tmp_path)
    assert (fault.code, fault.message) == ("MCM-T015", "a rate is not positive")
