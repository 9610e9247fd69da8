"""Declared types and shapes that shape inference contradicts."""

from __future__ import annotations

import re

import onnx

from mcm_compiler.diagnostics import Diagnostic, Severity, quote
from mcm_compiler.graph.structure import MAX_FAULTS, all_graphs
from mcm_compiler.ir.shapes.isolated_inference import infer_in_child
from mcm_compiler.text.units import count_text

_CONTRADICTION = re.compile(
    r"\(op_type:(?P<op>[^,()]*)(?:, node name: (?P<name>.*?))?\): \[\w+Error\] "
    r"Inferred (?P<what>shape and existing shape differ[^:]*|elem type differs[^:]*): "
    r"\((?P<inferred>[^)]*)\) vs \((?P<declared>[^)]*)\)",
    re.DOTALL,
)


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


def drop_stale_shapes(proto: onnx.ModelProto, inference_error: str) -> list[Diagnostic]:
    """Drops the declared shapes that the ops do not make, in place; in subgraphs, too.

    onnxruntime takes the inferred shape and goes on, of intermediate values and of graph outputs.
    One stale shape makes those after it look right, so that all are inferred without the declared
    ones first. Those after ops of foreign domains stay, because nothing else tells them.

    Args:
        proto: the model.
        inference_error: what strict inference says about it.

    Returns:
        The warning MCM-I044 if there are any.
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
    stale: list[tuple[str, str, str]] = []
    for graph, typed in zip(all_graphs(proto.graph), inferred, strict=True):
        made = {value.name: _dims(value) for value in _declared(typed)}
        for value in _declared(graph):
            declared, found = _dims(value), made.get(value.name)
            if found is not None and declared is not None and _differ(declared, found):
                stale.append((value.name, _text(declared), _text(found)))
                value.type.tensor_type.ClearField("shape")
    if not stale:
        return []
    name, declared_text, found_text = stale[0]
    return [
        Diagnostic(
            "MCM-I044",
            f"the model declares other shapes of {count_text(len(stale), 'value')} than their ops "
            f"make; {quote(name)} is declared as {declared_text} and is {found_text}",
            at=f"value {quote(name)}",
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


def _differ(left: list[int | None], right: list[int | None]) -> bool:
    return len(left) != len(right) or any(
        a != b for a, b in zip(left, right, strict=True) if a is not None and b is not None
    )


def _text(dims: list[int | None]) -> str:
    return f"[{', '.join('?' if dim is None else str(dim) for dim in dims)}]"
