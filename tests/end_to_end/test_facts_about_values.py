"""Shapes of the user's model come from inference and one run, never from what its file claims."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from mcm_compiler.api import CompileResult, compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.diagnostics import CompileError, Severity
from mcm_compiler.options import CompileOptions

HEAD = '<ir_version: 8, opset_import: ["" : 17, "local" : 1, "com.microsoft" : 1]>\n'

# A shape that onnx's inference does not compute: x is [4, 8, 1], from pads that a Reshape makes.
PADDED = """
    flat = Constant <value_ints = [-1]> ()
    turned = Transpose <perm = [1, 0]> (pairs)
    pads = Reshape (turned, flat)
    x = Pad (raw, pads)
"""
PAIRS = "int64[3,2] pairs = {0, 0, 0, 2, 0, 0}, int64 two = {2}, float[8,8] w"
BY_RANK = """
    NAME_s = Shape (READ)  NAME_r = Size (NAME_s)  NAME_c = Equal (NAME_r, two)
    WRITE = If (NAME_c) <
        then_branch = NAME_t () => (p) { p = MatMul (READ, w) },
        else_branch = NAME_e () => (q) { zero = Constant <value_ints = [0]> ()
            q = ReduceSum (READ, zero) }>
"""
SQUEEZED = """
    s = Shape (x)  last = Constant <value_ints = [-1]> ()  one = Constant <value_ints = [1]> ()
    d = Gather (s, last)  c = Equal (d, one)
    y = If (c) <
        then_branch = t () => (p) { p = Squeeze (x, last) },
        else_branch = e () => (q) { q = Identity (x) }>
"""
MEL = "f = STFT (wave, hop, win)  p = ReduceSumSquare <axes = [-1], keepdims = 0> (f)"
MEL_WEIGHTS = "int64 hop = {16}, float[32] win, float[17,5] bank"


def by_rank(name: str, read: str, write: str) -> str:
    return BY_RANK.replace("NAME", name).replace("READ", read).replace("WRITE", write)


MODELS: dict[str, tuple[str, Mapping[str, tuple[int, ...]]]] = {
    "nested branches decided by a shape of a run": (
        f"m (float[4,6,1] raw) => (o) <{PAIRS}> {{ {PADDED} {SQUEEZED}"
        f" {by_rank('i', 'y', 'z')} o = Sigmoid (z) }}",
        {},
    ),
    "such branches within a branch that sizes decide": (
        f"m (float[n,6,1] raw) => (o) <{PAIRS}> {{ n_s = Shape <start = 0, end = 1> (raw)"
        " n_4 = Constant <value_ints = [4]> ()  n_c = Equal (n_s, n_4)"
        f" z = If (n_c) < then_branch = nt () => (u) {{ {PADDED} {SQUEEZED}"
        f" {by_rank('i', 'y', 'u')} }}, else_branch = ne () => (v) {{ v = MatMul (raw, w) }}>"
        " o = Sigmoid (z) }",
        {"raw": (4, 6, 1)},
    ),
    "such branches in a function": (
        f"m (float[4,6,1] raw) => (o) <{PAIRS}> {{ z = local.f (raw, pairs, two, w)"
        ' o = Sigmoid (z) }\n<domain: "local", opset_import: ["" : 17]>\n'
        f"f (raw, pairs, two, w) => (z) {{ {PADDED} {SQUEEZED} {by_rank('i', 'y', 'z')} }}",
        {},
    ),
    "a branch decided by the size of an expanded range": (
        "m (float[4,8] x) => (o) <int64 zero = {0}, int64 two = {2}, int64 step = {1},"
        " int64[2] four = {4, 1}, float[8,8] w>"
        " { r = Range (zero, two, step)  e = Expand (r, four)  n = Size (e)"
        " big = Constant <value_int = 5> ()  c = Greater (n, big)"
        " y = If (c) < then_branch = t () => (p) { p = MatMul (x, w) },"
        " else_branch = f () => (q) { q = Concat <axis = 2> (x, w) }> o = Relu (y) }",
        {},
    ),
    "STFT in front of a product": (
        f"m (float[1,320] wave) => (float[1,t,5] o) <{MEL_WEIGHTS}>"
        f" {{ {MEL}  o = MatMul (p, bank) }}",
        {},
    ),
    "STFT of open sizes": (
        f"m (float[b,n] wave) => (float[b,t,5] o) <{MEL_WEIGHTS}>"
        f" {{ {MEL}  o = MatMul (p, bank) }}",
        {"wave": (1, 320)},
    ),
    "STFT in a branch that data decide": (
        f"m (float[1,320] wave, bool c) => (o) <{MEL_WEIGHTS}> {{ y = If (c) <"
        f" then_branch = t () => (a) {{ {MEL}  a = MatMul (p, bank) }},"
        " else_branch = e () => (z) { i = Constant <value_ints = [1, 19, 5]> ()"
        " z = ConstantOfShape (i) }> o = Relu (y) }",
        {},
    ),
    "a false claim behind an op that onnx does not know": (
        "m (float[4,8] x) => (float[4,9] o) <float[8,8] w, float[4,9] b, float[9,4] u>"
        " { a = Relu (x)  b = com.microsoft.FusedMatMul (a, w)  d = MatMul (b, w)  o = Neg (d) }",
        {},
    ),
    "a false claim behind a slice of computed length": (
        "m (float[4,8] x) => (o) <int64[1] zero = {0}, int64[1] two = {2}, float[8,8] w,"
        " float[4,3] y, float[2,3] u> { n = Mul (two, two)  y = Slice (x, zero, n, zero)"
        " u = MatMul (y, w)  o = Relu (u) }",
        {},
    ),
    "one symbol with two sizes": (
        "m (float[r,c] frame, float[r,c] state) => (float[r,c] o) <float[8,8] w>"
        " { f = MatMul (frame, w)  n = Add (f, state)  o = Relu (n) }",
        {"frame": (4, 8), "state": (1, 1)},
    ),
    "dimensions of one name in one input": (
        "m (float[unk,unk] a) => (float[unk,unk] o) <float[8,8] w>"
        " { f = MatMul (a, w)  o = Relu (f) }",
        {"a": (4, 8)},
    ),
    "a branch not taken has no sense for the sizes": (
        "m (float[3,n,4] x) => (o) <int64 one = {1}, int64[1] axis = {1}> { a = Relu (x)"
        " s = Shape (a)  d = Gather (s, one)  c = Equal (d, one)"
        " y = If (c) < then_branch = t () => (p) { p = Squeeze (a, axis) },"
        " else_branch = e () => (q) { q = Identity (a) }> o = Exp (y) }",
        {"x": (3, 2, 4)},
    ),
    "a branch that data decide has no sense for the sizes": (
        "m (float[3,n,4] x, bool c) => (o) <int64[1] axis = {1}, float[4,4] w> { a = Relu (x)"
        " y = If (c) < then_branch = t () => (p) { b = Squeeze (a, axis) d = MatMul (b, w)"
        " p = Unsqueeze (d, axis) },"
        " else_branch = e () => (q) { q = MatMul (a, w) }> o = Exp (y) }",
        {"x": (3, 2, 4)},
    ),
    "such a branch behind a shape of a run": (
        f"m (float[4,6,1] raw, bool c) => (o) <{PAIRS}, int64[1] axis = {{1}}> {{ {PADDED}"
        " y = If (c) < then_branch = t () => (p) { b = Squeeze (x, axis)"
        " p = Unsqueeze (b, axis) },"
        " else_branch = e () => (q) { q = Neg (x) }> o = Exp (y) }",
        {},
    ),
    "such a branch in the body of a loop": (
        "m (float[3,n,4] x, bool go) => (o) <int64[1] axis = {1}, int64 three = {3}, bool on = {1}>"
        " { a = Relu (x)  y = Loop (three, on, a) < body = b (int64 i, bool k, float[3,n,4] s)"
        " => (bool k2, float[3,n,4] s2) { k2 = Identity (k)  u = If (go) <"
        " then_branch = t () => (p) { v = Squeeze (a, axis) p = Unsqueeze (v, axis) },"
        " else_branch = e () => (q) { q = Identity (a) }> s2 = Add (s, u) }> o = Exp (y) }",
        {"x": (3, 2, 4)},
    ),
}


def saved(path: Path, text: str) -> Path:
    """The model of `text`, with seeded values in the weights that it only declares."""
    proto = onnx.parser.parse_model(HEAD + text)
    rng = np.random.default_rng(0)
    made = {name for node in proto.graph.node for name in node.output}
    held = {tensor.name for tensor in proto.graph.initializer}
    for info in list(proto.graph.value_info):
        if info.name in made or info.name in held:
            continue
        sizes = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        weight = rng.standard_normal(sizes, dtype=np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(weight, info.name))
        proto.graph.value_info.remove(info)
    for output in proto.graph.output:
        output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    onnx.save(proto, path)
    return path


def compiled(path: Path, shapes: Mapping[str, tuple[int, ...]], out: Path) -> CompileResult:
    options = CompileOptions(level=0, replicas=1, inferences=4, shapes=dict(shapes))
    return compile_model(path, "mcm4", options, output=out)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_onnxruntime_runs_compiles_and_both_checks_agree(
    name: str, tmp_path: Path
) -> None:
    text, shapes = MODELS[name]
    path = saved(tmp_path / "m.onnx", text)
    result = compiled(path, shapes, tmp_path / "out")
    assert all(d.severity is Severity.NOTE for d in result.diagnostics), result.diagnostics
    assert result.verification is not None
    assert result.verification.outputs
    assert result.verification.holds
    for model in (path, None):
        report = check_folder(tmp_path / "out", seeds=(0,), model=model)
        assert report.holds, report.diagnostics
        assert report.complete
        assert report.structure is not None
        assert report.structure.whole


SHARED = """m (float[1,4,8] x) => (o) <float[8,8] w, int64[1] two = {2}, int64[1] axis = {2},
    int64[1] zero = {0}, int64[2] square = {8, 8}, int64 at = {2}> {
    VIEWS  s = Shape (y)  n = Gather (s, at)  r = Reshape (n, zero_d)  f = Cast <to = 1> (r)
    c = Ceil (f)  h = Cast <to = 7> (c)  k = Div (h, two)
    a = Slice (y, zero, k, axis)  b = Slice (y, k, h, axis)  o = Mul (a, b) }"""


@pytest.mark.parametrize("view", ["Identity (w)", "Reshape (w, square)", "Transpose (w)"])
def test_forms_of_weights_take_little_memory_of_a_run(
    view: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """80 forms of a weight, and shapes that only a run finds, within the bytes of few."""
    from mcm_compiler.ir.shapes import shapes_by_run

    chain = "zero_d = Constant <value_ints = [-1]> ()  y0 = Identity (x) "
    for k in range(80):
        chain += f"w{k} = {view} "
    for k in range(80):
        chain += f"m{k} = MatMul (y{k}, w{k})  y{k + 1} = Tanh (m{k}) "
    path = saved(tmp_path / "m.onnx", SHARED.replace("VIEWS", chain + "y = Tanh (y80) "))
    monkeypatch.setattr(shapes_by_run, "MAX_RUN_BYTES", 40 * 8 * 8 * 4)
    result = compiled(path, {}, tmp_path / "out")
    assert [d.code for d in result.diagnostics] == ["MCM-I041"]
    assert check_folder(tmp_path / "out", seeds=(0,), model=path).holds
    # Where no run is possible, no figure is made up.
    monkeypatch.setattr(shapes_by_run, "MAX_RUN_BYTES", 64)
    with pytest.raises(CompileError) as refused:
        compiled(path, {}, tmp_path / "none")
    assert [d.code for d in refused.value.diagnostics if d.severity is Severity.ERROR] == [
        "MCM-I040"
    ]


IMPOSSIBLE = {
    "product": ("m (float[1,n] x) => (o) <float[8,8] w> { o = MatMul (x, w) }", (1, 7)),
    "convolution of other channels": (
        "m (float[1,n,5,8] x) => (o) <float[4,3,3,3] w> { o = Conv (x, w) }",
        (1, 4, 5, 8),
    ),
    "reshape": (
        "m (float[n,6] x) => (o) <int64[2] s = {4, -1}> { y = Relu (x) o = Reshape (y, s) }",
        (3, 6),
    ),
    "concatenation within a taken branch": (
        "m (float[2,n] x) => (o) <float[2,8,1] w, int64 two = {2}> { s = Shape (x) r = Size (s)"
        " c = Equal (r, two) o = If (c) < then_branch = t () => (p)"
        " { p = Concat <axis = 0> (x, w) }, else_branch = e () => (q) { q = Relu (x) }> }",
        (2, 8),
    ),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_sizes_with_which_no_data_run_are_an_error(name: str, tmp_path: Path) -> None:
    text, shape = IMPOSSIBLE[name]
    path = saved(tmp_path / "m.onnx", text)
    with pytest.raises(CompileError) as refused:
        compiled(path, {"x": shape}, tmp_path / "out")
    errors = [d for d in refused.value.diagnostics if d.severity is Severity.ERROR]
    assert [d.code for d in errors] == ["MCM-I058"]
    assert str(shape[-1]) in (errors[0].at or "")
    assert not (tmp_path / "out").exists()


def test_a_model_that_runs_on_some_data_alone_still_compiles(tmp_path: Path) -> None:
    text = "m (float[12] x, int64[2] s) => (float[a,b] o) { y = Reshape (x, s) o = Relu (y) }"
    result = compiled(saved(tmp_path / "m.onnx", text), {}, tmp_path / "out")
    assert {"MCM-I040", "MCM-V021"} <= {d.code for d in result.diagnostics}
