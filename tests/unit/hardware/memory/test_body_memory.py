"""What the bodies of control flow hold has addresses, and counts wherever memory is told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import CompileResult, compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_hardware.memory.activation_plan import SCRATCH, body_bytes

FLOAT = TensorProto.FLOAT
node, value = helper.make_node, helper.make_tensor_value_info


def _weight(name: str, *shape: int) -> onnx.TensorProto:
    array = np.random.default_rng(len(name)).standard_normal(shape) * 0.05
    return numpy_helper.from_array(array.astype(np.float32), name)


def _branch(name: str, size: int, extra: int) -> onnx.GraphProto:
    """A product by a weight of the branch, then `extra` ops one after the other."""
    nodes = [node("MatMul", ["a", f"{name}_w"], [f"{name}_0"])]
    nodes += [node("Exp", [f"{name}_{i}"], [f"{name}_{i + 1}"]) for i in range(extra)]
    result = value(f"{name}_{extra}", FLOAT, [1, size])
    return helper.make_graph(nodes, name, [], [result], [_weight(f"{name}_w", size, size)])


def branches(path: Path, size: int = 512, extra: int = 2) -> Path:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("If", ["c"], ["r"], name="choice", then_branch=_branch("then", size, extra),
             else_branch=_branch("other", size, 0)),
        node("Neg", ["r"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "bodies",
        [value("x", FLOAT, [1, size]), value("c", TensorProto.BOOL, [])],
        [value("y", FLOAT, [1, size])],
    )  # fmt: skip
    return _save(graph, path)


def loop(path: Path) -> Path:
    """A loop whose state, a row of 256, is multiplied by a weight of the body; a Constant, too."""
    inner = numpy_helper.from_array(np.full((1, 256), 0.5, np.float32), "half")
    body = helper.make_graph(
        [
            node("Identity", ["c"], ["d"]),
            node("Constant", [], ["half"], value=inner),
            node("MatMul", ["t", "w"], ["p"]),
            node("Tanh", ["p"], ["q"]),
            node("Add", ["q", "half"], ["u"]),
        ],
        "body",
        [value("n", TensorProto.INT64, []), value("c", TensorProto.BOOL, []),
         value("t", FLOAT, [1, 256])],
        [value("d", TensorProto.BOOL, []), value("u", FLOAT, [1, 256])],
        [_weight("w", 256, 256)],
    )  # fmt: skip
    graph = helper.make_graph(
        [
            node("Relu", ["x"], ["a"]),
            node("Loop", ["trips", "", "a"], ["l"], name="round", body=body),
            node("Neg", ["l"], ["y"]),
        ],
        "loop", [value("x", FLOAT, [1, 256])], [value("y", FLOAT, [1, 256])],
        [numpy_helper.from_array(np.array(3, np.int64), "trips")],
    )  # fmt: skip
    return _save(graph, path)


def _save(graph: onnx.GraphProto, path: Path) -> Path:
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def _compile(path: Path, folder: Path, target: str = "mcm4", **options) -> CompileResult:
    given = CompileOptions(partitioner="dp", replicas=1, inferences=8, **options)
    return compile_model(path, target, given, output=folder)


def _chip_of(result: CompileResult, op: str):
    assert result.program is not None
    (found,) = [c for c in result.program.chips for k in c.kernels if op in k.nodes]
    return found


def test_weights_of_both_branches_have_addresses_and_count_everywhere(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = _compile(branches(tmp_path / "m.onnx"), folder)
    each = 512 * 512 * 2  # 16 bits on the chip
    chip = _chip_of(result, "choice")
    held = {b.name: b for b in chip.buffers if b.kind == "weight"}
    assert {name: b.size_bytes for name, b in held.items()} == {"then_w": each, "other_w": each}
    assert chip.weight_bytes == 2 * each
    assert chip.high_water_bytes >= 2 * each
    assert result.problem is not None
    names, sizes = result.problem.weight_names, result.problem.weight_bytes.tolist()
    assert dict(zip(names, sizes, strict=True)) == {"then_w": each, "other_w": each}
    manifest = json.loads((folder / "manifest.json").read_text())
    entries = [w for c in manifest["chips"] for w in c["weights"]]
    assert sorted((w["name"], w["bytes"]) for w in entries) == [
        ("other_w", 512 * 512 * 4),
        ("then_w", 512 * 512 * 4),
    ]
    report = json.loads((folder / "report.json").read_text())
    assert report["model"]["weight_bytes"] == 2 * 512 * 512 * 4
    assert check_folder(folder).holds


def test_the_body_that_needs_most_has_a_buffer_while_its_op_runs(tmp_path: Path) -> None:
    result = _compile(branches(tmp_path / "m.onnx", extra=3), tmp_path / "out")
    chip = _chip_of(result, "choice")
    (scratch,) = [b for b in chip.buffers if b.name == f"choice{SCRATCH}"]
    at = [k for k, kernel in enumerate(chip.kernels) if "choice" in kernel.nodes]
    assert (scratch.kind, [scratch.first, scratch.last]) == ("activation", at * 2)
    # Of the four results in a row two are held at once; the last lies where the op's own does.
    assert scratch.size_bytes == 2 * 512 * 2


def test_a_loop_holds_its_state_and_its_constants(tmp_path: Path) -> None:
    result = _compile(loop(tmp_path / "m.onnx"), tmp_path / "out")
    chip = _chip_of(result, "round")
    weights = {b.name: b.size_bytes for b in chip.buffers if b.kind == "weight"}
    # The trip count and the constant of the body are no larger than 64 bytes and 512 bytes.
    assert weights["w"] == 256 * 256 * 2
    assert sum(weights.values()) == 256 * 256 * 2 + 256 * 2 + 64
    (scratch,) = [b for b in chip.buffers if b.name == f"round{SCRATCH}"]
    # The condition to the end, and two rows: t and p, then p and q, then q and u.
    assert scratch.size_bytes == 2 * 256 * 2 + 64
    assert check_folder(tmp_path / "out").holds


def test_branches_that_no_chip_can_hold_are_refused(tmp_path: Path) -> None:
    text = load_target("mcm4").source_text.replace("sram_mib = 64", "sram_mib = 1")
    (tmp_path / "small.toml").write_text(text)
    with pytest.raises(CompileError) as caught:
        _compile(branches(tmp_path / "m.onnx", 600), tmp_path / "out", str(tmp_path / "small.toml"))
    fault = caught.value.diagnostics[0]
    assert fault.code == "MCM-P003"
    assert "1.4 MiB" in fault.message


def test_a_view_in_a_body_takes_nothing(tmp_path: Path) -> None:
    from mcm_compiler.ir.reading.importer import import_onnx

    path = branches(tmp_path / "m.onnx", extra=3)
    proto = onnx.load(path)
    graph = proto.graph.node[1].attribute[1].g
    if graph.name != "then":
        graph = proto.graph.node[1].attribute[0].g
    graph.node[1].op_type = "Identity"
    onnx.save(proto, path)
    spec = load_target("mcm4").spec.chips[0]  # pyright: ignore[reportAttributeAccessIssue]
    model, _ = import_onnx(path)
    (choice,) = [n for n in model.graph if n.op_type == "If"]
    assert body_bytes(choice, spec) == 2 * 512 * 2
