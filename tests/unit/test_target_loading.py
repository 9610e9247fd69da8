"""Finding targets by name and by path."""

from __future__ import annotations

import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.target_loading import load_target, target_from_text
from mcm_compiler.toml_description import MAX_DESCRIPTION_BYTES


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
    assert "mcm36" in caught.value.diagnostics[0].hint


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
