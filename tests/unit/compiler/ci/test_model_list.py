"""Which models are compiled, and into which folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcm_compiler.ci.model_list import list_models
from mcm_compiler.diagnostics import CompileError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _touch(*paths: str) -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()


def _listed(*arguments: str) -> dict[str, str]:
    found = list_models(arguments, Path("out"))
    return {model.model: str(model.folder) for model in found}


def test_a_folder_is_walked_in_order_and_its_shape_kept() -> None:
    _touch("m/z.onnx", "m/b/y.onnx", "m/a/x.v2.onnx", "m/notes.txt", "m/a/w.onnx.data")
    assert list(_listed("m").items()) == [
        ("m/a/x.v2.onnx", "a/x.v2"),
        ("m/b/y.onnx", "b/y"),
        ("m/z.onnx", "z"),
    ]


def test_hidden_names_outputs_and_linked_folders_are_passed_over() -> None:
    _touch("m/a.onnx", "m/.git/b.onnx", "m/.c.onnx", "m/done/chip_00.onnx", "m/done/manifest.json")
    _touch("m/out/x/y.onnx")
    os.symlink("..", "m/loop")
    found = list_models(("m",), Path("m/out"))
    assert [model.model for model in found] == ["m/a.onnx"]


def test_arguments_keep_their_order_and_count_once() -> None:
    _touch("m/a.onnx", "b.onnx")
    listed = _listed("b.onnx", "zoo:bert{layers=2}", "./b.onnx", "m", "m/a.onnx", "gone.onnx")
    assert listed == {
        "b.onnx": "b",
        "zoo:bert{layers=2}": "bert",
        "m/a.onnx": "a",
        "gone.onnx": "gone",
    }


def test_what_the_system_refuses_to_look_at_is_a_model_that_fails() -> None:
    long = "n" * 300
    assert _listed("a.onnx", f"{long}.onnx") == {"a.onnx": "a", f"{long}.onnx": long}


def test_equal_stems_are_told_apart_by_their_paths() -> None:
    _touch("m/x.onnx", "n/k/x.onnx", "n/y.onnx")
    assert _listed("m/x.onnx", "n/k/x.onnx", "n/y.onnx") == {
        "m/x.onnx": "m/x",
        "n/k/x.onnx": "n/k/x",
        "n/y.onnx": "y",
    }


def test_stems_that_differ_in_case_only_are_equal() -> None:
    assert _listed("m/Net.onnx", "n/net.onnx") == {"m/Net.onnx": "m/Net", "n/net.onnx": "n/net"}


def test_what_still_clashes_is_numbered() -> None:
    assert list(_listed("zoo:bert{layers=2}", "zoo:bert{layers=4}", "zoo:bert").values()) == [
        "bert",
        "bert-2",
        "bert-3",
    ]


def test_no_output_lies_in_another() -> None:
    _touch("m/a.onnx", "m/a/b.onnx")
    assert _listed("m") == {"m/a/b.onnx": "a/b", "m/a.onnx": "a.onnx"}


@pytest.mark.parametrize("name", ["...onnx", "..onnx", "....onnx"])
def test_no_name_leads_out_of_the_output(name: str) -> None:
    assert _listed(f"m/{name}") == {f"m/{name}": "model"}
    assert _listed(f"m/{name}", "zoo:../../x") == {f"m/{name}": "m/model", "zoo:../../x": "model"}


def test_clashing_paths_from_above_stay_below() -> None:
    (folder,) = {str(m.folder) for m in list_models(("../a/x.onnx",), Path("out"))}
    assert folder == "x"
    listed = _listed("../../p/x.onnx", "q/x.onnx")
    assert all(".." not in folder for folder in listed.values())
    assert len(set(listed.values())) == 2


def test_folders_without_models_are_refused_together() -> None:
    _touch("e/readme.txt", "f/.x.onnx", "g/a.onnx")
    with pytest.raises(CompileError) as caught:
        list_models(("e", "g", "f"), Path("out"))
    assert [(d.code, d.at) for d in caught.value.diagnostics] == [
        ("MCM-U034", "e"),
        ("MCM-U034", "f"),
    ]


def test_the_output_of_a_single_model_is_not_mixed_with_many() -> None:
    _touch("m/a.onnx", "out/manifest.json")
    with pytest.raises(CompileError) as caught:
        list_models(("m",), Path("out"))
    assert [d.code for d in caught.value.diagnostics] == ["MCM-U036"]


def test_no_output_takes_the_place_of_the_page_of_another() -> None:
    _touch("m/a.onnx", "m/a.html.onnx", "n/b.onnx", "n/B.HTML/c.onnx")
    folders = _listed("m", "n")
    assert folders == {
        "m/a.html.onnx": "a.html",
        "m/a.onnx": "a-2",
        "n/b.onnx": "b.onnx",
        "n/B.HTML/c.onnx": "B.HTML/c",
    }
