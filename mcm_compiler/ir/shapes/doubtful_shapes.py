"""Shapes that inference or the file got wrong: what onnxruntime computes for the original decides.

A chip that declares another shape than arrives is refused by onnxruntime, and memory planned for
it is wrong. So static shapes that no rule of an op vouches for are held against one run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import consumed_values, subgraphs
from mcm_compiler.ir.shapes.fixed_shapes import fixed_shapes
from mcm_compiler.ir.shapes.shapes_by_run import FileRuns, learn_shape
from mcm_compiler.text.units import count_text


def contradicted_by_run(
    model: ir.Model, runs: FileRuns, doubtful: Sequence[ir.Value]
) -> list[Diagnostic]:
    """Corrects doubtful shapes by one run in onnxruntime, in place.

    Where the shape cannot depend on data it is static afterwards; otherwise the dimensions that
    differ are open, planned with the larger size. Shapes of what is computed from a corrected
    value are dropped, to be found anew. Where the model cannot be run within the limits
    (`shapes_by_run`) all stays as it is.

    Args:
        model: with inferred shapes, in topological order.
        runs: of the model.
        doubtful: values of the main graph that have a shape, in graph order.

    Returns:
        The note MCM-I050 if a shape was corrected.
    """
    if not doubtful:
        return []
    results = runs.observe(doubtful).results
    wrong: list[tuple[ir.Value, list[int | None], tuple[int, ...]]] = []
    for value in doubtful:
        seen = _shapes_of(results.get(value.name or ""))
        claimed = tuple(int(dim) for dim in value.shape.numpy()) if value.shape is not None else ()
        if other := [shape for shape in seen if shape != claimed]:
            wrong.append((value, list(claimed), other[0]))
    if not wrong:
        return []
    corrected = {value for value, _, _ in wrong}
    _reopen_after(model, corrected, known=set(doubtful))
    for value, _, _ in wrong:
        value.shape = None
    fixed = fixed_shapes(model)
    for value, claimed, computed in wrong:
        if not isinstance(value.type, ir.TensorType):
            continue  # elements of a sequence differ; a run tells about these alone
        if value in fixed or len(claimed) != len(computed):
            learn_shape(value, computed, value in fixed)
            continue
        pairs = list(zip(claimed, computed, strict=True))
        value.shape = ir.Shape([a if a == b else None for a, b in pairs])
        larger = [max(a or 0, b) for a, b in pairs]
        learn_shape(value, larger, fixed=False)
    value, claimed, computed = wrong[0]
    return [
        Diagnostic(
            "MCM-I050",
            f"onnxruntime computes other shapes of {count_text(len(wrong), 'value')} than the "
            f"model or onnx's inference says; {quote(value.name or '')} is {list(computed)} and "
            f"not {claimed}",
            at=f"value {quote(value.name or '')}, made by {_maker(value)}",
        )
    ]


def forget_mapped_bodies(model: ir.Model) -> None:
    """Drops the shapes that bodies of `SequenceMap` declare for themselves, in place.

    onnxruntime takes no notice of them while it does not know the shapes of a sequence's elements;
    it refuses the body once a chip's model tells it those.
    """
    for node in model.graph.all_nodes():
        if node.op_type == "SequenceMap" and node.domain in ("", "ai.onnx"):
            for body in subgraphs(node):
                for value in (*body.inputs, *(v for inner in body for v in inner.outputs)):
                    value.shape = None


def _shapes_of(result: Any) -> Iterable[tuple[int, ...]]:
    """The shapes of a runtime value: of an array, or of the elements of a list."""
    for item in result if isinstance(result, list) else [result]:
        shape = getattr(item, "shape", None)
        if shape is not None:
            yield tuple(shape)


def _maker(value: ir.Value) -> str:
    node = value.producer()
    return f"{quote(node.name or '')} ({node.op_type})" if node is not None else "nothing"


def _reopen_after(model: ir.Model, corrected: set[ir.Value], known: set[ir.Value]) -> None:
    """Drops the shapes of all that is computed from `corrected`, but for those in `known`."""
    touched = set(corrected)
    for node in model.graph:
        if any(value in touched for value in consumed_values(node)):
            touched.update(node.outputs)
            for value in node.outputs:
                if value not in known:
                    value.shape = None
