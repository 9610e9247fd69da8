"""Pipelines in which a pass makes facts of earlier ones untrue: no certificate of what was."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import CompileResult, compile_model, import_named
from mcm_compiler.checking.check import check_folder
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_compiler.pipeline.fact_ledger import snapshot
from mcm_compiler.pipeline.pass_manager import PassManager
from mcm_compiler.pipeline.passes import Pass, PassContext, parse_pipeline
from mcm_compiler.processes.staging import staging
from mcm_compiler.registry import PASSES

REST = "partition,legalize,split,lower,simulate,emit,verify"


@dataclass(frozen=True)
class DropIdentity(Pass):
    """As a stranger writes it: declares nothing about facts."""

    name: ClassVar[str] = "stale_drop_id"
    summary: ClassVar[str] = "drop ops that copy"

    def run(self, model: ir.Model, context: PassContext) -> None:
        for node in list(model.graph):
            if node.op_type == "Identity" and node.outputs[0] not in set(model.graph.outputs):
                source = node.inputs[0]
                assert source is not None
                node.outputs[0].replace_all_uses_with(source)
                model.graph.remove(node, safe=True)


@pytest.fixture(autouse=True)
def registered() -> Generator[None]:
    PASSES.add(DropIdentity.name, DropIdentity, __file__)
    yield
    PASSES.remove(DropIdentity.name)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Identity", ["a"], ["b"], name="id0"),
            helper.make_node("MatMul", ["b", "w"], ["y"]),
        ],
        "identity",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 64])],
        [numpy_helper.from_array(weight, "w")],
    )
    file = tmp_path / "identity.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              file)  # fmt: skip
    return file


def _compile(model: str | Path, passes: str, target: str, folder: Path) -> CompileResult:
    options = CompileOptions(passes=passes, partitioner="dp", replicas=1, inferences=16, level=1)
    result = compile_model(model, target, options, output=folder)
    check_folder(folder)
    return result


def test_a_second_fusion_builds_the_problem_again(tmp_path: Path) -> None:
    """The kernels of the second plan are dearer to begin with, so the old bound was too high."""
    whole = "parallelize{search=false}"
    again = _compile(
        "zoo:bert-tiny",
        f"simplify,fuse,annotate_cost,{whole},fuse{{max_group=1}},{REST}",
        "mcm16",
        tmp_path / "again",
    )
    once = _compile(
        "zoo:bert-tiny",
        f"simplify,fuse{{max_group=1}},annotate_cost,{whole},{REST}",
        "mcm16",
        tmp_path / "once",
    )
    assert again.partition is not None
    assert once.partition is not None
    assert once.simulation is not None
    assert again.partition.bound.seconds <= once.simulation.period_s
    assert again.partition.bound == once.partition.bound
    assert np.array_equal(again.partition.chip_of, once.partition.chip_of)
    assert [d.code for d in again.diagnostics] == ["MCM-X010"]
    assert not once.diagnostics


@pytest.mark.parametrize(
    ("passes", "again"),
    [
        (f"stale_drop_id,fuse,annotate_cost,parallelize,{REST}", ""),
        (f"fuse,stale_drop_id,annotate_cost,parallelize,{REST}", "'fuse' "),
        (f"fuse,annotate_cost,stale_drop_id,parallelize,{REST}", "'annotate_cost' and 'fuse' "),
        (
            f"fuse,annotate_cost,parallelize,stale_drop_id,{REST}",
            "'annotate_cost', 'fuse' and 'parallelize' ",
        ),
        (
            "fuse,annotate_cost,parallelize,partition,stale_drop_id,legalize,split,lower,simulate,"
            "emit,verify",
            "'fuse', 'annotate_cost', 'parallelize' and 'partition' ",
        ),
        (
            "fuse,annotate_cost,parallelize,partition,legalize,stale_drop_id,split,lower,simulate,"
            "emit,verify",
            "'fuse', 'annotate_cost', 'parallelize', 'partition' and 'legalize' ",
        ),
        (
            "fuse,annotate_cost,parallelize,partition,legalize,split,stale_drop_id,lower,simulate,"
            "emit,verify",
            "'fuse', 'annotate_cost', 'parallelize', 'partition', 'legalize' and 'split' ",
        ),
        (
            f"fuse,annotate_cost,parallelize,{REST},stale_drop_id",
            "'annotate_cost', 'fuse', 'parallelize', 'partition', 'legalize', 'split', 'lower', ",
        ),
    ],
)
def test_a_pass_that_declares_nothing_may_stand_anywhere(
    path: Path, tmp_path: Path, passes: str, again: str
) -> None:
    result = _compile(path, passes, "mcm4", tmp_path / "out")
    assert "id0" not in {node.name for node in result.model.graph}
    assert result.verification is not None
    assert result.verification.holds
    assert result.problem is not None
    assert "id0" not in {name for unit in result.problem.members for name in unit}
    assert result.chips is not None
    assert result.program is not None
    ran = {name for chip in result.program.chips for k in chip.kernels for name in k.nodes}
    assert "id0" not in ran
    notes = [d for d in result.diagnostics if d.code == "MCM-X010"]
    assert bool(notes) == bool(again)
    if again:
        assert notes[0].message.startswith(again)
        assert "pass 'stale_drop_id' changed the graph" in notes[0].message


def test_a_pass_that_finds_nothing_to_change_takes_nothing(path: Path, tmp_path: Path) -> None:
    passes = f"stale_drop_id,fuse,annotate_cost,parallelize,stale_drop_id,simplify,{REST}"
    result = _compile(path, passes, "mcm4", tmp_path / "out")
    assert not [d for d in result.diagnostics if d.code == "MCM-X010"]


def test_what_built_in_passes_say_of_the_graph_is_so(path: Path) -> None:
    """They tell the manager whether they changed it, to save it the comparison."""
    seen: list[tuple[str, bool | None, bool]] = []

    def watched(step: Pass) -> Pass:
        def run(self: Pass, model: ir.Model, context: PassContext) -> bool | None:
            before = snapshot(model)
            said = step.run(model, context)
            seen.append((step.name, said, snapshot(model) != before))
            return said

        made = type(step.name, (type(step),), {"run": run})
        return made(**{field.name: getattr(step, field.name) for field in fields(step)})

    steps = [watched(step) for step in parse_pipeline(DEFAULT_PIPELINE)]
    options = CompileOptions(partitioner="dp", replicas=1, inferences=8)
    model, _ = import_named("zoo:bert-tiny", {}, {})
    with staging(None) as stage:
        context = PassContext(load_target("mcm4"), options, stage, lambda _: None)
        PassManager(steps).run(model, context)
    assert [name for name, _, _ in seen] == DEFAULT_PIPELINE.split(",")
    assert all(said is None or said is was for _, said, was in seen), seen


@dataclass(frozen=True)
class LeaveChip(Pass):
    """Stands for an `emit` that ran before the graph changed, and used more chips."""

    name: ClassVar[str] = "stale_leave_chip"
    summary: ClassVar[str] = "leave a chip's file"

    def run(self, model: ir.Model, context: PassContext) -> None:
        (context.staging.path / "chip_03.onnx").write_bytes(b"old")


def test_chips_of_an_earlier_emission_are_no_part_of_the_folder(path: Path, tmp_path: Path) -> None:
    PASSES.add(LeaveChip.name, LeaveChip, __file__)
    try:
        passes = f"fuse,annotate_cost,parallelize,stale_leave_chip,{REST}"
        _compile(path, passes, "mcm4", tmp_path / "out")
    finally:
        PASSES.remove(LeaveChip.name)
    assert not (tmp_path / "out" / "chip_03.onnx").exists()
