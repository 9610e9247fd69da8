from __future__ import annotations

import numpy as np
import onnx
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution import piecewise, runner
from mcm_compiler.execution.piecewise import PiecewiseSession, open_large, pieces_of, run_large
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


@pytest.mark.parametrize("once", [False, True])
def test_a_piece_is_opened_once_for_all_inputs_of_a_run(tmp_path, monkeypatch, once):
    monkeypatch.setattr(piecewise, "LEAST_OPS", 1)
    monkeypatch.setattr(piecewise, "PIECE_OPS", 2)
    opened: list[object] = []

    def opening(*args, **options):
        opened.append(args)
        return runner.open_session(*args, **options)

    monkeypatch.setattr(piecewise, "open_session", opening)
    session = open_large(written(tmp_path, BRANCHES, external=True), once=once)
    assert len(opened) == (0 if once else 3)
    feeds = {"x": np.ones((4, 8), np.float32), "c": np.array(True)}
    first, second = run_large(session, [feeds, feeds])
    assert len(opened) == 3
    assert all(same_bits(first[name], second[name]) for name in first)


def test_pieces_are_small_and_hold_only_weights_that_they_read(tmp_path):
    pieces = list(pieces_of(onnx.load(written(tmp_path, SKIPS)), 2))
    assert [len(piece.graph.node) for piece in pieces] == [2, 2, 2]
    assert [[t.name for t in piece.graph.initializer] for piece in pieces] == [
        ["w", "parts"],
        [],
        [],
    ]


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
