"""The form of a model that plans speak of: shapes are numbers, weights are as they were given."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.graph.source import SOURCE
from mcm_compiler.ir.shapes.inference import infer_shapes
from mcm_passes.rewriting.simplification.constant_folding import fold_constants, fold_static_shapes
from mcm_passes.rewriting.simplification.dead_code import remove_dead_code

MAX_BYTES = 4096
"""Of constants that are computed: shapes and the like, and no weights worth dividing."""

MAX_ROUNDS = 8


def make_plannable(model: ir.Model) -> None:
    """Folds what exporters compute about shapes, in place; weights are not merged or changed.

    Without that, an op that asks for a shape would need its operand whole.
    """
    if not any(node.op_type in {"Shape", "Size"} for node in model.graph):
        return
    source = SOURCE.find(model)
    shape_only = source is not None and source.shape_only
    for _ in range(MAX_ROUNDS):
        changes = fold_static_shapes(model.graph)
        changes += fold_constants(model, MAX_BYTES, keep_placeholders=shape_only)
        changes += remove_dead_code(model.graph)
        if not changes:
            break
    infer_shapes(model)
