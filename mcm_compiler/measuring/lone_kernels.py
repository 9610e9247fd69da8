"""Kernels as models of their own, for devices that time whole models alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
import onnx_ir as ir


def kernel_model(graph: ir.Graph, nodes: Sequence[ir.Node]) -> onnx.ModelProto:
    """The ops of one kernel with their weights; other tensors that it reads are its inputs.

    Args:
        graph: of the chip.
        nodes: of the kernel, in topological order.
    """
    inside = set(nodes)
    made = [value for node in nodes for value in node.outputs if value.name]
    taken = dict.fromkeys(
        value
        for node in nodes
        for value in node.inputs
        if value is not None and value.producer() not in inside
    )
    leaving = [
        value
        for value in made
        if value.is_graph_output() or not {use.node for use in value.uses()} <= inside
    ]
    proto = onnx.helper.make_graph(
        [ir.serde.serialize_node(node) for node in nodes],
        "kernel",
        [ir.serde.serialize_value(value) for value in taken if value.const_value is None],
        [ir.serde.serialize_value(value) for value in leaving],
        [
            ir.serde.serialize_tensor(ir.Tensor(value.const_value.numpy(), name=value.name))
            for value in taken
            if value.const_value is not None
        ],
    )
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in graph.opset_imports.items()]
    return onnx.helper.make_model(proto, opset_imports=opsets, ir_version=10)


def scaled_to_chip(
    alone_s: Mapping[str, float], chip_s: float, rest_s: float = 0.0
) -> dict[str, float]:
    """Times whose sum with that of other kernels is that of the chip.

    Args:
        alone_s: seconds of each kernel on its own; by themselves they mislead, as a kernel pays for
            layout changes at its ends and finds its weights in caches.
        chip_s: of an inference of the whole chip.
        rest_s: computed time of kernels that were not measured.
    """
    total_s = sum(alone_s.values()) + rest_s
    return {name: seconds * chip_s / total_s for name, seconds in alone_s.items()}
