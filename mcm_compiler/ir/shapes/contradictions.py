"""Declared types and shapes that shape inference contradicts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic, Severity, quote
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.graph.structure import MAX_FAULTS, all_graphs
from mcm_compiler.ir.shapes.isolated_inference import infer_in_child
from mcm_compiler.text.units import count_text

_CONTRADICTION = re.compile(
    r"\(op_type:(?P<op>[^,()]*)(?:, node name: (?P<name>.*?))?\): \[\w+Error\] "
    r"Inferred (?P<what>shape and existing shape differ[^:]*|elem type differs[^:]*): "
    r"\((?P<inferred>[^)]*)\) vs \((?P<declared>[^)]*)\)",
    re.DOTALL,
)


@dataclass(frozen=True)
class StaleShape:
    """A shape that a file declares and that onnx's inference contradicts.

    Attributes:
        name: of the value, which may lie in a subgraph.
        declared: sizes in the file; None for one without a number.
        inferred: sizes that onnx infers, likewise.
    """

    name: str
    declared: tuple[int | None, ...]
    inferred: tuple[int | None, ...]


def contradictions(inference_error: str) -> list[Diagnostic]:
    """What onnx's strict inference says against the declared element types.

    Args:
        inference_error: text of `onnx.shape_inference.InferenceError`.

    Returns:
        MCM-I032, one for each op whose result is declared with another element type, which
        onnxruntime refuses; other errors are not ours.
    """
    faults = [
        Diagnostic(
            "MCM-I032",
            f"the op makes element type {found['inferred']}, the model declares "
            f"{found['declared']}",
            at=f"node {quote(found['name'])} ({found['op']})"
            if found["name"]
            else f"a {found['op']} node",
            hint="correct or remove the value_info or the type of the graph output, or run "
            "onnx.shape_inference anew",
        )
        for found in _CONTRADICTION.finditer(inference_error)
        if found["what"].startswith("elem")
    ]
    return list(dict.fromkeys(faults))[:MAX_FAULTS]


def drop_stale_shapes(proto: onnx.ModelProto, inference_error: str) -> list[StaleShape]:
    """Drops the declared shapes that the ops do not make, in place; in subgraphs, too.

    onnxruntime takes the inferred shape and goes on, of intermediate values and of graph outputs.
    One stale shape makes those after it look right, so that all are inferred without the declared
    ones first. Those after ops of foreign domains stay, because nothing else tells them.

    Args:
        proto: the model.
        inference_error: what strict inference says about it.

    Returns:
        What was dropped.
    """
    if not any(
        found["what"].startswith("shape") for found in _CONTRADICTION.finditer(inference_error)
    ):
        return []
    bare = onnx.ModelProto()
    bare.CopyFrom(proto)
    for graph in all_graphs(bare.graph):
        makers = {name for node in graph.node if _is_inferred(node) for name in node.output}
        for value in _declared(graph):
            if value.name in makers:
                value.type.tensor_type.ClearField("shape")
    try:
        inferred = infer_in_child(bare, strict=False)
    except onnx.shape_inference.InferenceError:
        return []
    stale: list[StaleShape] = []
    for graph, typed in zip(all_graphs(proto.graph), inferred, strict=True):
        made = {value.name: _dims(value) for value in _declared(typed)}
        for value in _declared(graph):
            declared, found = _dims(value), made.get(value.name)
            if found is not None and declared is not None and _differ(declared, found):
                stale.append(StaleShape(value.name, tuple(declared), tuple(found)))
                value.type.tensor_type.ClearField("shape")
    return stale


def stale_shapes_note(model: ir.Model, dropped: Sequence[StaleShape]) -> list[Diagnostic]:
    """Tells of declared shapes that do not hold, once the shapes of a model are known.

    onnx's inference may be wrong where the file is right, which a run tells afterwards.

    Args:
        model: with its final shapes.
        dropped: from `drop_stale_shapes`.

    Returns:
        The warning MCM-I044 if there are any.
    """
    if not dropped:
        return []
    final = {value.name: value.shape for node in model.graph for value in node.outputs}
    stale: list[tuple[StaleShape, tuple[int | None, ...]]] = []
    for claim in dropped:
        known = static_dims(final.get(claim.name))
        found = claim.inferred if known is None else known
        if _differ(claim.declared, found):
            stale.append((claim, found))
    if not stale:
        return []
    claim, found = stale[0]
    return [
        Diagnostic(
            "MCM-I044",
            f"the model declares other shapes of {count_text(len(stale), 'value')} than their ops "
            f"make; {quote(claim.name)} is declared as {_text(claim.declared)} and is "
            f"{_text(found)}",
            at=f"value {quote(claim.name)}",
            hint="the shapes of the ops are taken, as onnxruntime does; run "
            "onnx.shape_inference anew to correct the file",
            severity=Severity.WARNING,
        )
    ]


def _declared(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    return [
        value
        for value in (*graph.value_info, *graph.output)
        if value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape")
    ]


def _is_inferred(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx", "ai.onnx.ml")


def _dims(value: onnx.ValueInfoProto) -> list[int | None] | None:
    if not value.type.tensor_type.HasField("shape"):
        return None
    return [
        dim.dim_value if dim.HasField("dim_value") else None
        for dim in value.type.tensor_type.shape.dim
    ]


def _differ(left: Sequence[int | None], right: Sequence[int | None]) -> bool:
    return len(left) != len(right) or any(
        a != b for a, b in zip(left, right, strict=True) if a is not None and b is not None
    )


def _text(dims: Sequence[int | None]) -> str:
    return f"[{', '.join('?' if dim is None else str(dim) for dim in dims)}]"
