"""Bad input through the command line: a diagnostic, exit 1, and nothing left behind."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.ir.rewriting.writer import write_with_data
from mcm_models.zoo.bert import BertTiny
from tests.end_to_end.conftest import assert_told_alone

VALUE = helper.make_tensor_value_info


def node(op, inputs, outputs, **kwargs):
    return helper.make_node(op, inputs, outputs, **kwargs)


def model_of(nodes, *, initializers=(), opset=17, inputs=None, outputs=None):
    graph = helper.make_graph(
        nodes,
        "g",
        inputs or [VALUE("x", TensorProto.FLOAT, [1, 8])],
        outputs if outputs is not None else [VALUE("y", TensorProto.FLOAT, None)],
        list(initializers),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.fixture(scope="module")
def compile_file(warm_mcmc):
    """Compiles a file in its folder; no file that is written may exceed `limit_bytes`."""

    def run(path, *arguments, limit_bytes=None):
        def restrict():
            if limit_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

        return subprocess.run(
            [warm_mcmc, "compile", str(path), "-o", str(path.parent / "out"), *arguments],
            capture_output=True,
            text=True,
            cwd=path.parent,
            check=False,
            preexec_fn=restrict,
        )

    return run


@pytest.fixture(scope="module")
def assert_refused(compile_file):
    """Says that a compile ends with one diagnostic and leaves nothing; returns its text."""

    def check(path, code, *arguments, **kwargs):
        before = sorted(os.listdir(path.parent)) if path.parent.exists() else []
        done = compile_file(path, *arguments, **kwargs)
        assert_told_alone(done, code)
        assert sorted(os.listdir(path.parent)) == before
        return done.stderr

    return check


def weight(name, array):
    return numpy_helper.from_array(np.asarray(array, np.float32), name)


def external(location):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[8])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return model_of([node("Add", ["x", "w"], ["y"])], initializers=[tensor])


RELU = node("Relu", ["x"], ["y"])
GOOD = model_of([RELU])
MODELS = {
    "cycle": ("MCM-I012", model_of([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]),
                                    node("Relu", ["b"], ["y"])])),
    "missing external data": ("MCM-I020", external("nowhere.data")),
    "escaping external data": ("MCM-I021", external("../../etc/passwd")),
    "absolute external data": ("MCM-I021", external("/etc/passwd")),
    "undefined name": ("MCM-I011", model_of([node("Add", ["x", "ghost"], ["y"])])),
    "duplicate name": ("MCM-I010", model_of([RELU, node("Neg", ["x"], ["y"])])),
    "future opset": ("MCM-I005", model_of([RELU], opset=99)),
    "empty graph": ("MCM-I004", model_of([], outputs=[])),
    "NaN weights": ("MCM-I024", model_of([node("Add", ["x", "w"], ["y"])],
                                         initializers=[weight("w", [np.nan] * 8)])),
    "open dimension": ("MCM-I030", model_of([RELU], inputs=[VALUE("x", TensorProto.FLOAT,
                                                                  ["batch", 8])])),
}  # fmt: skip


@pytest.mark.parametrize("case", MODELS)
def test_bad_model(case, tmp_path, assert_refused):
    code, model = MODELS[case]
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert_refused(path, code)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "MCM-I002"),
        (b"not protobuf at all", "MCM-I003"),
        (GOOD.SerializeToString()[:-20], "MCM-I003"),
    ],
    ids=["empty", "not protobuf", "truncated"],
)
def test_bad_file(content, code, tmp_path, assert_refused):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert_refused(path, code)


def test_missing_file(tmp_path, assert_refused):
    assert_refused(tmp_path / "model.onnx", "MCM-I001")


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(GOOD.SerializeToString())
    return path


def test_unknown_target_offers_the_nearest(good, assert_refused):
    assert "mcm36" in assert_refused(good, "MCM-U003", "--target", "mcm35")


def test_more_chips_than_ops(good, assert_refused):
    message = assert_refused(good, "MCM-P013", "--chips", "8", "--replicas", "1")
    assert "8 chips" in message


def test_output_folder_exists(good, assert_refused):
    (good.parent / "out").mkdir()
    assert "--force" in assert_refused(good, "MCM-A001")


def test_output_folder_below_a_file(good, assert_refused):
    (good.parent / "out").write_text("a file")
    assert_refused(good, "MCM-A001")


def test_one_op_with_more_weights_than_a_chip(tmp_path, assert_refused):
    # 40 million elements are 76 MiB at two bytes, in a file of a few hundred bytes.
    nodes = [node("ConstantOfShape", ["s"], ["w"]), node("Add", ["x", "w"], ["y"], name="big")]
    sizes = numpy_helper.from_array(np.array([5_000_000, 8], np.int64), "s")
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of(nodes, initializers=[sizes]).SerializeToString())
    message = assert_refused(path, "MCM-P003")
    assert "76.3 MiB" in message
    assert "'big'" in message


def test_full_disk(tmp_path, compile_file, assert_refused):
    path = tmp_path / "model.onnx"
    write_with_data(BertTiny().build(), path, None)
    little = ("--target", "mcm4", "-O0")
    # Kernels that are not compiled yet cannot be kept under such a limit, either.
    assert compile_file(path, *little).returncode == 0
    shutil.rmtree(path.parent / "out")
    message = assert_refused(path, "MCM-A002", *little, limit_bytes=1 << 20)
    assert "cannot be written" in message


def test_json_format_puts_the_diagnostics_on_stdout(tmp_path, compile_file):
    import json

    done = compile_file(tmp_path / "model.onnx", "--format", "json")
    assert done.returncode == 1
    (fault,) = json.loads(done.stdout)["diagnostics"]
    assert fault["code"] == "MCM-I001"


def test_usage_errors_exit_with_two(good, compile_file):
    for arguments in (["--dim", "batch"], ["--shape", "x=a,b"], ["--budget", "fast"], ["--nope"]):
        assert compile_file(good, *arguments).returncode == 2


def test_good_model_compiles(good, compile_file):
    done = compile_file(good)
    assert done.returncode == 0, done.stderr
    assert (good.parent / "out" / "manifest.json").is_file()
    assert onnx.load(good.parent / "out" / "chip_00.onnx").graph.node[0].op_type == "Relu"
