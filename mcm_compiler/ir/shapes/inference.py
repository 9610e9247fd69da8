"""Types and shapes of all values.

By onnx's inference, then by onnxruntime's symbolic one, then by one run in onnxruntime; each only
where the one before leaves values open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import onnx
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.graph.estimated_dims import is_estimated
from mcm_compiler.graph.limits import check_value_sizes
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.ir.rewriting.writer import DataLocation, proto_with_references
from mcm_compiler.ir.shapes.contradictions import (
    StaleShape,
    contradictions,
    drop_stale_shapes,
    stale_shapes_note,
)
from mcm_compiler.ir.shapes.doubtful_shapes import contradicted_by_run, forget_mapped_bodies
from mcm_compiler.ir.shapes.fixed_shapes import doubtful_values, fixed_shapes, open_ranks
from mcm_compiler.ir.shapes.inferred_types import take_types, take_types_of
from mcm_compiler.ir.shapes.isolated_inference import infer_in_child
from mcm_compiler.ir.shapes.shapes_by_run import bound_shapes, learn_from_run
from mcm_compiler.ir.shapes.symbolic_inference import infer_symbolically

MAX_PROPAGATED_BYTES = 1024
"""Weights up to this size take part in onnx's inference with their values."""


def infer_shapes(model: ir.Model, given: Mapping[str, Any] | None = None) -> list[Diagnostic]:
    """Completes types and shapes of the main graph's values in place.

    Shapes of intermediate values that are not static are dropped first, because they may name
    dimensions that have a size by now. What onnx's inference leaves open is asked of onnxruntime's
    symbolic inference, and what that leaves open is learnt from one run in onnxruntime with the
    open values as outputs. A shape from that run is static where it cannot depend on data
    (`fixed_shapes`), and otherwise symbolic with an estimated size (`estimated_dims`): the upper
    bound where one is known, or the size in this run. Where even the number of dimensions depends
    on data (`open_ranks`), no shape is learnt.

    Static shapes that nothing vouches for are held against a run before anything is built on them
    (`contradicted_by_run`): what onnxruntime computes counts.

    Args:
        model: completed in place.
        given: runtime values by graph input to run with; random ones where None.

    Returns:
        Notes and warnings: MCM-I040 for values that stay unknown, MCM-I041 for shapes that come
        from onnxruntime, MCM-I044 for declared shapes that contradict the inferred ones, MCM-I050
        for shapes that a run contradicts.

    Raises:
        CompileError: MCM-I032 where a declared element type contradicts the inferred one,
            MCM-I034 where a value is too large, MCM-I018 where onnx's inference crashes.
    """
    known = {*model.graph.inputs, *model.graph.initializers.values()}
    claimed: set[ir.Value] = set()
    for value in _values(model):
        if value not in known and value.shape is not None:
            if value.shape.is_static():
                claimed.add(value)
            else:
                value.shape = None
    for value in model.graph.initializers.values():
        if value.const_value is not None:
            value.shape = ir.Shape(value.const_value.shape.numpy())
            value.dtype = value.const_value.dtype
    forget_mapped_bodies(model)
    dropped = _infer_with_onnx(model)
    notes = _complete(model, given, claimed)
    return stale_shapes_note(model, dropped) + notes


def _complete(
    model: ir.Model, given: Mapping[str, Any] | None, claimed: Set[ir.Value]
) -> list[Diagnostic]:
    """What `infer_shapes` does after onnx's inference; some values were claimed to be static."""
    _check_sizes(model)
    missing = open_values(model)
    doubtful = _unheld(model, claimed, frozenset(missing))
    if missing:
        infer_symbolically(model, missing)
        _check_sizes(model)
    doubtful.update(doubtful_values(model))
    notes = contradicted_by_run(model, given, [v for v in _values(model) if v in doubtful])
    unrun = open_values(model)
    missing = list(dict.fromkeys((*missing, *unrun)))
    if not missing:
        return notes
    reason = None
    if unrun:
        fixed = fixed_shapes(model)
        reason = learn_from_run(model, unrun, fixed, open_ranks(model), given)
        bound_shapes(unrun, fixed)
        _check_sizes(model)
    _infer_unread(model)
    still = [v for v in unrun if is_open(v)]
    return notes + _notes(missing, unrun, still, reason, bool(given))


def open_values(model: ir.Model) -> list[ir.Value]:
    """Values that matter and lack a type, or are tensors with a dimension that has no size."""
    return [v for v in _values(model) if (v.is_graph_output() or v.uses()) and is_open(v)]


def is_open(value: ir.Value) -> bool:
    """Whether `value` lacks a type, or is a tensor with a dimension that has no size."""
    if not isinstance(value.type, ir.TensorType):
        return value.type is None
    if static_dims(value.shape) is not None:
        return False
    return value.shape is None or any(
        not isinstance(dim, int) and not is_estimated(dim) for dim in value.shape
    )


def _infer_unread(model: ir.Model) -> None:
    """Types of results that nobody reads, where they follow from what was learnt of others."""
    untyped = [value for value in _values(model) if value.type is None]
    inferred = _inferred(proto_for_inference(model))[0] if untyped else None
    if inferred is not None:
        take_types_of(untyped, inferred[0])


def _unheld(model: ir.Model, claimed: Set[ir.Value], missing: Set[ir.Value]) -> set[ir.Value]:
    """Values with claimed shapes that onnx's inference could hold against nothing.

    It knew no shape of what their ops read, as those were missing.
    """
    return {
        value
        for node in model.graph
        if not missing.isdisjoint(node.inputs)
        for value in node.outputs
        if value in claimed and static_dims(value.shape) is not None
    }


def _check_sizes(model: ir.Model) -> None:
    if faults := check_value_sizes(model):
        raise CompileError(faults)


def _notes(
    missing: list[ir.Value],
    unrun: list[ir.Value],
    still: list[ir.Value],
    reason: str | None,
    given: bool,
) -> list[Diagnostic]:
    """What the user is told.

    Args:
        missing: values that onnx's inference left open.
        unrun: those of them that symbolic inference left open.
        still: those of them that the run left open.
        reason: why there was no run.
        given: whether the run was on the user's inputs.
    """
    notes: list[Diagnostic] = []
    ways = (
        (len(missing) - len(unrun), "from onnxruntime's symbolic inference"),
        (len(unrun) - len(still), f"from one run with {'the given' if given else 'random'} inputs"),
    )
    told = [f"{count} {way}" for count, way in ways if count]
    if told:
        notes.append(
            Diagnostic(
                "MCM-I041",
                f"onnx's inference leaves {len(missing)} shapes open; {' and '.join(told)}",
                at=f"value {quote(missing[0].name or '')}"
                + (" and others" if len(missing) > 1 else ""),
                severity=Severity.NOTE,
            )
        )
    if still:
        notes.append(
            Diagnostic(
                "MCM-I040",
                f"the type or shape of {len(still)} values is unknown"
                f"{f' ({reason})' if reason else ''}; open dimensions count as 1",
                at=f"value {quote(still[0].name or '')}",
                hint="give sizes that the model runs with by --shape or --dim, or add a "
                "value_info with the type",
                severity=Severity.WARNING,
            )
        )
    return notes


def _values(model: ir.Model) -> Iterable[ir.Value]:
    for node in model.graph:
        yield from (v for v in node.outputs if v.name)


def _inferred(proto: onnx.ModelProto) -> tuple[list[onnx.GraphProto] | None, list[StaleShape]]:
    """What onnx infers, and declared shapes that it contradicts; None where it cannot read it.

    The run tells the rest then.
    """
    dropped: list[StaleShape] = []
    try:
        return infer_in_child(proto, strict=True), dropped
    except onnx.shape_inference.InferenceError as error:
        if faults := contradictions(str(error)):
            raise CompileError(faults) from None
        dropped = drop_stale_shapes(proto, str(error))
    try:
        return infer_in_child(proto, strict=False), dropped
    except onnx.shape_inference.InferenceError:
        return None, dropped


def proto_for_inference(model: ir.Model) -> onnx.ModelProto:
    """A model in which large weights have a type and a shape alone."""
    return proto_with_references(
        model,
        lambda tensor: (
            DataLocation("weights", 0, tensor.nbytes)
            if tensor.nbytes > MAX_PROPAGATED_BYTES
            else None
        ),
    )


def _infer_with_onnx(model: ir.Model) -> list[StaleShape]:
    """Onnx's inference with data propagation; large weights take part by type and shape alone.

    `onnx_ir` has a pass for it, which makes tensors of sequences and optionals.

    Returns:
        Declared shapes that were dropped.
    """
    proto = proto_for_inference(model)
    inferred, dropped = _inferred(proto)
    if inferred is None:
        return dropped
    del proto
    take_types(model, inferred)
    return dropped
