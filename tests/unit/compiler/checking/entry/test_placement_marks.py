"""Marks of a folder's models that say something else than the chips do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.options import CompileOptions
from tools.figure_mutations import rehash

ADD = "/embeddings/Add"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marks") / "out"
    options = CompileOptions(level=0, replicas=2, inferences=8, verify_seeds=1)
    compile_model("zoo:bert-tiny", "mcm4", options, output=folder)
    return folder


def refusals(folder: Path) -> list[str]:
    rehash(folder)
    found = check_folder(folder, without=("equality",))
    failed = [step.name for step in found.steps if not step.holds]
    assert failed in ([], ["constraints"])
    return [d.code for d in found.diagnostics]


def mark(key: str, value: str) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        node = next(node for node in model.graph.node if node.name == ADD)
        entry = next(entry for entry in node.metadata_props if entry.key == key)
        assert entry.value != value
        entry.value = value

    return change


def remove(model: onnx.ModelProto) -> None:
    node = next(node for node in model.graph.node if node.name == ADD)
    node.metadata_props.add(key="mcm.removed", value="true")


def stage(model: onnx.ModelProto) -> None:
    node = next(node for node in model.graph.node if node.name == ADD)
    node.device_configurations[0].pipeline_stage += 1


def replicate(model: onnx.ModelProto) -> None:
    next(e for e in model.metadata_props if e.key == "mcm.replicas").value = "4"


def test_a_folder_says_where_its_ops_run(compiled: Path) -> None:
    assert refusals(compiled) == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("annotated.onnx", mark("mcm.chip", "1")),
        ("annotated.onnx", mark("mcm.group", "group")),
        ("annotated.onnx", mark("mcm.cost_s", "1e-12")),
        ("annotated.onnx", mark("mcm.cost_s", "fast")),
        ("annotated.onnx", mark("mcm.cost_s", "nan")),
        ("annotated.onnx", remove),
        ("annotated.onnx", stage),
        ("annotated.onnx", replicate),
        ("chip_00.onnx", mark("mcm.chip", "1")),
    ],
)
def test_another_mark_is_refused(
    compiled: Path, tmp_path: Path, name: str, change: Callable[[onnx.ModelProto], None]
) -> None:
    folder = shutil.copytree(compiled, tmp_path / "out")
    model = onnx.load(folder / name, load_external_data=False)
    change(model)
    (folder / name).write_bytes(model.SerializeToString())
    assert refusals(folder) == ["MCM-V053"]


def test_a_model_that_was_compiled_before_is_marked_anew(compiled: Path, tmp_path: Path) -> None:
    """What the earlier compile told of pipelines and removed ops is gone."""
    path = compiled / "annotated.onnx"
    options = CompileOptions(level=0, replicas=1, inferences=8)
    compile_model(path, "mcm16", options, output=tmp_path / "out")
    model = onnx.load(tmp_path / "out" / "annotated.onnx", load_external_data=False)
    assert "mcm.replicas" not in {entry.key for entry in model.metadata_props}
    assert refusals(tmp_path / "out") == []
