"""Arguments of functions for Python code: paths however they are written, and refusals by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from mcm_compiler import CompileOptions, compile_model, load_target
from mcm_compiler.api import run_passes
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placing import place_model

TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[4] x) => (float[4] y) { y = Relu (x) }"""
SHORT = CompileOptions(passes="simplify,fuse")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return path


def refused(function: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(CompileError) as caught:
        function(*arguments, **named)
    (told,) = caught.value.diagnostics
    assert told.code == "MCM-U004"
    return told.message


def test_paths_and_texts_of_them_are_alike(model: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(load_target("mcm4").source_text)
    options = CompileOptions(level=0, inferences=8)
    for given, target, output in (
        (str(model), str(own), str(tmp_path / "a")),
        (model, own, tmp_path / "b"),
    ):
        result = compile_model(given, target, options, output=output)
        assert result.folder == Path(output)
        assert result.target.name == "own"
        assert (Path(output) / "report.json").is_file()
    assert load_target(own).name == load_target(Path("mcm4")).name.replace("mcm4", "own")


def test_arguments_of_other_types(model: Path) -> None:
    proto = onnx.load(model)
    assert refused(compile_model, 123).startswith("model is 123, not a path, a name such as")
    assert refused(compile_model, proto).startswith("model is of the type ModelProto, not a path")
    assert refused(run_passes, None).startswith("model is None")
    assert refused(place_model, b"net.onnx", "box-2gpu").startswith("model is b'net.onnx'")
    for target in (5, None, {}, b"mcm4", CompileOptions):
        assert "target is " in refused(compile_model, model, target, SHORT)
    assert "target is 5" in refused(load_target, 5)
    assert "target is 5" in refused(place_model, model, 5)
    for options in ({}, [], "x", PlaceOptions()):
        assert "not CompileOptions or None" in refused(compile_model, model, "mcm4", options)
    assert "not PlaceOptions or None" in refused(place_model, model, "box-2gpu", SHORT)
    for output in (3, b"out", "", "a\0b"):
        told = refused(compile_model, model, "mcm4", output=output)
        assert told.endswith("not the path of a folder, or None")
    assert "progress is 5, not a function" in refused(compile_model, model, progress=5)
    assert "after_pass is 5" in refused(run_passes, model, after_pass=5)


def test_targets_that_no_model_is_compiled_for(model: Path) -> None:
    from mcm_compiler.components.target_loading import load_package

    for name, code in (("config-a", "MCM-S040"), ("box-2gpu", "MCM-D001")):
        with pytest.raises(CompileError) as caught:
            compile_model(ir.load(model), load_package(name), SHORT)  # type: ignore[arg-type]
        assert [d.code for d in caught.value.diagnostics] == [code]
    with pytest.raises(CompileError) as caught:
        place_model(model, load_target("mcm4"))  # type: ignore[arg-type]
    assert [d.code for d in caught.value.diagnostics] == ["MCM-D002"]
