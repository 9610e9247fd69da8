from __future__ import annotations

import numpy as np
import onnx
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution import piecewise, runner
from mcm_compiler.execution.piecewise import Pieces, PiecewiseSession, open_large, run_large
from mcm_compiler.execution.runner import run_model, same_bits

HEADER = '<ir_version: 9, opset_import: ["" : 17]>'

BRANCHES = """
g (float[4,8] x, bool c) => (float[4,8] z, float[4,8] early)
<float[8,8] w, float[4,8] a, float[4,8] early, float[4,8] d, float[4,8] e> {
  a = MatMul (x, w)
  early = Tanh (a)
  d = If (c) <
    then_branch = yes () => (float[4,8] t) { t = Add (early, a) },
    else_branch = no () => (float[4,8] f) { f = MatMul (x, w) }
  >
  e = Sub (d, x)
  z = Mul (e, early)
}
"""

SKIPS = """
g (float[4,8] x) => (float[4,8] z)
<float[8,8] w, float[4,8] a, float[4,4] b, float[4,8] s, float[4,8] u, int64[4] i, float[4,8] d> {
  a = MatMul (x, w)
  s, u = Split <axis = 0> (a, parts)
  d = Concat <axis = 0> (s, u)
  i = ArgMax <axis = 1, keepdims = 0> (d)
  b = Gather <axis = 1> (d, i)
  z = MatMul (b, x)
}
"""


def written(folder, text: str, *, external: bool = False):
    model = onnx.parser.parse_model(HEADER + text)
    weight = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    for value in list(model.graph.value_info):
        if value.name == "w" or ("Split" in text and value.name in "su"):
            model.graph.value_info.remove(value)
    if "Split" in text:
        parts = onnx.numpy_helper.from_array(np.array([1, 3]), "parts")
        model.graph.initializer.append(parts)
        for name, rows in (("s", 1), ("u", 3)):
            info = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [rows, 8])
            model.graph.value_info.append(info)
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=external, size_threshold=100, location="data")
    return path


@pytest.mark.parametrize("text", [BRANCHES, SKIPS])
@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize(("ops", "kept"), [(1, 9), (1, 0), (2, 0), (3, 9)])
def test_pieces_compute_what_the_model_computes(tmp_path, monkeypatch, text, external, ops, kept):
    path = written(tmp_path, text, external=external)
    monkeypatch.setattr(piecewise, "LEAST_OPS", 1)
    monkeypatch.setattr(piecewise, "PIECE_OPS", ops)
    monkeypatch.setattr(piecewise, "KEPT_OPS", kept)
    session = open_large(path)
    assert isinstance(session, PiecewiseSession)
    batches = [
        {
            "x": np.random.default_rng(seed).standard_normal((4, 8)).astype(np.float32),
            "c": np.array(seed == 0),
        }
        for seed in range(2)
    ]
    for feeds, found in zip(batches, run_large(session, batches), strict=True):
        whole = run_model(path, feeds)
        assert whole.keys() == found.keys()
        assert all(same_bits(whole[name], found[name]) for name in whole)
        last = list(whole)[:1]
        assert list(run_large(session, [feeds], last)[0]) == last


@pytest.mark.parametrize("kept", [0, 9])
@pytest.mark.parametrize("what", ["inner", "output", "kernel"])
def test_what_onnxruntime_refuses_as_a_whole_it_refuses_in_pieces(
    tmp_path, monkeypatch, what, kept
):
    path = written(tmp_path, BRANCHES)
    model = onnx.load(path)
    if what == "kernel":
        model.graph.node[1].op_type = "Nothing"
    else:
        info = model.graph.output[0] if what == "output" else model.graph.value_info[0]
        info.type.tensor_type.elem_type = onnx.TensorProto.INT32
    onnx.save(model, path)
    feeds = {"x": np.ones((4, 8), np.float32), "c": np.array(True)}
    with pytest.raises(CompileError, match="MCM-V001"):
        run_model(path, feeds)
    monkeypatch.setattr(piecewise, "LEAST_OPS", 1)
    monkeypatch.setattr(piecewise, "PIECE_OPS", 2)
    monkeypatch.setattr(piecewise, "KEPT_OPS", kept)
    with pytest.raises(CompileError, match="MCM-V001"):
        run_large(open_large(path), [feeds])


def opened_by(monkeypatch) -> list[object]:
    """What sessions are opened from."""
    opened: list[object] = []

    def opening(*args, **options):
        opened.append(args[0])
        return runner.open_session(*args, **options)

    monkeypatch.setattr(piecewise, "open_session", opening)
    return opened


def test_a_piece_is_opened_once_for_all_inputs(tmp_path, monkeypatch):
    monkeypatch.setattr(piecewise, "LEAST_OPS", 1)
    monkeypatch.setattr(piecewise, "PIECE_OPS", 2)
    opened = opened_by(monkeypatch)
    session = open_large(written(tmp_path, BRANCHES, external=True))
    feeds = {"x": np.ones((4, 8), np.float32), "c": np.array(True)}
    first, second = run_large(session, [feeds, feeds])
    again = run_large(session, [feeds])[0]
    assert len(opened) == 3
    assert all(same_bits(first[name], second[name]) for name in first)
    assert all(same_bits(first[name], again[name]) for name in first)


def layers(folder, op: str, *, external: bool = False, size: int = 8):
    """Eight layers of three ops, with weights of their own."""
    rng = np.random.default_rng(1)
    nodes, weights = [], []
    for k in range(8):
        matrix = rng.standard_normal((size, size)).astype(np.float32)
        bias = rng.standard_normal(size).astype(np.float32) + 3
        weights += [
            onnx.numpy_helper.from_array(matrix, f"w{k}"),
            onnx.numpy_helper.from_array(bias, f"b{k}"),
        ]
        nodes += [
            onnx.helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"m{k}"], name=f"product {k}"),
            onnx.helper.make_node(op, [f"m{k}", f"b{k}"], [f"s{k}"]),
            onnx.helper.make_node("Tanh", [f"s{k}"], [f"x{k + 1}"]),
        ]
    value = onnx.helper.make_tensor_value_info
    kind = (onnx.TensorProto.FLOAT, [2, size])
    made = [name for node in nodes for name in node.output]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [value("x0", *kind)],
        [value("x8", *kind)],
        weights,
        value_info=[value(name, *kind) for name in made[:-1]],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 9
    path = folder / "layers.onnx"
    onnx.save(model, path, save_as_external_data=external, size_threshold=0, location="data")
    return path


@pytest.mark.parametrize(
    ("op", "ops", "sessions"),
    [("Add", 3, 1), ("Add", 6, 1), ("Add", 2, 3), ("Div", 3, 1), ("Pow", 3, 8)],
)
@pytest.mark.parametrize("external", [False, True])
def test_layers_that_differ_in_weights_share_a_session(
    tmp_path, monkeypatch, op, ops, sessions, external
):
    monkeypatch.setattr(piecewise, "LEAST_OPS", 1)
    monkeypatch.setattr(piecewise, "PIECE_OPS", ops)
    path = layers(tmp_path, op, external=external)
    opened = opened_by(monkeypatch)
    feeds = {"x0": np.random.default_rng(2).standard_normal((2, 8)).astype(np.float32) ** 2}
    (found,) = run_large(open_large(path), [feeds])
    assert len(opened) == sessions
    assert same_bits(found["x8"], run_model(path, feeds)["x8"])


def test_few_sessions_stay_open(tmp_path, monkeypatch):
    monkeypatch.setattr(piecewise, "LEAST_OPS", 1)
    monkeypatch.setattr(piecewise, "PIECE_OPS", 3)
    monkeypatch.setattr(piecewise, "KEPT_OPS", 6)
    opened = opened_by(monkeypatch)
    session = open_large(layers(tmp_path, "Pow"))
    feeds = {"x0": np.ones((2, 8), np.float32)}
    run_large(session, [feeds])
    assert len(session._open) == 2
    run_large(session, [feeds])
    assert len(opened) == 16


def test_a_refused_layer_is_named(tmp_path, monkeypatch):
    path = layers(tmp_path, "Add")
    model = onnx.load(path)
    model.graph.node[9].op_type = "Nothing"
    onnx.save(model, path)
    monkeypatch.setattr(piecewise, "LEAST_OPS", 1)
    monkeypatch.setattr(piecewise, "PIECE_OPS", 3)
    with pytest.raises(CompileError, match="product 3"):
        run_large(open_large(path), [{"x0": np.ones((2, 8), np.float32)}])


def test_pieces_are_small_and_hold_only_weights_that_they_read(tmp_path):
    pieces = Pieces(onnx.load(written(tmp_path, SKIPS)), 2)
    named = [pieces.named(k).model.graph for k in range(len(pieces.chunks))]
    assert [len(graph.node) for graph in named] == [2, 2, 2]
    assert [[t.name for t in graph.initializer] for graph in named] == [["w", "parts"], [], []]


@pytest.mark.parametrize(
    "change",
    [
        lambda graph: graph.value_info.pop(),
        lambda graph: graph.input.append(
            onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [8, 8])
        ),
        lambda graph: graph.value_info[0].type.tensor_type.__setattr__(
            "elem_type", onnx.TensorProto.FLOAT16
        ),
    ],
    ids=["a type unknown", "a weight that may be given", "16-bit floats"],
)
def test_models_that_a_cut_may_change_stay_whole(tmp_path, monkeypatch, change):
    monkeypatch.setattr(piecewise, "LEAST_OPS", 1)
    opened: list[object] = []
    monkeypatch.setattr(piecewise, "open_session", opened.append)
    path = written(tmp_path, BRANCHES)
    model = onnx.load(path)
    change(model.graph)
    onnx.save(model, path)
    open_large(path)
    assert opened == [path]
