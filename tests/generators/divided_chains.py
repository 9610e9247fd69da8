"""Random short chains of products or convolutions, as models and as the layers of an oracle."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper

from mcm_compiler.contracts.cost import CostModel
from tests.oracles.divided_periods import Layer


def random_chain(rng: np.random.Generator, costs: CostModel) -> tuple[ir.Model, list[Layer]]:
    """A chain of two layers, and what each part of it takes on a chip."""
    convolution = bool(rng.integers(2))
    rows = int(rng.integers(1, 13 if convolution else 200))
    widths = [int(n) for n in rng.choice([1, 3, 17, 63, 64, 65, 128, 130, 256], 3)]
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    layers: list[Layer] = []
    for k in range(2):
        ins, outs = widths[k], widths[k + 1]
        layers.append(_layer(rng, costs, rows, (ins, outs), convolution=convolution))
        node, weight = _node(k, ins, outs, convolution=convolution)
        nodes.append(node)
        weights.append(weight)
    ends = [_value(f"x{k}", _shape(rows, widths[k], convolution)) for k in range(3)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[2:], weights, value_info=ends[1:2])
    opset = [helper.make_opsetid("", 17)]
    return ir.from_proto(helper.make_model(graph, opset_imports=opset)), layers


_WIDTH = 8
"""Columns of an image."""


def _value(name: str, shape: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _shape(rows: int, channels: int, convolution: bool) -> list[int]:
    return [1, channels, rows, _WIDTH] if convolution else [rows, channels]


def _node(
    k: int, ins: int, outs: int, *, convolution: bool, pads: tuple[int, int] = (1, 1)
) -> tuple[onnx.NodeProto, onnx.TensorProto]:
    shape = [outs, ins, 3, 3] if convolution else [ins, outs]
    weight = helper.make_tensor(
        f"w{k}", TensorProto.FLOAT, shape, bytes(4 * int(np.prod(shape))), raw=True
    )
    operands = [f"x{k}", f"w{k}"]
    if not convolution:
        return helper.make_node("MatMul", operands, [f"x{k + 1}"], f"op{k}"), weight
    padded = [pads[0], 1, pads[1], 1]
    return helper.make_node("Conv", operands, [f"x{k + 1}"], f"op{k}", pads=padded), weight


def _layer(
    rng: np.random.Generator,
    costs: CostModel,
    rows: int,
    widths: tuple[int, int],
    *,
    convolution: bool,
) -> Layer:
    ins, outs = widths
    row_cut, col_cut = int(rng.integers(0, rows)), int(rng.integers(0, outs))
    halo = 1 if convolution else 0
    seconds: dict[tuple[int, int, int], float] = {}
    for top, bottom in ((0, rows), (0, row_cut), (row_cut, rows)):
        for cols in {outs, col_cut, outs - col_cut} - {0}:
            if top == bottom:
                continue
            above, below = min(top, halo), min(rows - bottom, halo)
            pads = (halo - above, halo - below)
            read = bottom - top + above + below
            node, weight = _node(0, ins, cols, convolution=convolution, pads=pads)
            ends = [
                _value("x0", _shape(read, ins, convolution)),
                _value("x1", _shape(bottom - top, cols, convolution)),
            ]
            graph = helper.make_graph([node], "part", ends[:1], ends[1:], [weight])
            made = ir.from_proto(helper.make_model(graph)).graph
            seconds[top, bottom, cols] = costs.node_cost(next(iter(made))).seconds
    taps = 9 if convolution else 1
    return Layer(rows, outs, row_cut, col_cut, halo, 2 * taps * ins, seconds)
