"""Hostile files through the command line, with little memory and time to spare."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from mcm_compiler.api import compile_model
from mcm_compiler.diagnostics import CompileError
from tests.end_to_end.conftest import assert_told_alone

VALUE = helper.make_tensor_value_info
HEADER = '<ir_version: 10, opset_import: ["" : 17, "local" : 1]> '
CORPUS = sorted((Path(__file__).parents[1] / "data" / "fuzz_corpus").glob("*.onnx"))
ADDRESS_SPACE_BYTES = 6 << 30
SECONDS = 30
INTERNAL = {"MCM-U099", "MCM-X005", "MCM-X006", "MCM-X007", "MCM-P009", "MCM-V020"}


@pytest.fixture(scope="module")
def run(warm_mcmc):
    """Runs a command in a folder, within bounds of memory and of time."""

    def restrict():
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    def within(arguments, folder):
        return subprocess.run(
            [warm_mcmc, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=folder,
            check=False,
            preexec_fn=restrict,
            timeout=4 * SECONDS,
        )

    return within


@pytest.fixture
def assert_refused(run, tmp_path):
    """Says that a compile ends with one diagnostic and leaves nothing; returns its text."""

    def check(model, code, *arguments):
        path = tmp_path / "model.onnx"
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        before = sorted(os.listdir(tmp_path))
        out = tmp_path / "out"
        done = run(["compile", path, "--target", "mcm4", "-o", out, *arguments], tmp_path)
        assert_told_alone(done, code)
        assert sorted(os.listdir(tmp_path)) == before
        return done.stderr

    return check


def function(name, text):
    return f'\n<domain: "local", opset_import: ["" : 17, "local" : 1]> {name} (a) => (b) {{{text}}}'


def doubling(layers):
    text = "".join(
        function(f"F{i}", f"c = local.F{i + 1} (a) b = local.F{i + 1} (c)") for i in range(layers)
    )
    graph = "g (float[2,4] x) => (float[2,4] y) { y = local.F0 (x) }"
    return parser.parse_model(HEADER + graph + text + function(f"F{layers}", "b = Relu (a)"))


def terabyte(op):
    sizes = {"Tile": [2**20, 2**20], "Expand": [2**20, 2**20, 1, 1]}[op]
    nodes = [
        helper.make_node(op, ["x", "sizes"], ["wide"]),
        helper.make_node("ReduceMax", ["wide"], ["y"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [VALUE("x", TensorProto.FLOAT, [2, 4])],
        [VALUE("y", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(np.array(sizes, np.int64), "sizes")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weight_of(elements):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[elements])
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [VALUE("x", TensorProto.FLOAT, [1])],
        [VALUE("y", TensorProto.FLOAT, None)],
        [tensor],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


MISMATCH = parser.parse_model(
    HEADER + "g (float[2,4] x, int64[2,4] z) => (float[2,4] y) { y = Add (x, z) }"
)
MODELS = {
    "functions that expand to 2^26 nodes": ("MCM-I016", doubling(26)),
    "recursive functions": (
        "MCM-I015",
        parser.parse_model(
            HEADER
            + "g (float[2,4] x) => (float[2,4] y) { y = local.F (x) }"
            + function("F", "b = local.F (a)")
        ),
    ),
    "a weight of 2^40 elements": ("MCM-I023", weight_of(2**40)),
    "an activation of a terabyte by Tile": ("MCM-I034", terabyte("Tile")),
    "an activation of a terabyte by Expand": ("MCM-I034", terabyte("Expand")),
    "types that onnxruntime refuses": ("MCM-V001", MISMATCH),
}


@pytest.mark.parametrize("case", MODELS)
def test_hostile_model(case, assert_refused):
    code, model = MODELS[case]
    assert_refused(model, code)


def test_sizes_that_only_a_run_reveals(tmp_path, run):
    """The size comes out of the model's own arithmetic on its inputs."""
    model = parser.parse_model(
        HEADER + "g (float[1] x) => (float[n] y) {"
        " big = Constant <value_floats = [1.0e10]> () zero = Constant <value_floats = [0.0]> ()"
        " none = Mul (x, zero) size = Add (none, big) shape = Cast <to = 7> (size)"
        " y = Expand (x, shape) }"
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    done = run(["compile", path, "--target", "mcm4", "-o", tmp_path / "out"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning[MCM-V021]: equality was not checked" in done.stderr


def test_two_names_that_differ_only_in_what_a_file_name_drops(tmp_path, run):
    names = ["a/b", "a:b", "a\\b", "a b", "a\nb", "a?b"]
    nodes = [
        helper.make_node("MatMul", [before, before], [after], name=after)
        for before, after in zip(["x", *names[:-1]], names, strict=True)
    ]
    graph = helper.make_graph(
        nodes,
        "../../graph",
        [VALUE("x", TensorProto.FLOAT, [4, 4])],
        [VALUE(names[-1], TensorProto.FLOAT, [4, 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    out = tmp_path / "out"
    done = run(["compile", path, "--target", "mcm4", "--chips", "4", "-o", out], tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "out"]
    chips = [onnx.load(file) for file in sorted(out.glob("chip_*.onnx"))]
    assert [node.name for chip in chips for node in chip.graph.node] == names
    assert run(["check", out], tmp_path).returncode == 0


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_the_fuzzer_found(path, tmp_path):
    """Each of these once gave a stack trace, a hang, an internal error or a wrong result."""
    copy = tmp_path / "model.onnx"
    copy.write_bytes(path.read_bytes())
    errors = []
    try:
        compile_model(copy, "mcm4", output=tmp_path / "out")
    except CompileError as error:
        errors = [d for d in error.diagnostics if d.severity == "error"]
    assert not INTERNAL & {d.code for d in errors}
    assert all(d.at and d.hint for d in errors)
    left = {"model.onnx"} if errors else {"model.onnx", "out"}
    assert {entry.name for entry in tmp_path.iterdir()} == left
