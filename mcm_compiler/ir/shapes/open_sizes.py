"""Sizes of inputs that stay open, because onnxruntime takes a file only without them."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import graphs_of
from mcm_compiler.graph.estimated_dims import estimated_dim


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
