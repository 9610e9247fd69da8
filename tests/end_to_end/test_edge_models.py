"""Models and command lines at the edge of what is allowed: the right result, or one diagnostic."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.run_folder import run_folder
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_model, same_bits
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions

VALUE = helper.make_tensor_value_info
X = VALUE("x", TensorProto.FLOAT, [4, 8])
FEEDS = {"x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)}


def node(op, inputs, outputs, **kwargs):
    return helper.make_node(op, inputs, outputs, **kwargs)


def chain(length=6, suffix=""):
    """Alternating MatMul and Tanh: values `h1` to `h<length>`, with a weight each."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for i in range(length):
        source = "x" if i == 0 else f"h{i}{suffix}"
        nodes.append(node("MatMul", [source, f"w{i}{suffix}"], [f"m{i}{suffix}"]))
        nodes.append(node("Tanh", [f"m{i}{suffix}"], [f"h{i + 1}{suffix}"]))
        array = rng.standard_normal((8, 8)).astype(np.float32) / 2
        weights.append(numpy_helper.from_array(array, f"w{i}{suffix}"))
    return nodes, weights


def model_of(nodes, outputs, weights=(), *, inputs=(X,), opset=17, ir_version=8):
    outputs = [VALUE(o, TensorProto.FLOAT, [4, 8]) if isinstance(o, str) else o for o in outputs]
    graph = helper.make_graph(nodes, "g", list(inputs), outputs, list(weights))
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version
    )


def long_skip():
    """A value that is read far away, by nodes whose names are those that relays would take."""
    nodes, weights = chain(8)
    nodes.append(node("Add", ["h8", "h1"], ["a"], name="h1/relay_1"))
    nodes.append(node("Mul", ["a", "x"], ["h1/relay_2"], name="h1/relay_2_2"))
    return model_of(nodes, ["h1/relay_2"], weights)


def if_with_captures():
    nodes, weights = chain()
    then = helper.make_graph(
        [node("Mul", ["h3", "h6"], ["t"])], "then", [], [VALUE("t", TensorProto.FLOAT, [4, 8])]
    )
    inner = numpy_helper.from_array(np.ones(8, np.float32), "inner")
    otherwise = helper.make_graph(
        [node("Add", ["x", "inner"], ["t"])],
        "else",
        [],
        [VALUE("t", TensorProto.FLOAT, [4, 8])],
        [inner],
    )
    zero = numpy_helper.from_array(np.float32(0), "zero")
    nodes += [
        node("ReduceSum", ["h6"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["condition"]),
        node("If", ["condition"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    return model_of(nodes, ["y"], [*weights, zero])


def outputs_of_every_kind():
    """A result, twice; an inner value; an input; a weight."""
    nodes, weights = chain()
    w2 = VALUE("w2", TensorProto.FLOAT, [8, 8])
    return model_of(nodes, ["h6", "h6", "h3", "x", w2], weights)


def weights_among_the_inputs():
    nodes, weights = chain()
    inputs = [X, *(VALUE(f"w{i}", TensorProto.FLOAT, [8, 8]) for i in range(6))]
    return model_of(nodes, ["h6"], weights, inputs=inputs, opset=7, ir_version=3)


def names_of_every_kind():
    nodes, weights = chain(suffix="/../\n\x1b[31m\u6a21|" + "q" * 10_000)
    return model_of(nodes, [nodes[-1].output[0]], weights)


def components():
    nodes, weights = chain(4)
    others, more = chain(4, "b")
    return model_of([*nodes, *others], ["h4", "h4b"], [*weights, *more])


def dead_branches():
    """An If that nothing reads, whose branches capture values that nothing else reads."""
    nodes, weights = chain()
    branch = helper.make_graph(
        [node("Neg", ["unread"], ["t"])], "branch", [], [VALUE("t", TensorProto.FLOAT, [4, 8])]
    )
    nodes += [
        node("Exp", ["h2"], ["unread"]),
        node("ReduceSum", ["h6"], ["sum"], keepdims=0),
        node("Cast", ["sum"], ["condition"], to=TensorProto.BOOL),
        node("If", ["condition"], ["dead"], then_branch=branch, else_branch=branch),
    ]
    return model_of(nodes, ["h6"], weights)


def constant_results():
    """Outputs that depend on no input, and one that does."""
    nodes, weights = chain()
    table = numpy_helper.from_array(np.ones((4, 8), np.float32), "table")
    constants = [node("Neg", ["table"], ["k1"]), node("Exp", ["k1"], ["k2"])]
    return model_of([*constants, *nodes], ["k2", "h6"], [*weights, table])


MODELS = [long_skip, if_with_captures, outputs_of_every_kind, weights_among_the_inputs,
          names_of_every_kind, components, dead_branches, constant_results]  # fmt: skip


@pytest.fixture
def compiled(tmp_path):
    """Compiles a model into a folder, and returns the path of the model and the folder."""

    def run(model, target="mcm4", **options):
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        folder = tmp_path / "out"
        compile_model(path, target, CompileOptions(**options), output=folder)
        return path, folder

    return run


@pytest.mark.parametrize(
    "options", [{}, {"partitioner": "dp{orders=1}"}, {"routing": "strict"}, {"chips": 2}], ids=str
)
@pytest.mark.parametrize("make", MODELS)
def test_the_folder_computes_what_the_file_does(compiled, make, options):
    path, folder = compiled(make(), **options)
    report = check_folder(folder)
    assert report.holds, report.diagnostics
    expected = run_model(path, FEEDS)
    actual = run_folder(folder, FEEDS)
    assert actual.keys() == expected.keys()
    assert all(same_bits(actual[name], expected[name]) for name in expected)


@pytest.fixture(scope="module")
def ends_only(tmp_path_factory):
    """A target whose host reaches the first and the last chip only."""
    text = load_target("mcm4").source_text
    assert 'host_io = "any"' in text
    path = tmp_path_factory.mktemp("target") / "ends.toml"
    path.write_text(text.replace('host_io = "any"', 'host_io = "ends"'))
    return str(path)


@pytest.mark.parametrize("make", MODELS)
def test_a_host_at_the_ends_of_the_ring(compiled, ends_only, make):
    path, folder = compiled(make(), target=ends_only)
    report = check_folder(folder)
    assert report.holds, report.diagnostics
    expected = run_model(path, FEEDS)
    actual = run_folder(folder, FEEDS)
    assert all(same_bits(actual[name], expected[name]) for name in expected)


def test_a_chip_that_makes_nothing_but_a_constant_sends_it(compiled, ends_only):
    nodes, weights = chain(3)
    nodes[0].input[0] = "table"
    table = numpy_helper.from_array(FEEDS["x"], "table")
    path, folder = compiled(model_of(nodes, ["m0", "m1", "m2"], [*weights, table]), ends_only)
    assert len(list(folder.glob("chip_*.onnx"))) > 1
    found = check_folder(folder)
    assert found.holds, found.diagnostics
    expected = run_model(path, FEEDS)
    actual = run_folder(folder, FEEDS)
    assert all(same_bits(actual[name], expected[name]) for name in expected)


@pytest.mark.parametrize("size", [10**9, 10**18 - 1])
def test_a_dimension_beyond_all_memory(compiled, size):
    nodes, weights = chain()
    x = VALUE("x", TensorProto.FLOAT, ["batch", 8])
    y = VALUE("h6", TensorProto.FLOAT, ["batch", 8])
    with pytest.raises(CompileError) as caught:
        compiled(model_of(nodes, [y], weights, inputs=[x]), dims={"batch": size})
    assert [d.code for d in caught.value.diagnostics] == ["MCM-I034"]


@pytest.mark.parametrize("after", ["legalize", "split", "lower", "emit", "verify"])
def test_a_graph_that_changes_after_its_placement_is_placed_again(compiled, after):
    """`simplify` takes the relays out, and nothing that was derived from them may be written."""
    passes = DEFAULT_PIPELINE.replace(after, f"{after},simplify")
    path, folder = compiled(long_skip(), passes=passes, replicas=1, round=1)
    assert check_folder(folder).holds
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    note, *_ = (d for d in report["diagnostics"] if d["code"] == "MCM-X010")
    assert "pass 'simplify' changed the graph" in note["message"]
    assert report["verification"]["outputs"]
    expected, actual = run_model(path, FEEDS), run_folder(folder, FEEDS)
    assert all(same_bits(actual[name], expected[name]) for name in expected)


def test_a_legal_graph_is_legalized_once(compiled):
    passes = DEFAULT_PIPELINE.replace("legalize", "legalize,legalize")
    _, folder = compiled(long_skip(), passes=passes)
    assert check_folder(folder).holds


def test_what_was_noticed_before_a_failure_is_told_with_it(compiled):
    mystery = helper.make_node("Mystery", ["x"], ["a"], domain="acme")
    nodes = [mystery, node("Relu", ["a"], ["y"])]
    model = model_of(nodes, ["y"])
    model.opset_import.append(helper.make_opsetid("acme", 1))
    model.graph.output[0].ClearField("type")
    with pytest.raises(CompileError) as caught:
        compiled(model)
    error, *warnings = caught.value.diagnostics
    assert error.code == "MCM-P012"
    (reason,) = [d.message for d in warnings if d.code == "MCM-I040"]
    assert "acme:Mystery" in reason


def test_output_of_a_compile_is_input_of_another(compiled, tmp_path):
    _, folder = compiled(long_skip())
    again = tmp_path / "again"
    compile_model(folder / "annotated.onnx", "mcm4", output=again)
    assert check_folder(again).holds
    compile_model(folder / "annotated.onnx", "mcm4", output=folder, force=True)
    assert check_folder(folder).holds


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_compile_that_is_stopped_leaves_nothing(tmp_path, number):
    plugin = tmp_path / "waiting.py"
    plugin.write_text(WAITING)
    nodes, weights = chain()
    onnx.save(model_of(nodes, ["h6"], weights), tmp_path / "model.onnx")
    before = sorted(os.listdir(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-m", "mcm_compiler", "compile", "model.onnx", "-o", "out",
         "--target", "mcm4", "--plugin", "waiting.py", "--passes", f"{DEFAULT_PIPELINE},wait"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (tmp_path / "reached").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    (tmp_path / "reached").unlink()
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert sorted(name for name in os.listdir(tmp_path) if name != "__pycache__") == before


WAITING = """
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mcm_compiler.pipeline.passes import Pass
from mcm_compiler.registry import register


@register("pass")
@dataclass(frozen=True)
class Wait(Pass):
    name: ClassVar[str] = "wait"
    summary: ClassVar[str] = "wait to be stopped"

    def run(self, model, context):
        Path("reached").touch()
        time.sleep(60)
"""
