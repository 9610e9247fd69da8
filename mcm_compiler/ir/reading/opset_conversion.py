"""Models of newer opsets than onnxruntime loads, taken down to the newest that it does.

An opset renews few ops. Where a model uses none of those, its ops mean the same in the older one,
and only the number changes. Else onnx's version converter rewrites the renewed ops, and nothing
but these is taken from it. It knows no functions, does not look into bodies of control flow, and
loses what it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx
import onnx.version_converter

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.structure import all_nodes, since_version, subgraphs_of
from mcm_compiler.ir.reading.op_schemas import check_ops
from mcm_compiler.ir.reading.versions import MIN_OPSET, SURE_OPSET, newest_opset

_DOMAINS = ("", "ai.onnx")

_SMALL_BYTES = 1024
"""Weights up to this size may decide how an op is converted; larger ones stay out of its way."""

_Body = onnx.GraphProto | onnx.FunctionProto


def lower_opset(proto: onnx.ModelProto, *, renumber_only: bool = False) -> list[Diagnostic]:
    """Takes a model whose opset is newer than onnxruntime loads down to its newest, in place.

    Args:
        proto: a model whose nodes are right by the opset that it imports.
        renumber_only: refuse models with an op that needs another form in the older opset.

    Returns:
        The note MCM-I048, or nothing where the opset is not too new.

    Raises:
        CompileError: MCM-I005 if the model cannot be converted, with what stands against it.
    """
    given = _version(_imports(proto))
    if given <= SURE_OPSET or given <= (newest := newest_opset()):
        return []
    renewed = list(_renewed(proto, newest))
    if renewed:
        op_types = _converted_with_the_graph(proto, renewed, given, renumber_only)
        if op_types:
            _take_converted(proto, op_types, given, newest)
    for entry in _imports(proto):
        if entry.domain in _DOMAINS:
            entry.version = min(entry.version, newest)
    if renewed and (faults := check_ops(proto)):
        raise _refused(given, faults[0].message, faults[0].at)
    how = "no op that it uses has changed since"
    if renewed:
        how = f"onnx's version converter took care of {_listed(renewed)}"
    return [
        Diagnostic(
            "MCM-I048",
            f"the model's opset {given} was converted to {newest}, the newest that the installed "
            f"onnxruntime loads; {how}",
            at="opset_import",
        )
    ]


def _imports(proto: onnx.ModelProto) -> Iterator[onnx.OperatorSetIdProto]:
    yield from proto.opset_import
    for function in proto.functions:
        yield from function.opset_import


def _renewed(proto: onnx.ModelProto, newest: int) -> Iterator[tuple[onnx.NodeProto, _Body]]:
    """Nodes whose op is not that of opset `newest`, with the graph or function that they are in."""
    bodies: list[tuple[_Body, int]] = [(proto.graph, _version(proto.opset_import))]
    bodies += [(function, _version(function.opset_import)) for function in proto.functions]
    local = {(function.domain, function.name) for function in proto.functions}
    for body, version in bodies:
        since: dict[str, int] = {}
        for node in all_nodes(body):
            if node.domain not in _DOMAINS or (node.domain, node.op_type) in local:
                continue
            if node.op_type not in since:
                since[node.op_type] = since_version(node.op_type, version)
            if since[node.op_type] > newest:
                yield node, body


def _version(imports: Iterable[onnx.OperatorSetIdProto]) -> int:
    return max((entry.version for entry in imports if entry.domain in _DOMAINS), default=0)


def _converted_with_the_graph(
    proto: onnx.ModelProto,
    renewed: list[tuple[onnx.NodeProto, _Body]],
    given: int,
    renumber_only: bool,
) -> set[str]:
    """Types of the ops that the converter has to see in their graph; others keep their form.

    It looks neither into functions nor into bodies of control flow. What it would leave as it is,
    when shown alone, needs no more than the older number there.

    Raises:
        CompileError: MCM-I005 for an op that has no older form, or needs another where the
            converter does not look.
    """
    newest = newest_opset()
    top = {id(node) for node in proto.graph.node}
    stays: dict[tuple[str, int, bytes], bool] = {}
    op_types: set[str] = set()
    for node, body in renewed:
        place = f"op {quote(node.name)} ({node.op_type})"
        if not since_version(node.op_type, newest):
            raise _refused(given, f"opset {newest} has no {node.op_type}", place)
        if id(node) in top and not renumber_only:
            op_types.add(node.op_type)
            continue
        key = node.op_type, len(node.input), b"".join(_attributes(node))
        if key not in stays:
            stays[key] = _stays_as_it_is(node, given, newest)
        if not stays[key]:
            where = "a model in memory"
            if body is not proto.graph:
                where = f"function {quote(body.name)}"
            elif id(node) not in top:
                where = "a body of control flow"
            reason = f"{where} uses {node.op_type}, which has another form in older opsets"
            raise _refused(given, reason, place)
    return op_types


def _stays_as_it_is(node: onnx.NodeProto, given: int, newest: int) -> bool:
    """Return whether the converter leaves an op as it is, with value types of the older opset.

    Values of other types are refused when onnxruntime loads the model.
    """
    if subgraphs_of(node):
        return False
    expected = onnx.defs.get_schema(node.op_type, newest, "").inputs
    value = onnx.helper.make_tensor_value_info
    inputs = {
        name: value(name, _element_type(expected[min(place, len(expected) - 1)].types), None)
        for place, name in enumerate(node.input)
        if name
    }
    outputs = [value(name, onnx.TensorProto.FLOAT, None) for name in node.output if name]
    alone = onnx.helper.make_model(
        onnx.helper.make_graph([node], "alone", list(inputs.values()), outputs),
        opset_imports=[onnx.helper.make_opsetid("", given)],
        ir_version=10,
    )
    try:
        found = onnx.version_converter.convert_version(alone, newest).graph.node
    except (RuntimeError, ValueError, TypeError, KeyError):
        return False
    if len(found) != 1 or found[0].op_type != node.op_type:
        return False
    ends = list(found[0].input) == list(node.input) and list(found[0].output) == list(node.output)
    return ends and _attributes(found[0]) == _attributes(node)


def _element_type(types: Iterable[str]) -> int:
    """The element type of a float tensor if there is such among them, else of the first tensor."""
    names = sorted(t[len("tensor(") : -1] for t in types if t.startswith("tensor("))
    name = "float" if "float" in names or not names else names[0]
    return onnx.TensorProto.DataType.Value(name.upper())


def _attributes(node: onnx.NodeProto) -> list[bytes]:
    return sorted(a.SerializeToString(deterministic=True) for a in node.attribute)


@dataclass(frozen=True)
class _Weights:
    """Weights that the converter need not see, as inputs of the same type instead."""

    names: frozenset[str]
    inputs: tuple[onnx.ValueInfoProto, ...]

    @classmethod
    def of(cls, graph: onnx.GraphProto) -> _Weights:
        """All that are large or lie in other files."""
        given = {value.name for value in graph.input}
        large = [
            tensor
            for tensor in graph.initializer
            if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.ByteSize() > _SMALL_BYTES
        ]
        value = onnx.helper.make_tensor_value_info
        return cls(
            frozenset(tensor.name for tensor in large),
            tuple(value(t.name, t.data_type, list(t.dims)) for t in large if t.name not in given),
        )


def _take_converted(proto: onnx.ModelProto, op_types: set[str], given: int, newest: int) -> None:
    """Puts what the converter makes of renewed ops into the graph; other nodes stay as they are.

    Raises:
        CompileError: MCM-I005 with what the converter says.
    """
    graph = proto.graph
    weights = _Weights.of(graph)
    # The weights stay out of the copy, which would double them.
    seen = onnx.ModelProto(ir_version=min(proto.ir_version, 10), opset_import=proto.opset_import)
    seen.graph.name = graph.name or "graph"
    seen.graph.node.extend(graph.node)
    seen.graph.input.extend([*graph.input, *weights.inputs])
    seen.graph.output.extend(graph.output)
    seen.graph.value_info.extend(graph.value_info)
    seen.graph.initializer.extend(t for t in graph.initializer if t.name not in weights.names)
    try:
        converted = onnx.version_converter.convert_version(seen, newest).graph
    except (RuntimeError, ValueError, TypeError, KeyError) as error:
        text = " ".join(str(error).split()).rpartition("failed: ")[2][:300]
        raise _refused(given, f"onnx's version converter says: {text}", None) from error
    own = {tuple(node.output): node for node in graph.node if node.op_type not in op_types}
    nodes = [own.get(tuple(node.output), node) for node in converted.node]
    kept = {tuple(node.output) for node in nodes}
    if lost := [node for outputs, node in own.items() if outputs not in kept]:
        raise _refused(given, f"onnx's version converter drops op {quote(lost[0].name)}", None)
    known = {tensor.name for tensor in graph.initializer} | {v.name for v in graph.input}
    graph.initializer.extend(t for t in converted.initializer if t.name not in known)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _listed(renewed: list[tuple[onnx.NodeProto, _Body]]) -> str:
    return ", ".join(sorted({node.op_type for node, _ in renewed}))


def _refused(given: int, reason: str, at: str | None) -> CompileError:
    return CompileError.of(
        "MCM-I005",
        f"the model needs opset {given}; the installed onnxruntime guarantees {MIN_OPSET} to "
        f"{newest_opset()}, and it cannot be converted: {reason}",
        at=at or "opset_import",
    )
