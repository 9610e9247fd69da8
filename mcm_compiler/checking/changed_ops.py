"""Which op of a chip's model is not what it was in the source model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY
from mcm_compiler.contracts.target import ChipModel
from mcm_compiler.diagnostics import quote

_COMPARED = (
    ir.AttributeType.FLOAT,
    ir.AttributeType.INT,
    ir.AttributeType.STRING,
    ir.AttributeType.FLOATS,
    ir.AttributeType.INTS,
    ir.AttributeType.STRINGS,
)


def changed_op(chips: Sequence[ChipModel], source: ir.Model) -> str | None:
    """The first op of another type, or with another attribute, than the op that it comes from.

    Passes may have changed it for good reasons; this tells where to look when results differ.

    Args:
        chips: the chips' models.
        source: the source model.
    """
    origins = {node.name: node for node in source.graph}
    for chip in chips:
        for node in chip.model.graph:
            origin = origins.get(node.metadata_props.get(ORIGIN_PROPERTY, ""))
            if origin is not None and (what := _change(node, origin)) is not None:
                return f"op {quote(node.name or '')} of chip {chip.chip} {what}"
    return None


def _change(node: ir.Node, origin: ir.Node) -> str | None:
    if (node.domain, node.op_type) != (origin.domain, origin.op_type):
        return f"is a {quote(node.op_type)}, it was a {quote(origin.op_type)}"
    for name in sorted({*node.attributes, *origin.attributes}):
        now, was = _value(node, name), _value(origin, name)
        if now != was:
            return f"has the attribute {quote(name)} {_shown(now)}, it had {_shown(was)}"
    return None


def _value(node: ir.Node, name: str) -> Any:
    attribute = node.attributes.get(name)
    if attribute is None or attribute.type not in _COMPARED:
        return None
    return attribute.value


def _shown(value: Any) -> str:
    return "none" if value is None else quote(str(value))
