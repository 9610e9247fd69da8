"""Convolutions, pools and products give the same in tiles, whatever their attributes are."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.sharding.sharding import OUTPUT_PARTS
from mcm_compiler.execution.runner import run_model
from mcm_compiler.graph.invariants import check_invariants
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.pipeline.passes import PassContext
from mcm_passes.pipeline.preparing import plan_fusion
from mcm_passes.pipeline.shard_oversized import ShardOversized
from tools.update_goldens import parse_filled

TARGET = load_target("mcm4")


@st.composite
def windows(draw: st.DrawFn, size: int, taps: int | None = None) -> tuple[str, int]:
    """Attributes of an op whose windows slide over `size` rows, and rows of its result."""
    taps = taps or draw(st.integers(1, 4))
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    span = (taps - 1) * dilation + 1
    before, after = draw(st.integers(0, taps - 1)), draw(st.integers(0, taps - 1))
    auto = draw(st.sampled_from(["", "", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    text = ""
    if auto:
        stride, dilation, span = min(stride, taps), 1, taps
        text = f'strides = [{stride}, 1], auto_pad = "{auto}"'
        made = (size - span) // stride + 1 if auto == "VALID" else -(-size // stride)
    else:
        text = f"strides = [{stride}, 1], dilations = [{dilation}, 1]"
        text += f", pads = [{before}, 0, {after}, 0]"
        made = (size + before + after - span) // stride + 1
    return text, made


@st.composite
def images(draw: st.DrawFn) -> str:
    """A model of windows, one after the other, with what may be between them."""
    rows, width, channels = draw(st.integers(12, 40)), draw(st.integers(4, 9)), 4
    lines: list[str] = []
    weights: list[str] = []
    first = f"x [1,{channels},{rows},{width}]"
    last = "x"
    for k in range(draw(st.integers(1, 4))):
        op = draw(st.sampled_from(["Conv", "Conv", "MaxPool", "AveragePool", "Relu", "Add"]))
        if op == "Conv":
            taps, groups = draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, channels]))
            text, made = draw(windows(rows, taps))
            filters = channels * draw(st.sampled_from([1, 2]))
            weights.append(
                f"float[{filters},{channels // groups},{taps},1] w{k}, float[{filters}] b{k}"
            )
            line = f"Conv <group = {groups}, {text}> ({last}, w{k}, b{k})"
        elif op in ("Relu", "Add"):
            made, filters = rows, channels
            line = f"Relu ({last})" if op == "Relu" else f"Add ({last}, {last})"
        else:
            taps = draw(st.integers(1, 4))
            text, made = draw(windows(rows, taps))
            text, filters = f"kernel_shape = [{taps}, 1], {text}", channels
            if op == "AveragePool":
                text = text.replace(", dilations = [2, 1]", "").replace(", dilations = [1, 1]", "")
                made = -1 if "pads" in text else made
                text += f", count_include_pad = {draw(st.integers(0, 1))}"
                if made < 0:
                    text, made = f"kernel_shape = [{taps}, 1]", rows - taps + 1
            line = f"{op} <{text}> ({last})"
        if made < 1:
            continue
        lines.append(f"[n{k}] v{k} = {line}")
        last, rows, channels = f"v{k}", made, filters
    if not lines:
        lines, last = ["[n] v = Relu (x)"], "v"
    _, shape = first.split()
    return f"""<ir_version: 8, opset_import: ["" : 17]>
        m (float{shape} x) => (float[1,{channels},{rows},{width}] {last})
        <{", ".join(weights)}> {{ {" ".join(lines)} }}"""


def model_of(text: str) -> ir.Model:
    model = import_model(ir.from_proto(parse_filled(text.replace("<>", ""))), "test")[0]
    rng = np.random.default_rng(3)
    for value in model.graph.initializers.values():
        if value.dtype is ir.DataType.FLOAT and value.shape is not None:
            array = rng.standard_normal(value.shape.numpy()).astype(np.float32)
            value.const_value = ir.Tensor(array, name=value.name)
    return model


def cut(model: ir.Model, **options: float) -> ir.Model:
    """The model after the pass, with its kernels fused as the compiler does."""
    FUSION_PLAN.set(model, plan_fusion(model.graph))
    scope = PassContext(TARGET, SimpleNamespace(), None, lambda _: None)  # pyright: ignore
    ShardOversized(**options).run(model, scope)  # pyright: ignore[reportArgumentType]
    return model


def outputs(model: ir.Model) -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    feeds = {
        value.name or "": rng.standard_normal(value.shape.numpy()).astype(np.float32)
        for value in model.graph.inputs
        if value.shape is not None
    }
    return list(run_model(ir.to_proto(model), feeds).values())


@settings(max_examples=30, deadline=None)
@given(images(), st.integers(1, 9), st.sampled_from([0.0, 0.0, 0.3, 0.01]))
def test_tiles_of_images_give_what_the_whole_gives(text: str, rows: int, grain: float) -> None:
    whole = model_of(text)
    model = cut(model_of(text), tile_rows=rows, grain=grain)
    assert check_invariants(model) == []
    assert not OUTPUT_PARTS.find(model)
    for expected, actual in zip(outputs(whole), outputs(model), strict=True):
        # Tiles sum in another order, which shows where large terms cancel each other.
        scale = np.abs(expected).max()
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * max(1.0, scale))
    names = {node.name for node in model.graph}
    groups = FUSION_PLAN.get(model).groups
    members = [name for group in groups for name in group.nodes]
    assert names.issuperset(members)
    assert len(members) == len(set(members))
