"""Makes the constants that `Range` reads scalars, as the standard wants them."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.graph.constants import add_initializer
from mcm_compiler.ir.rewriting.naming import UnusedNames


def make_range_operands_scalar(graph: ir.Graph) -> int:
    """Replaces one-element vectors among the constants of each `Range` by scalars.

    onnxruntime computes with either, but refuses a model in which the vector is an initializer.
    Models (those that onnx expands from AffineGrid among them) have it come from another op,
    and only folding makes an initializer of it.

    Returns:
        The number of operands that were replaced.
    """
    found = [
        (node, index, value)
        for node in graph
        if node.op_type == "Range" and node.domain in ("", "ai.onnx")
        for index, value in enumerate(node.inputs)
        if value is not None and _is_vector(value)
    ]
    if not found:
        return 0
    names = UnusedNames(graph)
    scalar_of: dict[ir.Value, ir.Value] = {}
    for node, index, value in found:
        if value not in scalar_of:
            assert value.const_value is not None
            name = names.take(f"{value.name}/scalar")
            tensor = ir.Tensor(value.const_value.numpy().reshape(()), name=name)
            scalar_of[value] = add_initializer(graph, tensor)
        node.replace_input_with(index, scalar_of[value])
    return len(found)


def _is_vector(value: ir.Value) -> bool:
    tensor = value.const_value
    return (
        tensor is not None
        and not value.is_graph_input()
        and tensor.size == 1
        and len(tensor.shape) > 0
    )
