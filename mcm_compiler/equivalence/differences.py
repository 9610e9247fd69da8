"""How an op of a chip differs from the op of the model that it says it comes from."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY
from mcm_compiler.diagnostics import quote
from mcm_compiler.equivalence.values.graph_walk import Numbers
from mcm_compiler.equivalence.values.op_keys import domain_of
from mcm_compiler.equivalence.values.source_values import SourceValues
from mcm_compiler.equivalence.values.value_numbers import OpKey, ValueNumbers


def difference(node: ir.Node, known: Numbers, numbers: ValueNumbers, source: SourceValues) -> str:
    """What differs first: type, attribute, weight or wire; in words."""
    name = node.metadata_props.get(ORIGIN_PROPERTY, "")
    origin = source.nodes.get(name)
    if origin is None:
        return "computes what no op of the model computes"
    if (domain_of(node), node.op_type) != (domain_of(origin), origin.op_type):
        return f"is a {quote(node.op_type)}, the model has a {quote(origin.op_type)}"
    own, given = _op(node, known, numbers), _op(origin, source.known, numbers)
    if own is None or given is None:
        return "is not the op of the model that it comes from"
    if own.version != given.version:
        return f"is version {own.version} of the op, the model has version {given.version}"
    ours, theirs = dict(own.attributes), dict(given.attributes)
    for attribute in sorted({*ours, *theirs}):
        if ours.get(attribute) != theirs.get(attribute):
            return (
                f"has the attribute {quote(attribute)} {_shown(node, attribute)}, "
                f"the model has {_shown(origin, attribute)}"
            )
    if own.bodies != given.bodies:
        return "has another body than the op of the model"
    for position in range(max(len(own.inputs), len(given.inputs))):
        left, right = own.reads(position), given.reads(position)
        if left != right:
            return _operand(node, origin, position, left, right, numbers)
    if own.outputs != given.outputs:
        return "has other outputs than the op of the model"
    return "is a copy of an op that draws random numbers"


def _op(node: ir.Node, known: Numbers, numbers: ValueNumbers) -> OpKey | None:
    for value in node.outputs:
        made = numbers.made_by(known[value]) if known.get(value, -1) >= 0 else None
        if made is not None:
            return made[1]
    return None


def _operand(
    node: ir.Node,
    origin: ir.Node,
    position: int,
    left: int | None,
    right: int | None,
    numbers: ValueNumbers,
) -> str:
    given = _name(origin, position)
    if left is None or right is None:
        count = "lacks" if left is None else "has"
        return f"{count} input {position}, unlike the model's"
    if left in numbers.constant and right in numbers.constant:
        return f"reads another weight than {given} of the model as input {position}"
    return (
        f"reads another value as input {position}: {_name(node, position)} is not {given} of "
        "the model"
    )


def _name(node: ir.Node, position: int) -> str:
    value = node.inputs[position] if position < len(node.inputs) else None
    return quote(value.name or "") if value is not None else "nothing"


def _shown(node: ir.Node, attribute: str) -> str:
    found = node.attributes.get(attribute)
    if found is None:
        return "of its default"
    if found.type is ir.AttributeType.TENSOR:
        return "of another tensor"
    return quote(str(found.value)[:100])
