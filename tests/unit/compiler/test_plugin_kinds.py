"""Entry points of the one group and of those of earlier releases, and the table of kinds."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli, command_of
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.diagnostics.refusals import take_notices
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.plugin_kinds import GROUP, KINDS, installed_entries, lacking_package
from mcm_compiler.registry import REGISTRIES, TARGETS, Registry

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "plug-in-kinds.md"
OLD = {kind.old_group: kind.name for kind in KINDS.values() if kind.old_group}

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a distribution known, as an installer does: by its metadata on the path."""
    take_notices()

    def with_entries(distribution: str, **groups: dict[str, str]) -> None:
        info = tmp_path / f"{distribution}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        lines: list[str] = []
        for group, entries in groups.items():
            lines += [f"[mcm_compiler.{group}]", *(f"{n} = {v}" for n, v in entries.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    return with_entries


def _codes(found: list[Diagnostic]) -> list[tuple[str, str]]:
    return [(one.severity.value, one.code) for one in found]


@pytest.mark.parametrize("group", sorted(OLD))
def test_groups_of_earlier_releases_are_read_with_one_note(install: Install, group: str) -> None:
    name = f"acme-old-{group.replace('_', '-')}"
    install(name, **{group: {"acme_one": "string:Template", "acme_two": "string:Formatter"}})
    assert {"acme_one", "acme_two"} <= {entry.name for entry in installed_entries(OLD[group])}
    if OLD[group] not in REGISTRIES:
        return
    registry = Registry[Any](KINDS[OLD[group]])
    assert take_notices() == []  # nothing is used yet
    with pytest.warns(DeprecationWarning, match="MCM-X015"):
        assert registry.get("acme_one").__name__ == "Template"
    assert registry.get("acme_two").__name__ == "Formatter"
    (note,) = take_notices()
    assert (note.severity.value, note.code, note.at) == ("note", "MCM-X015", f"{name} 1.0")
    assert f"mcm_compiler.{group} is removed with release 0.3.0" in note.message
    assert note.hint is not None
    assert f'"{OLD[group]}.acme_one"' in note.hint
    assert GROUP in note.hint


@pytest.mark.parametrize(("old", "kind"), [("passes", "pass"), ("zoo", "zoo"), ("levels", "level")])
def test_of_one_name_in_both_groups_of_a_distribution_the_new_one_counts(
    install: Install, old: str, kind: str
) -> None:
    groups = {old: {"acme": "string:Template"}, "plugins": {f"{kind}.acme": "string:Formatter"}}
    install(f"acme-both-{kind}", **groups)
    registry = Registry[Any](KINDS[kind])
    assert registry.get("acme").__name__ == "Formatter"
    assert take_notices() == []


@pytest.mark.parametrize(
    ("first", "second"),
    [("plugins", "plugins"), ("partition_strategies", "plugins"),
     ("partition_strategies", "partition_strategies")],
)  # fmt: skip
def test_two_distributions_with_one_name_are_refused(
    install: Install, first: str, second: str
) -> None:
    for distribution, group in (("acme", first), ("bolt", second)):
        name = "strategy.same" if group == "plugins" else "same"
        install(distribution, **{group: {name: "string:Template"}})
    registry = Registry[Any](KINDS["strategy"])
    for _ in range(2):
        with pytest.raises(CompileError) as caught:
            registry.registrations()
        (found,) = caught.value.diagnostics
        assert found.code == "MCM-X001"
        assert found.at is not None
        assert sorted(found.at.split(" and ")) == ["acme 1.0", "bolt 1.0"]


@pytest.mark.parametrize("name", ["quantizer.acme", "acme", "pass.", ".acme"])
def test_an_entry_point_of_no_kind_gets_one_warning(install: Install, name: str) -> None:
    install("acme-odd", plugins={name: "string:Template", "pass.acme_sound": "string:Template"})
    assert "acme_sound" in Registry[Any](KINDS["pass"])
    assert "dp" in Registry[Any](KINDS["strategy"])
    (found,) = [one for one in take_notices() if f"'{name}'" in one.message]
    assert (found.severity.value, found.code, found.at) == ("warning", "MCM-X014", "acme-odd 1.0")


def test_names_may_have_dots_and_colons(install: Install) -> None:
    install("acme-dots", plugins={"sharding-rule.com.acme::Dots": "string:digits"})
    assert REGISTRIES["sharding-rule"].kind is KINDS["sharding-rule"]
    assert "com.acme::Dots" in Registry[Any](KINDS["sharding-rule"])


@pytest.mark.parametrize("kind", sorted(set(OLD.values()) & set(REGISTRIES)))
def test_decorators_of_earlier_releases_register_with_a_note(tmp_path: Path, kind: str) -> None:
    old = f"register_{kind.replace('-', '_')}"
    path = tmp_path / "before.py"
    line = f"@{old}" if KINDS[kind].form == "class" else f"@{old}('acme_before')"
    if kind == "level":
        line = f"@{old}"
    path.write_text(
        f"from mcm_compiler import {old}, register\n"
        f"@register({kind!r}, 'acme_before')\n{line}\nclass Before:\n    name = 'acme_before'\n"
    )
    take_notices()
    try:
        with pytest.warns(DeprecationWarning, match=old):
            load_plugin(path)
        assert REGISTRIES[kind].get("acme_before").__name__ == "Before"
        (note,) = take_notices()
        assert (note.code, note.at) == ("MCM-X015", str(path))
        assert note.hint is not None
        assert f'register("{kind}"' in note.hint
    finally:
        REGISTRIES[kind].remove("acme_before")


def test_the_page_on_plug_ins_has_the_table_of_kinds() -> None:
    rows = [
        f"| `{kind.name}` | {kind.form} | `{kind.contract.replace(':', '.')}` | {kind.used_by} |"
        for kind in KINDS.values()
        if kind.form != "entry"
    ]
    page = PAGE.read_text(encoding="utf-8")
    assert [row for row in rows if row not in page] == []
    assert len(re.findall(r"^\| `[a-z-]+` \| (?:class|function|object) ", page, re.M)) == len(rows)


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_the_command_line_shows_notes_on_stderr_once(tmp_path: Path, output_format: str) -> None:
    path = tmp_path / f"noted_{output_format}.py"
    path.write_text(
        "from mcm_compiler import register_cost_model\n"
        f"class Noted:\n    name, summary = 'acme_noted_{output_format}', 'noted'\n"
        "register_cost_model(Noted)\nregister_cost_model(Noted)\n"
    )
    take_notices()
    try:
        with pytest.warns(DeprecationWarning, match="register_cost_model"):
            shown = CliRunner().invoke(
                cli, ["costs", "--plugin", str(path), "--format", output_format]
            )
        assert shown.exit_code == 0
        assert shown.stderr.count("note[MCM-X015]") == 1
        assert "MCM-X015" not in shown.stdout
        assert f"acme_noted_{output_format}" in shown.stdout
    finally:
        REGISTRIES["cost-model"].remove(f"acme_noted_{output_format}")


def test_parts_of_a_missing_product_lead_to_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lacking_package("target.mcm36-fabric") is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, package in (
        ("target.mcm36-fabric", "mcm_hardware.families.fabric"),
        ("mapper.annealing", "mcm_passes.families.fabric"),
        ("verb.place", "mcm_compiler.placed"),
        ("verb.partition", "mcm_passes.mapping.device_placement"),
        ("zoo.gpt2", "mcm_models.zoo"),
    ):
        assert lacking_package(name) == package
    assert lacking_package("strategy.dp") is None
    with pytest.raises(CompileError) as caught:
        TARGETS.get("box-of-mine")
    assert "mcm_hardware.families.box, which is not installed" in caught.value.diagnostics[0].hint
    monkeypatch.setitem(REGISTRIES, "verb", Registry(KINDS["verb"]))
    monkeypatch.setattr("mcm_compiler.registry.installed_entries", lambda kind: [])
    with pytest.raises(click.UsageError, match=r"comes with the package mcm_compiler\.placed"):
        command_of("place")
