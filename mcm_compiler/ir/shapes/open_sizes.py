"""Sizes of inputs that stay open, because onnxruntime takes a file only without them."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic, Severity, quote
from mcm_compiler.graph.constants import graphs_of
from mcm_compiler.graph.estimated_dims import estimated_dim


def leave_open(model: ir.Model, declared: Mapping[str, ir.Shape]) -> list[Diagnostic]:
    """Opens the dimensions of inputs that the file leaves open, in place; planned as given.

    A branch that data decide may make no sense for the sizes given, and onnxruntime refuses a model
    in which its inference follows them there. Shapes of what ops make are dropped, to be found
    again.

    Args:
        model: with its sizes bound.
        declared: shapes of graph inputs in the file.

    Returns:
        The note MCM-I057.
    """
    opened: list[str] = []
    for value in model.graph.inputs:
        name, shape = value.name or "", declared.get(value.name or "")
        if shape is None or value.shape is None or shape.is_static():
            continue
        value.shape = ir.Shape(
            [
                estimated_dim(name, axis, size) if isinstance(size, int) and size != dim else size
                for axis, (dim, size) in enumerate(zip(shape, value.shape, strict=True))
            ]
        )
        opened.append(quote(name))
    for graph in graphs_of(model):
        for value in (v for node in graph for v in node.outputs):
            value.shape = None
    return [
        Diagnostic(
            "MCM-I057",
            "onnxruntime takes the model only while the sizes of its inputs are open: they are "
            "planned as given, and open in the emitted models",
            at=f"input {', '.join(opened)}",
            hint="a branch that data decide may make no sense for these sizes",
            severity=Severity.NOTE,
        )
    ]
