"""The rules of a package, asked about the models of its chips."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from onnx import TensorProto, helper, save

from mcm_compiler import CompileOptions, compile_model
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.constraint_check import check_constraints
from mcm_compiler.checking.entry.structure_check import load_chips
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import DEFAULT_PIPELINE
from tests.generators.tight_models import PACKAGE

SHAPE = [1, 8]
ENDS = PACKAGE.replace('"any"', '"ends"').format(sram_mib=1, alignment=64)
"""Inputs enter at the first chip and outputs leave at the last one; relays carry both."""


def _compiled(nodes: dict[str, tuple[str, list[str]]], folder: Path, routing: str) -> Target:
    """Nodes by name, with op type and inputs, each on the chip after the last one's."""
    read = {name for _, inputs in nodes.values() for name in inputs}
    info = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE)
        for name in ("x", *(name for name in nodes if name not in read))
    ]
    made = [helper.make_node(op, names, [n], name=n) for n, (op, names) in nodes.items()]
    graph = helper.make_graph(made, "g", info[:1], info[1:])
    imports = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=imports, ir_version=8), folder / "m.onnx")
    (folder / "ends.toml").write_text(ENDS, encoding="utf-8")
    target = load_target(str(folder / "ends.toml"))
    options = CompileOptions(
        passes=DEFAULT_PIPELINE.replace("fuse", "fuse{max_group=1}"),
        routing=routing,
        pins=tuple((name, chip) for chip, name in enumerate(nodes)),
    )
    compile_model(folder / "m.onnx", target=target, options=options, output=folder / "out")
    return target


def test_what_the_host_exchanges_is_no_detour_under_the_strict_rule(tmp_path: Path) -> None:
    """`a` goes from chip 0 to chip 2, past chip 1, which reads `x` and returns `b` by both ends."""
    nodes = {"a": ("Relu", ["x"]), "b": ("Tanh", ["x"]), "c": ("Neg", ["a"])}
    target = _compiled(nodes, tmp_path, "strict")
    manifest = read_manifest(tmp_path / "out")
    wires = [(wire.source, wire.destinations) for wire in manifest.wires]
    assert {(-1, (0, 1)), (0, (2,)), (1, (-1,))} <= set(wires)
    chips = load_chips(tmp_path / "out", manifest)
    assert "strict" in check_constraints(manifest, chips, target)
    assert check_folder(tmp_path / "out").holds


def test_a_relay_of_an_op_is_as_long_as_its_way_under_the_strict_rule(tmp_path: Path) -> None:
    nodes = {"a": ("Relu", ["x"]), "b": ("Tanh", ["a"]), "c": ("Add", ["a", "b"])}
    target = _compiled(nodes, tmp_path, "relay")
    manifest = read_manifest(tmp_path / "out")
    chips = load_chips(tmp_path / "out", manifest)
    assert "relay" in check_constraints(manifest, chips, target)
    with pytest.raises(CompileError) as caught:
        check_constraints(replace(manifest, routing="strict"), chips, target)
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.at) == ("MCM-V050", "chips 0, 1, 2")
    assert fault.message.startswith("'c' on chip 2 reads 'a' on chip 0 directly")
