"""When one value of the main graph may stand for another."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.ir.rewriting.naming import is_training_normalisation

_ROUNDED_AT_BOUNDARIES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})

_RUNNING = (3, 4)
"""Inputs of a `BatchNormalization` that are its running mean and variance."""


def is_replaceable(value: ir.Value, graph: ir.Graph) -> bool:
    """Return whether all uses of `value` can be given to another value of `graph`.

    Not so for a graph output, whose name is part of the model's signature, and for a value that a
    subgraph reads: there the other name may be shadowed by one inside.
    """
    return not value.is_graph_output() and all(use.node.graph is graph for use in value.uses())


def rounds_at_boundaries(value: ir.Value) -> bool:
    """Return whether adding or removing an op boundary at `value` can change its bits.

    onnxruntime's CPU provider computes 16-bit floats in float32 where it lacks a kernel, and drops
    a pair of casts that meet: a value there is rounded or not, depending on its neighbours.
    """
    return isinstance(value.type, ir.TensorType) and value.type.dtype in _ROUNDED_AT_BOUNDARIES


def is_overwritten(value: ir.Value) -> bool:
    """Return whether onnxruntime writes over `value`, so that it must be no other value as well.

    A `BatchNormalization` in training puts its running mean and variance where those before are,
    also where these are weights.
    """
    return any(use.idx in _RUNNING and is_training_normalisation(use.node) for use in value.uses())


def complete_type(kept: ir.Value, replaced: ir.Value) -> None:
    """Takes over from `replaced` what `kept` does not know about itself."""
    if kept.type is None:
        kept.type = replaced.type
    if kept.shape is None:
        kept.shape = replaced.shape
