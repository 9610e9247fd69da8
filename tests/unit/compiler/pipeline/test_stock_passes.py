"""Passes of onnx_ir by name in pipelines."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnx_ir.passes
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import compile_model, run_passes
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.passes import parse_pipeline, print_pipeline
from mcm_compiler.pipeline.stock_passes import PREFIX, adapted, stock_registrations
from mcm_compiler.registry import PASSES, register

STOCK = [registration.name for registration in stock_registrations()]
BEFORE_PARTITION = (
    "simplify,fuse,annotate_cost,parallelize,{},partition,legalize,split,lower,simulate,emit,verify"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two products with an Identity between, a dead op, a weight twice, and a branch."""
    w = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    value = helper.make_tensor_value_info
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["c"], [f"{op}_o"])],
            op, [], [value(f"{op}_o", TensorProto.FLOAT, [2, 8])],
        )
        for op in ("Relu", "Neg")
    ]  # fmt: skip
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node("Identity", ["a"], ["b"]),
            helper.make_node("Exp", ["a"], ["dead"]),
            helper.make_node("MatMul", ["b", "w_again"], ["c"]),
            helper.make_node(
                "If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1]
            ),
        ],
        "stock",
        [value("x", TensorProto.FLOAT, [2, 8]), value("flag", TensorProto.BOOL, [])],
        [value("y", TensorProto.FLOAT, [2, 8])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(w, "w_again")],
    )
    file = tmp_path / "stock.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              file)  # fmt: skip
    return file


def _compile(path: Path, passes: str) -> ir.Model:
    options = CompileOptions(passes=passes, partitioner="dp", replicas=1, inferences=8)
    result = compile_model(path, "mcm4", options)
    assert result.verification is not None
    assert result.verification.holds
    return result.model


def test_every_pass_of_onnx_ir_whose_options_have_a_text_form_is_there() -> None:
    assert len(STOCK) >= 15
    assert {f"{PREFIX}RemoveUnusedNodesPass", f"{PREFIX}CheckerPass"} <= set(STOCK)
    assert all(PASSES.get(name).name == name for name in STOCK)


def test_all_of_them_run_between_parallelize_and_partition(path: Path) -> None:
    _compile(path, BEFORE_PARTITION.format(",".join(STOCK)))


def test_a_pass_that_removes_ops_leaves_no_stale_fact(path: Path) -> None:
    text = BEFORE_PARTITION.removeprefix("simplify,")
    model = _compile(path, text.format("onnx_ir.IdentityEliminationPass"))
    assert "Identity" not in {
        node.op_type for node in model.graph if "Identity" in (node.name or "")
    }


def test_options_come_from_the_constructor() -> None:
    text = "onnx_ir.CommonSubexpressionEliminationPass{size_limit=4},onnx_ir.CheckerPass"
    passes = parse_pipeline(text)
    assert dataclasses.asdict(passes[0]) == {"size_limit": 4}
    assert print_pipeline(passes) == text


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ("onnx_ir.CheckerPass{deep=true}", "MCM-U002", "no option 'deep'"),
        ("onnx_ir.CheckerPass{full_check=3}", "MCM-U002", "not true or false"),
        ("onnx_ir.CheckersPass", "MCM-U003", "unknown pass"),
    ],
)
def test_what_is_unknown_is_diagnosed(text: str, code: str, part: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse_pipeline(text)
    (fault,) = caught.value.diagnostics
    assert fault.code == code
    assert part in fault.message


class Doubling(onnx_ir.passes.FunctionalPass):
    """Returns another model."""

    def call(self, model: ir.Model) -> onnx_ir.passes.PassResult:
        made = model.clone()
        for node in made.graph:
            if node.op_type == "Identity":
                node.op_type = "Relu"
        return onnx_ir.passes.PassResult(made, modified=True)


class Refusing(onnx_ir.passes.InPlacePass):
    """Raises."""

    def call(self, model: ir.Model) -> onnx_ir.passes.PassResult:
        raise ValueError("not this model")


class Demanding(onnx_ir.passes.InPlacePass):
    """Needs what no text gives."""

    def __init__(self, criteria: object) -> None:
        self.criteria = criteria

    def call(self, model: ir.Model) -> onnx_ir.passes.PassResult:
        return onnx_ir.passes.PassResult(model, modified=False)


def test_functional_passes_and_those_of_strangers_go_through_the_same_adapter(path: Path) -> None:
    register("pass")(adapted(Doubling, "test_doubling"))
    try:
        model, _, _ = run_passes(path, "mcm4", CompileOptions(passes="test_doubling,fuse"))
    finally:
        PASSES.remove("test_doubling")
    assert [n.op_type for n in model.graph] == ["MatMul", "Relu", "Exp", "MatMul", "If"]


def test_a_pass_that_refuses_the_model_says_why(path: Path) -> None:
    register("pass")(adapted(Refusing, "test_refusing"))
    try:
        with pytest.raises(CompileError) as caught:
            run_passes(path, "mcm4", CompileOptions(passes="test_refusing"))
    finally:
        PASSES.remove("test_refusing")
    (fault, *_) = caught.value.diagnostics
    assert fault.code == "MCM-X012"
    assert "not this model" in fault.message


def test_a_constructor_that_needs_more_than_text_is_refused() -> None:
    with pytest.raises(TypeError, match="needs 'criteria'"):
        adapted(Demanding, "test_demanding")
