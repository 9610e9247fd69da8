"""Random small graphs of products or convolutions, as models and as the layers of an oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper

from mcm_compiler.contracts.cost import CostModel
from tests.oracles.divided_periods import Layer

Reads = tuple[tuple[int, str], ...]

INPUT = (-1, "row")

GRAPHS: tuple[tuple[tuple[str, Reads], ...], ...] = (
    (("MatMul", (INPUT,)), ("MatMul", ((0, "row"),))),
    (("Conv", (INPUT,)), ("Conv", ((0, "halo"),))),
    (("MatMul", (INPUT,)), ("MatMul", ((0, "row"),)), ("MatMul", ((1, "row"),))),
    (("Conv", (INPUT,)), ("Conv", ((0, "halo"),)), ("Conv", ((1, "halo"),))),
    (
        ("MatMul", (INPUT,)),
        ("MatMul", ((0, "row"),)),
        ("MatMul", ((0, "row"),)),
        ("Add", ((1, "same"), (2, "same"))),
    ),
    (
        ("Conv", (INPUT,)),
        ("Conv", ((0, "halo"),)),
        ("Conv", ((0, "halo"),)),
        ("AddImages", ((1, "same"), (2, "same"))),
    ),
    (("Gather", (INPUT,)), ("MatMul", ((0, "row"),)), ("MatMul", ((1, "row"),))),
    (
        ("Gather", (INPUT,)),
        ("MatMul", ((0, "row"),)),
        ("MatMul", ((0, "row"),)),
        ("Scores", ((1, "row"), (2, "turned"))),
        ("Mixture", ((3, "row"), (2, "columns"))),
    ),
)
"""Chains, branches that are added, lookups in a table, and attention: each layer with the layers
that it reads and how (see `Layer`)."""

_WIDTH = 8
"""Columns of an image."""

_CUT = 3
"""Layers that the oracle cuts."""


def random_graph(rng: np.random.Generator, costs: CostModel) -> tuple[ir.Model, list[Layer]]:
    """A graph, and what each part of it takes on a chip."""
    kinds = GRAPHS[int(rng.integers(len(GRAPHS)))]
    images = kinds[0][0] == "Conv"
    rows = int(rng.integers(1, 65 if images else 800))
    ins = int(rng.choice([1, 3, 17, 64, 130]))
    cut = rng.permutation(len(kinds))[:_CUT].tolist()
    layers: list[Layer] = []
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    widths: list[int] = []
    for k, (kind, reads) in enumerate(kinds):
        read = [widths[layer] if layer >= 0 else ins for layer, _ in reads]
        cols = _columns(rng, kind, kinds, read, rows)
        widths.append(cols)
        cuts = (int(rng.integers(0, rows)), int(rng.integers(0, cols))) if k in cut else (0, 0)
        seconds = _seconds(costs, kind, read[0], rows, cols, cuts)
        node, _, weight = _part(kind, read[0], (rows, cols), (1, 1))
        node.input[:] = [
            name if name == "w" else f"x{reads[i - (kind == 'Gather')][0] + 1}"
            for i, name in enumerate(node.input)
        ]
        size = 0
        if weight is not None:
            weight.name = f"w{k}"
            node.input[list(node.input).index("w")] = weight.name
            weights.append(weight)
            size = 2 * int(np.prod(weight.dims)) // cols
        node.output[:] = [f"x{k + 1}"]
        node.name = f"op{k}"
        nodes.append(node)
        layers.append(Layer(rows, cols, *cuts, size, reads, seconds))
    first = _value("x0", [rows], TensorProto.INT64) if kinds[0][0] == "Gather" else None
    ends = [first or _value("x0", _shape(rows, ins, images))]
    ends += [_value(f"x{k + 1}", _shape(rows, n, images)) for k, n in enumerate(widths)]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[-1:], weights, value_info=ends[1:-1])
    opset = [helper.make_opsetid("", 17)]
    return ir.from_proto(helper.make_model(graph, opset_imports=opset)), layers


def _columns(
    rng: np.random.Generator,
    kind: str,
    kinds: Sequence[tuple[str, Reads]],
    read: Sequence[int],
    rows: int,
) -> int:
    if kind == "Scores":
        return rows
    if kind in ("Add", "AddImages", "Mixture"):
        return read[1]
    joined = kinds[-1][0] in ("Add", "AddImages", "Mixture") and len(read) == 1 and kind != "Gather"
    sizes = [1, 17, 63, 64, 65, 128, 130, 256, 320]
    # What is added or multiplied has the same columns: as many as are read, all along.
    return read[0] if joined else int(rng.choice(sizes))


def _seconds(
    costs: CostModel, kind: str, ins: int, rows: int, cols: int, cuts: tuple[int, int]
) -> dict[tuple[int, int, int], float]:
    row_cut, col_cut = cuts
    seconds: dict[tuple[int, int, int], float] = {}
    for top, bottom in {(0, rows), (0, row_cut), (row_cut, rows)}:
        for width in {cols, col_cut, cols - col_cut} - {0}:
            if top == bottom:
                continue
            pads = (int(top == 0), int(bottom == rows))
            node, ends, weight = _part(kind, ins, (bottom - top, width), pads, rows)
            made = helper.make_graph(
                [node], "part", ends[:-1], ends[-1:], [weight] if weight is not None else []
            )
            whole = ir.from_proto(helper.make_model(made)).graph
            seconds[top, bottom, width] = costs.node_cost(next(iter(whole))).seconds
    return seconds


def _part(
    kind: str, ins: int, shape: tuple[int, int], pads: tuple[int, int], rows: int = 0
) -> tuple[onnx.NodeProto, list[onnx.ValueInfoProto], onnx.TensorProto | None]:
    """A node with rows and columns of the result, its operands and result, and its weight."""
    height, cols = shape
    attributes: dict[str, Any] = {}
    weight: list[int] = []
    operands, kinds = {"a": [height, ins]}, TensorProto.FLOAT
    names, images = ["a", "w"], kind in ("Conv", "AddImages")
    if kind == "Conv":
        operands = {"a": _shape(height + 2 - sum(pads), ins, True)}
        weight, attributes = [cols, ins, 3, 3], {"pads": [pads[0], 1, pads[1], 1]}
    elif kind == "MatMul":
        weight = [ins, cols]
    elif kind == "Gather":
        operands, kinds, names = {"a": [height]}, TensorProto.INT64, ["w", "a"]
        weight = [500, cols]
    elif kind == "Scores":
        operands["b"], attributes = [cols, ins], {"transB": 1}
    elif kind == "Mixture":
        operands["b"] = [rows or height, cols]
    else:
        dims = _shape(height, cols, images)
        operands = {"a": dims, "b": dims}
    names = names if weight else ["a", "b"]
    op = {"Scores": "Gemm", "Mixture": "MatMul", "AddImages": "Add"}.get(kind, kind)
    node = helper.make_node(op, names, ["c"], **attributes)
    ends = [_value(name, dims, kinds) for name, dims in operands.items()]
    ends.append(_value("c", _shape(height, cols, images)))
    if not weight:
        return node, ends, None
    data = bytes(4 * int(np.prod(weight)))
    return node, ends, helper.make_tensor("w", TensorProto.FLOAT, weight, data, raw=True)


def _value(name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _shape(rows: int, channels: int, images: bool) -> list[int]:
    return [1, channels, rows, _WIDTH] if images else [rows, channels]
