"""Test data in ONNX's layout beside a model: compared by the compile without being asked for."""

from __future__ import annotations

import json
import os

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler import CompileOptions, compile_model
from mcm_compiler.checking.comparison import user_data
from mcm_compiler.cli.main import cli
from mcm_compiler.diagnostics import CompileError

VALUE = helper.make_tensor_value_info
X = np.float32([[1, -2, 3]])


def relu_chain(batch: int | str = 1):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Add", ["a", "w"], ["b"]),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [VALUE("x", TensorProto.FLOAT, [batch, 3])],
        [VALUE("y", TensorProto.FLOAT, [batch, 3])],
        [numpy_helper.from_array(np.float32([1, 1, 1]), "w")],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, ir_version=8, opset_imports=imports)


def put(folder, number, x=X, y=None):
    data = folder / f"test_data_set_{number}"
    data.mkdir()
    expected = -(np.maximum(x, 0) + 1) if y is None else y
    (data / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    (data / "output_0.pb").write_bytes(numpy_helper.from_array(expected).SerializeToString())
    return data


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "net"
    folder.mkdir()
    onnx.save(relu_chain(), folder / "model.onnx")
    return folder / "model.onnx"


def compiled(path, **options):
    options = CompileOptions(replicas=1, **options)
    return compile_model(path, "mcm4", options, output=path.parent.parent / "out")


def refused(path):
    with pytest.raises(CompileError) as caught:
        compiled(path)
    assert not (path.parent.parent / "out").exists()
    return caught.value.diagnostics[0]


def test_data_beside_the_model_are_compared_and_reported(model):
    put(model.parent, 1)
    put(model.parent, 0, -X)
    result = compiled(model)
    assert result.verification.data_sets == ("test_data_set_0", "test_data_set_1")
    assert [e.holds for e in result.verification.expected] == [True, True]
    assert result.verification.seeds == (0,)
    report = json.loads((result.folder / "report.json").read_text())
    assert report["verification"]["data_sets"] == ["test_data_set_0", "test_data_set_1"]
    assert report["options"]["test_data"] is True
    assert "1 random input and 2 data sets" in (result.folder / "report.md").read_text()
    assert str(model.parent) not in (result.folder / "report.json").read_text()


def test_outputs_that_the_data_do_not_expect_fail_the_compile(model):
    put(model.parent, 0, y=X)
    fault = refused(model)
    assert fault.code == "MCM-V022"
    assert "'y', 'test_data_set_0'" in fault.at
    assert "--no-test-data" in fault.hint
    assert compiled(model, test_data=False).verification.data_sets == ()


@pytest.mark.parametrize("damage", ["garbage", "folder", "pipe", "zero"])
def test_damaged_data_are_diagnosed(model, damage):
    file = put(model.parent, 0) / "input_0.pb"
    file.unlink()
    if damage == "garbage":
        file.write_bytes(b"version https://git-lfs.github.com/spec/v1")
    elif damage == "folder":
        file.mkdir()
    elif damage == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    fault = refused(model)
    assert fault.code == "MCM-V011"
    assert "input_0.pb" in fault.at
    assert "--no-test-data" in fault.hint


def left_out(result):
    (note,) = [d for d in result.diagnostics if d.code == "MCM-V024"]
    return note.message


def test_data_for_other_sizes_are_left_out(model):
    onnx.save(relu_chain("n"), model)
    put(model.parent, 0)
    put(model.parent, 1, np.repeat(X, 2, axis=0))
    result = compiled(model, dims={"n": 2})
    assert result.verification.data_sets == ("test_data_set_1",)
    assert "its shape is [1, 3], the model was compiled for [2, 3]" in left_out(result)


def test_data_beside_several_models_belong_to_none(model):
    put(model.parent, 0, y=X)
    onnx.save(relu_chain(), model.parent / "other.onnx")
    result = compiled(model)
    assert result.verification.data_sets == ()
    assert "1 further model" in left_out(result)


def test_many_and_large_data_are_cut(model, monkeypatch):
    for number in range(4):
        put(model.parent, number)
    monkeypatch.setattr(user_data, "MAX_SETS", 3)
    result = compiled(model)
    assert len(result.verification.data_sets) == 3
    assert left_out(result).startswith("1 data set next to the model not compared")
    size = (model.parent / "test_data_set_0" / "input_0.pb").stat().st_size
    monkeypatch.setattr(user_data, "MAX_BYTES", 4 * size)
    report = compile_model(model, "mcm4")
    assert len(report.verification.data_sets) in (1, 2)
    assert "data sets next to the model not compared" in left_out(report)


def test_the_command_line_switches_them_off_and_a_folder_of_models_has_them(model):
    put(model.parent, 0, y=X)
    other = model.parent.parent / "other"
    other.mkdir()
    onnx.save(relu_chain(), other / "model.onnx")
    put(other, 0)
    out = model.parent.parent / "all"
    arguments = ["compile", str(model), str(other / "model.onnx"), "--target", "mcm4", "-o"]
    failed = CliRunner().invoke(cli, [*arguments, str(out)])
    assert failed.exit_code == 1
    assert failed.output.count("error[MCM-V022]") == 1
    passed = CliRunner().invoke(cli, [*arguments, str(out), "--no-test-data", "--force"])
    assert passed.exit_code == 0, passed.output


def test_check_says_that_equality_was_not_checked(tmp_path):
    """A Reshape to a random shape runs on none of the random inputs."""
    nodes = [helper.make_node("Reshape", ["x", "s"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    graph = helper.make_graph(
        nodes, "g",
        [VALUE("x", TensorProto.FLOAT, [6]), VALUE("s", TensorProto.INT64, [2])],
        [VALUE("y", TensorProto.FLOAT, ["a", "b"])],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17)]
    onnx.save(
        helper.make_model(graph, ir_version=8, opset_imports=imports), tmp_path / "model.onnx"
    )
    out = tmp_path / "out"
    compile_model(tmp_path / "model.onnx", "mcm4", output=out)
    plain = CliRunner().invoke(cli, ["check", str(out)])
    assert plain.exit_code == 0
    assert "skip  equality" in plain.stdout
    assert "holds as far as it was checked: equality was not" in plain.stdout
    assert "warning[MCM-V021]" in plain.stderr
    strict = CliRunner().invoke(cli, ["check", str(out), "--strict", "--format", "json"])
    assert strict.exit_code == 3
    data = json.loads(strict.stdout)
    assert (data["holds"], data["complete"]) == (True, False)
    assert [s["name"] for s in data["steps"] if s["skipped"]] == ["equality"]
    assert [d["code"] for d in data["diagnostics"]] == ["MCM-V021", "MCM-U051"]
    given = {"x": np.arange(6, dtype=np.float32), "s": np.int64([2, 3])}
    np.savez(tmp_path / "x.npz", **given)
    own = CliRunner().invoke(cli, ["check", str(out), "--strict", "-i", str(tmp_path / "x.npz")])
    assert own.exit_code == 0, own.output
    assert own.stdout.endswith("out holds\n")
