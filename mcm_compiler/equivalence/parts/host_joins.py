"""Joins of outputs that leave in pieces at the host, as ops that the proof can follow.

The host writes each piece to its place. That is a `Reshape` of the piece to the shape of its place
and a `Concat` of all pieces, which no chip runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.chips import pieces_of
from mcm_compiler.contracts.sharding.sharding import OutputPart, host_joins
from mcm_compiler.contracts.target import Wire


def join_models(wires: Sequence[Wire], opsets: Mapping[str, int]) -> list[ir.Model]:
    """A model for each join of the host: from the pieces to what they make.

    Args:
        wires: all tensors that travel.
        opsets: versions by domain.
    """
    found = host_joins(pieces_of(wires).items())
    return [_join(join.output, join.pieces, opsets) for join in found]


def cut_models(wires: Sequence[Wire], opsets: Mapping[str, int]) -> list[ir.Model]:
    """A model for each piece of an input: from the input to the piece.

    Args:
        wires: all tensors that travel.
        opsets: versions by domain.
    """
    return [_cut(*piece, opsets) for piece in pieces_of(wires, inputs=True).items()]


def _cut(tensor: str, part: OutputPart, opsets: Mapping[str, int]) -> ir.Model:
    whole = ir.Value(name=part.output)
    numbers = (part.start, part.stop, part.axis)
    bounds = [
        ir.Value(name=f"{tensor}/{at}", const_value=ir.Tensor(np.array([number], np.int64)))
        for at, number in zip(("start", "stop", "axis"), numbers, strict=True)
    ]
    cut = ir.Node("", "Slice", [whole, *bounds], outputs=[ir.Value(name=tensor)])
    graph = ir.Graph(
        [whole], cut.outputs, nodes=[cut], initializers=bounds, opset_imports=dict(opsets)
    )
    return ir.Model(graph, ir_version=10)


def _join(
    output: str, pieces: Sequence[tuple[str, OutputPart]], opsets: Mapping[str, int]
) -> ir.Model:
    inputs: list[ir.Value] = []
    nodes: list[ir.Node] = []
    shapes: list[ir.Value] = []
    for tensor, part in pieces:
        piece = ir.Value(name=tensor)
        extents = ir.Tensor(np.array(part.piece_shape, np.int64), name=f"{tensor}/place")
        shape = ir.Value(name=extents.name, const_value=extents)
        inputs.append(piece)
        shapes.append(shape)
        nodes.append(ir.Node("", "Reshape", [piece, shape]))
    placed = [node.outputs[0] for node in nodes]
    axis = ir.AttrInt64("axis", pieces[0][1].axis)
    joined = ir.Node("", "Concat", placed, [axis], outputs=[ir.Value(name=output)])
    return ir.Model(
        ir.Graph(
            inputs,
            joined.outputs,
            nodes=[*nodes, joined],
            initializers=shapes,
            opset_imports=dict(opsets),
            name=output,
        ),
        ir_version=10,
    )
