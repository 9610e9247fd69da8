"""The models that mutations start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx import TensorProto, helper

from mcm_compiler.api import build_zoo_model

MAX_SEED_BYTES = 300_000
ZOO = ("bert{layers=1,hidden=16,heads=2,intermediate=32,vocab=50,seq=4,positions=8}", "gpt2-tiny")
"""Zoo models that compile in a fraction of a second."""


def write_seeds(folder: Path, extra: Path | None) -> list[Path]:
    """Writes all seed models into `folder`.

    They are onnx's own node cases (one for each combination of ops, at most three), the models in
    its wheel, models with functions and nested control flow, small zoo models, and what lies in
    `extra`.

    Returns:
        The files, in a fixed order.
    """
    written: list[Path] = []
    for name, data in _all(extra):
        if len(data) <= MAX_SEED_BYTES:
            path = folder / f"{len(written):04d}_{name[:80]}.onnx"
            path.write_bytes(data)
            written.append(path)
    return written


def _all(extra: Path | None) -> Iterator[tuple[str, bytes]]:
    yield "functions", functions().SerializeToString()
    yield "control_flow", control_flow().SerializeToString()
    for spec in ZOO:
        name = spec.partition("{")[0]
        yield name, ir.to_proto(build_zoo_model(spec)).SerializeToString()
    yield from _node_cases()
    wheel = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for path in sorted(wheel.glob("*/*/model.onnx")):
        model = onnx.load(path)
        for entry in model.opset_import:
            if not entry.domain:
                entry.version = max(entry.version, 9)
        yield path.parent.name, model.SerializeToString()
    if extra is not None:
        for path in sorted(extra.rglob("*.onnx")):
            yield path.stem, path.read_bytes()


def _node_cases() -> Iterator[tuple[str, bytes]]:
    from onnx.backend.test.case.node import collect_testcases

    seen: dict[tuple[str, ...], int] = {}
    for case in collect_testcases(None):
        model = case.model
        if model is None:
            continue
        ops = tuple(sorted({node.op_type for node in model.graph.node}))
        seen[ops] = seen.get(ops, 0) + 1
        if seen[ops] <= 3:
            yield case.name, model.SerializeToString()


def functions() -> onnx.ModelProto:
    """A function that calls another one, with an attribute handed on."""
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    inner = helper.make_function("local", "Inner", ["a"], ["b"], [leaky], opset, ["slope"])
    nodes = [
        helper.make_node("Inner", ["a"], ["m"], domain="local", slope=0.1),
        helper.make_node("Add", ["m", "a"], ["n"]),
        helper.make_node("Inner", ["n"], ["b"], domain="local", slope=0.2),
    ]
    outer = helper.make_function("local", "Outer", ["a"], ["b"], nodes, opset)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Outer", ["x"], ["h"], domain="local"),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("Outer", ["r"], ["y"], domain="local"),
        ],
        "functions",
        [value("x", TensorProto.FLOAT, [2, 4])],
        [value("y", TensorProto.FLOAT, [2, 4])],
    )
    return helper.make_model(
        graph, functions=[inner, outer], opset_imports=opset, ir_version=8, producer_name="seed"
    )


def control_flow() -> onnx.ModelProto:
    """An `If` in a `Loop`, both with captured values."""
    value = helper.make_tensor_value_info
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["state", "x"], [f"{op}_out"])],
            op,
            [],
            [value(f"{op}_out", TensorProto.FLOAT, [2, 4])],
        )
        for op in ("Add", "Mul")
    ]
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_on"], ["go_on_out"]),
            helper.make_node(
                "If", ["flag"], ["next"], then_branch=branches[0], else_branch=branches[1]
            ),
        ],
        "body",
        [
            value("step", TensorProto.INT64, []),
            value("go_on", TensorProto.BOOL, []),
            value("state", TensorProto.FLOAT, [2, 4]),
        ],
        [value("go_on_out", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [2, 4])],
    )
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["start"]),
            helper.make_node("Loop", ["count", "", "start"], ["end"], body=body),
            helper.make_node("NonZero", ["end"], ["where"]),
            helper.make_node("Shape", ["where"], ["y"]),
        ],
        "control_flow",
        [value("x", TensorProto.FLOAT, [2, 4]), value("flag", TensorProto.BOOL, [])],
        [value("y", TensorProto.INT64, [2])],
        [helper.make_tensor("count", TensorProto.INT64, [], [3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
