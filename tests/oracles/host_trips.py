"""Round trips to the host a second time: bytes and seconds from shapes alone, op by op."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir

BITS = {"FLOAT": 32, "FLOAT16": 16, "INT64": 64, "BOOL": 8, "INT32": 32}


@dataclass(frozen=True)
class Numbers:
    """What the oracle knows of a package: rates in bytes per second, times in seconds."""

    rate: float
    latency: float
    launch: float
    host_launch: float
    host_ops: float
    host_bytes: float
    widths: dict[str, int]


def size(value: ir.Value, widths: dict[str, int]) -> int:
    elements = 1
    for dim in value.shape or ():
        elements *= int(dim)
    name = value.dtype.name if value.dtype is not None else ""
    return -(-elements * widths.get(name, BITS[name]) // 8)


def border(model: ir.Model, names: Sequence[str]) -> tuple[set[str], set[str]]:
    """Tensors that go up and that come down, found in the serialised graph by name alone."""
    graph = ir.to_proto(model).graph
    weights = {one.name for one in graph.initializer}
    changed = True
    while changed:  # what follows from weights alone is one
        before = len(weights)
        for node in graph.node:
            if all(name in weights for name in node.input if name):
                weights.update(node.output)
        changed = len(weights) > before
    own = [node for node in graph.node if node.name in names]
    made = {name for node in own for name in node.output if name}
    read = {name for node in own for name in _read(node)}
    elsewhere = {name for node in graph.node if node.name not in names for name in _read(node)}
    elsewhere |= {value.name for value in graph.output}
    return read - made - weights, made & elsewhere if len(own) > 1 else made


def _read(node: onnx.NodeProto) -> set[str]:
    found = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            inner = {name for one in graph.node for name in one.output}
            inner |= {one.name for one in graph.initializer}
            found |= {name for one in graph.node for name in _read(one)} - inner
    return found


def trip_seconds(
    model: ir.Model, names: Sequence[str], lane_ops: dict[str, int], numbers: Numbers
) -> tuple[int, int, float]:
    """Bytes up, bytes down and seconds of a round trip.

    Args:
        model: with a value for each name of its graph.
        names: ops that share the trip.
        lane_ops: operations of each, by hand.
        numbers: of the package.
    """
    graph = model.graph
    values = {v.name: v for node in graph for v in (*node.inputs, *node.outputs) if v is not None}
    up, down = (
        sum(size(values[name], numbers.widths) for name in found) for found in border(model, names)
    )
    host = 0.0
    for node in graph:
        if node.name in names and node.op_type not in ("Reshape", "Flatten"):
            touched = {*(v for v in node.inputs if v is not None), *node.outputs}
            moved = sum(size(v, {}) for v in touched)
            host += numbers.host_launch + max(
                lane_ops[node.name] / numbers.host_ops, moved / numbers.host_bytes
            )
    return up, down, numbers.launch + (up + down) / numbers.rate + 2 * numbers.latency + host
