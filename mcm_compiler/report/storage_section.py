"""The widths in which chips store the element types of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import onnx_ir as ir

from mcm_compiler.contracts.target import Target

if TYPE_CHECKING:
    from mcm_compiler.report.records.verdict import StoredWidth

STORAGE_SECTION: Final = "stored_widths"
"""Name of the field; reports of earlier releases lack it."""

_PROBE = 8192
"""Elements of a value whose bytes are asked for: whole bytes in every width."""


def stored_widths(graph: ir.Graph, target: Target) -> list[StoredWidth]:
    """Types of values of a graph that the target stores in another width than ONNX, by name."""
    values = [*graph.inputs, *graph.initializers.data.values()]
    values += [value for node in graph for value in node.outputs]
    types = {value.dtype for value in values if value.dtype is not None}
    costs = target.cost_model()
    rows: list[StoredWidth] = []
    for dtype in sorted(types, key=lambda one: one.name):
        if dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING):
            continue
        probe = ir.Value(type=ir.TensorType(dtype), shape=ir.Shape((_PROBE,)))
        stored = 8.0 * costs.storage_bytes(probe) / _PROBE
        if stored != dtype.bitwidth:
            name = dtype.name.lower()
            rows.append({"type": name, "file_bits": dtype.bitwidth, "stored_bits": stored})
    return rows


def width_phrase(rows: list[StoredWidth] | None) -> str | None:
    """Such as `FLOAT stored as 16 bits`; None where all types keep their width."""
    if not rows:
        return None
    shown = [f"{row['type'].upper()} as {row['stored_bits']:g} bits" for row in rows]
    return f"chips store {', '.join(shown)}"
