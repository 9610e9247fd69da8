"""Names of new plug-ins, and the files that are written."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.cli.verbs.new import KINDS, check_name, plugin_files, write_plugin
from mcm_compiler.diagnostics import CompileError


def _new(*args: str) -> Any:
    return CliRunner().invoke(cli, ["new", *args])


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "small letters"),
        ("Fuse", "small letters"),
        ("9lives", "small letters"),
        ("a__b", "small letters"),
        ("../x", "small letters"),
        ("naïve", "small letters"),
        ("a" * 41, "41 characters"),
        ("class", "a word of Python"),
        ("match", "a word of Python"),
        ("tests", "a folder or module"),
    ],
)
def test_names_that_cannot_be(name: str, fault: str) -> None:
    with pytest.raises(CompileError, match=fault) as caught:
        check_name(KINDS["pass"], name)
    assert caught.value.diagnostics[0].code == "MCM-U070"


@pytest.mark.parametrize(
    ("word", "name", "owner"),
    [
        ("strategy", "dp", "a partition strategy is named 'dp'"),
        ("strategy", "rl_zeroshot", "a partition strategy is named 'rl-zeroshot'"),
        ("pass", "fuse", "a pass is named 'fuse'"),
        ("target", "mcm36", "a target is named 'mcm36'"),
        ("cost-model", "table", "a cost model is named 'table'"),
        ("pass", "numpy", "a Python module is named 'numpy'"),
        ("target", "mcm-compiler", "a Python module is named 'mcm_compiler'"),
    ],
)
def test_names_that_are_taken(word: str, name: str, owner: str, tmp_path: Path) -> None:
    result = _new(word, name, "-o", str(tmp_path / "x"), "--format", "json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)["diagnostics"][0]
    assert found["code"] == "MCM-U071"
    assert owner in found["message"]
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    result = _new("pass", "acme_new", "-o", str(tmp_path / "mine"))
    assert result.exit_code == 1
    assert "MCM-A001" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_nothing_half_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(CompileError, match="No space left"):
        write_plugin("pass", "acme_new", tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("word", KINDS)
@pytest.mark.parametrize("name", ["x", "acme-new-thing", "op", "partition", "a" * 40])
def test_every_file_is_what_its_name_says(word: str, name: str) -> None:
    kind = KINDS[word]
    files = plugin_files(kind, name)
    package = name.replace("-", "_")
    for place, text in files.items():
        assert "$" not in text, place
        if place.endswith(".py"):
            ast.parse(text)
    project = tomllib.loads(files["pyproject.toml"])["project"]
    (entries,) = project["entry-points"].values()
    assert entries.keys() == {f"{word}.{name}"}
    target = entries[f"{word}.{name}"]
    module, component = target.split(":")
    tree = ast.parse(files[f"{module.replace('.', '/')}.py"])
    defined = {n.name for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    imported = {alias.name for n in tree.body if isinstance(n, ast.ImportFrom) for alias in n.names}
    assert component in defined
    assert not defined & imported
    assert f"tests/test_{package}.py" in files


def test_the_verb_lists_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = _new("target", "acme-pair")
    assert result.exit_code == 0, result.stderr
    told = result.stdout.splitlines()
    assert told == [
        f"acme-pair/{file}" for file in sorted(plugin_files(KINDS["target"], "acme-pair"))
    ]
    assert all(Path(file).is_file() for file in told)
    as_json = json.loads(_new("pass", "acme-two", "--format", "json").stdout)
    assert as_json["folder"] == "acme-two"


@pytest.mark.parametrize("kind", KINDS)
def test_every_function_of_a_template_says_its_types(kind: str) -> None:
    files = plugin_files(KINDS[kind], "acme_part")
    for place, text in files.items():
        if not place.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                arguments = [one for one in node.args.args if one.arg != "self"]
                assert node.returns is not None, f"{place}: {node.name}"
                assert all(one.annotation for one in arguments), f"{place}: {node.name}"
