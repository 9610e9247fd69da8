"""Sizes that onnxruntime takes only where they stay open, and those that it takes for no data."""

from __future__ import annotations

import re
from collections.abc import Mapping

import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import graphs_of
from mcm_compiler.graph.estimated_dims import estimated_dim
from mcm_compiler.ir.shapes.cache_sizes import mask_fault
from mcm_compiler.ir.shapes.fixed_shapes import shaped_by_sizes_alone


def leave_open(model: ir.Model, declared: Mapping[str, ir.Shape] | None) -> list[Diagnostic]:
    """Opens the dimensions of inputs that the file leaves open, in place; planned as given.

    A branch that data decide may make no sense for the sizes at hand, and onnxruntime refuses a
    model in which its inference follows them there. Shapes of what ops make are dropped, to be
    found again; those that only a run finds have to stay open, too.

    Args:
        model: with its sizes bound.
        declared: shapes of graph inputs in the file.

    Returns:
        The note MCM-I057.
    """
    opened: list[str] = []
    for value in model.graph.inputs:
        name, shape = value.name or "", value.shape
        if shape is None or name in model.graph.initializers:
            continue
        file_shape = [None] * len(shape) if declared is None else declared.get(name, shape)
        pairs = list(enumerate(zip(file_shape, shape, strict=True)))
        value.shape = ir.Shape(
            [
                estimated_dim(name, axis, size) if isinstance(size, int) and size != dim else size
                for axis, (dim, size) in pairs
            ]
        )
        if not value.shape.is_static():
            opened.append(quote(name))
    for graph in graphs_of(model):
        for value in (v for node in graph for v in node.outputs):
            value.shape = None
    return [
        Diagnostic(
            "MCM-I057",
            "onnxruntime takes the model only while sizes are open that are known: they are "
            "planned as found, and open in the emitted models",
            at=f"input {', '.join(opened)}",
        )
    ]


_FAILED_IN = re.compile(r"while running (?P<op>\S+) node\. Name:'(?P<name>[^']*)'")

_REFUSED_AT = re.compile(
    r"failed:\s*Node \((?P<name>[^)]*)\) Op \((?P<op>[^)]*)\) \[ShapeInferenceError\]"
)
"""Of an op of the main graph; one in a body is named within the message about its owner."""

_FAIL_FOR_SIZES = frozenset(
    {
        "Add", "And", "AveragePool", "BatchNormalization", "Concat", "Conv", "ConvInteger",
        "ConvTranspose", "Einsum", "Equal", "Expand", "Flatten", "Gemm", "GlobalAveragePool",
        "GlobalMaxPool", "Greater", "GreaterOrEqual", "GroupNormalization",
        "InstanceNormalization", "LayerNormalization", "Less", "LessOrEqual", "MatMul",
        "MatMulInteger", "Max", "MaxPool", "Mean", "Min", "Mul", "Or", "PRelu", "Pow", "Reshape",
        "STFT", "Split", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Unsqueeze", "Where", "Xor",
    }
)  # fmt: skip
"""Ops of ONNX that compute any data of sizes that fit together."""


def impossible_sizes(model: ir.Model, reason: str) -> Diagnostic | None:
    """MCM-I058 where onnxruntime refuses or stops at an op for its sizes, which no data change.

    Where these are the sizes of a cache and a mask, MCM-P083.

    Args:
        model: with the shapes that are known.
        reason: why a session refused it, as MCM-V001 says, or a run failed, as MCM-V002 says.
    """
    found = _REFUSED_AT.search(reason) or _FAILED_IN.search(reason)
    if found is None or found["op"] not in _FAIL_FOR_SIZES:
        return None
    node = next((n for n in model.graph if n.name == found["name"]), None)
    if node is None or node.op_type != found["op"] or not shaped_by_sizes_alone(model, node):
        return None
    if (fault := mask_fault(model, node)) is not None:
        return fault
    sizes = ", ".join(
        f"{quote(v.name or '')} {v.shape}" for v in node.inputs if v is not None and v.shape
    )
    return Diagnostic(
        "MCM-I058",
        f"onnxruntime cannot run the model with these sizes, whatever the data: {reason}",
        at=f"node {quote(node.name or '')} ({node.op_type}), which reads {sizes}",
    )
