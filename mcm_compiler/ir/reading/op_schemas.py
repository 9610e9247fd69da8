"""Nodes against the definitions of their ops: attributes, and the number of inputs and outputs.

onnxruntime checks the same while it loads a model, with a message that names neither place nor
remedy; where a required input is missing it has been seen to crash.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.structure import MAX_FAULTS, onnx_domain, place_of, schema_of, subgraphs_of

_TEXT = (onnx.AttributeProto.STRING, onnx.AttributeProto.STRINGS)

_NAME_OF = {int(number): name for name, number in onnx.AttributeProto.AttributeType.items()}

_Schemas = dict[tuple[str, str], "onnx.defs.OpSchema | None"]


def check_ops(proto: onnx.ModelProto) -> list[Diagnostic]:
    """Checks all nodes whose op is defined by ONNX, those of subgraphs and functions included.

    Returns:
        MCM-I017 for an attribute that is of the wrong type, unknown, repeated, required and
        missing, or refers to a function's outside of functions. Likewise for too many or too few
        inputs and outputs.
    """
    local = {(onnx_domain(f.domain), f.name) for f in proto.functions}
    faults = _check_nodes(proto.graph.node, _Definitions(proto.opset_import, local), local=False)
    for function in proto.functions:
        faults += _check_nodes(
            function.node, _Definitions(function.opset_import, local), local=True
        )
    return faults[:MAX_FAULTS]


class _Definitions:
    """The definitions of ops in the versions that a model or function imports."""

    def __init__(
        self, imports: Iterable[onnx.OperatorSetIdProto], local: set[tuple[str, str]]
    ) -> None:
        self._versions = {onnx_domain(entry.domain): entry.version for entry in imports}
        self._known: _Schemas = dict.fromkeys(local)

    def find(self, node: onnx.NodeProto) -> onnx.defs.OpSchema | None:
        """The definition of the node's op; None where ONNX has none, or a local function has it."""
        key = (onnx_domain(node.domain), node.op_type)
        if key not in self._known:
            found = schema_of(node.op_type, self._versions.get(key[0], 0), key[0])
            self._known[key] = None if found is None or found.deprecated else found
        return self._known[key]


def _check_nodes(
    nodes: Iterable[onnx.NodeProto], definitions: _Definitions, *, local: bool
) -> list[Diagnostic]:
    """Checks nodes and what they hold.

    Args:
        nodes: of a graph or a function.
        definitions: of their ops.
        local: whether they belong to a function.
    """
    faults: list[Diagnostic] = []
    for node in nodes:
        schema = definitions.find(node)
        complaint = _unreadable_attribute(node, local)
        if complaint is None and schema is not None:
            complaint = _attributes_of(node, schema) or _arity_of(node, schema) or _bodies_of(node)
        if complaint is not None:
            kind = quote(node.op_type)[1:-1]
            faults.append(
                Diagnostic(
                    "MCM-I017",
                    complaint,
                    at=place_of(node),
                    hint=f"the definition of {kind} says what it takes; export again, or correct "
                    "the node",
                )
            )
        for subgraph in subgraphs_of(node):
            faults += _check_nodes(subgraph.node, definitions, local=local)
    return faults


def _unreadable_attribute(node: onnx.NodeProto, local: bool) -> str | None:
    """Attributes without a type or a value can be neither read nor written, whatever the op."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.UNDEFINED:
            return f"the attribute {quote(attribute.name)} has no type"
        if attribute.ref_attr_name and not local:
            return (
                f"the attribute {quote(attribute.name)} refers to the attribute "
                f"{quote(attribute.ref_attr_name)} of a function, and the node is in none"
            )
    return None


def _attributes_of(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> str | None:
    known = schema.attributes
    seen: set[str] = set()
    for attribute in node.attribute:
        name = attribute.name
        if name in seen:
            return f"the attribute {quote(name)} is given twice"
        seen.add(name)
        if name not in known:
            if name.startswith("_"):
                continue  # a tool's private mark, which ONNX lets pass
            return f"there is no attribute {quote(name)}"
        wanted = int(known[name].type)  # pyright: ignore[reportArgumentType]
        if attribute.type != wanted and not (attribute.ref_attr_name and not attribute.type):
            given = _NAME_OF.get(attribute.type, "unknown")
            return (
                f"the attribute {quote(name)} has the type {given}, "
                f"{node.op_type} wants {_NAME_OF[wanted]}"
            )
        if wanted in _TEXT and not all(map(_is_text, (attribute.s, *attribute.strings))):
            return f"the attribute {quote(name)} is not UTF-8"
    missing = [name for name, entry in known.items() if entry.required and name not in seen]
    return f"the attribute {quote(sorted(missing)[0])} is missing" if missing else None


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _arity_of(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> str | None:
    for what, names, least, most in (
        ("inputs", node.input, schema.min_input, schema.max_input),
        ("outputs", node.output, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most:
            span = f"{least}" if least == most else f"{least} to {most}"
            return f"it has {len(names)} {what}, {node.op_type} has {span}"
    formal = schema.inputs
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    for i, name in enumerate(node.input):
        parameter = formal[min(i, len(formal) - 1)]
        if not name and parameter.option != optional:
            return f"the input {i} ({parameter.name}) is empty, and it is not optional"
    return None


def _bodies_of(node: onnx.NodeProto) -> str | None:
    """Return whether the subgraphs of a control flow op give what the op gives."""
    if node.op_type not in ("If", "Loop", "Scan"):
        return None
    # The first result of a Loop's body is whether to go on.
    wanted = len(node.output) + (node.op_type == "Loop")
    for subgraph in subgraphs_of(node):
        if len(subgraph.output) != wanted:
            given = len(subgraph.output)
            return f"the subgraph {quote(subgraph.name)} has {given} outputs, it needs {wanted}"
    return None
