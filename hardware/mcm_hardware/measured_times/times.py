"""Measured times of single ops and of kinds of ops, as a table holds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import onnx_ir as ir

from mcm_hardware.tensors.storage_widths import value_dtype
from mcm_hardware.tensors.value_shapes import value_dims


class MeasuredTime(NamedTuple):
    """Seconds on a chip of speed 1, and the line of the table that says so."""

    seconds: float
    line: int


class OpKind(NamedTuple):
    """Ops that take the same time.

    Attributes:
        op_type: with its domain in front where that is not ONNX's own: `com.acme.Blend`.
        inputs: shapes of all operands: `1x64x56x56;64x64x3x3;64`, with `scalar` for rank 0 and
            `-` for one that is left away.
        type: ONNX element type of the first operand, in lower case.
    """

    op_type: str
    inputs: str
    type: str


@dataclass(frozen=True)
class TimesTable:
    """A table as it was read, for one kind of chip.

    Attributes:
        path: name of its file, for diagnostics.
        nodes: times of ops by their names.
        kernels: times of kernels by their names.
        kinds: times of ops by their kinds.
    """

    path: str
    nodes: dict[str, MeasuredTime] = field(default_factory=dict[str, MeasuredTime])
    kernels: dict[str, MeasuredTime] = field(default_factory=dict[str, MeasuredTime])
    kinds: dict[OpKind, MeasuredTime] = field(default_factory=dict[OpKind, MeasuredTime])


def op_kind(node: ir.Node) -> OpKind:
    """The kind of an op; dimensions that depend on data count as the cost model counts them."""
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
    operands = [value for value in node.inputs if value is not None]
    typed = next((v for v in (*operands, *node.outputs) if value_dtype(v) is not None), None)
    dtype = value_dtype(typed) if typed is not None else None
    return OpKind(
        f"{domain}{node.op_type}",
        ";".join(map(_shape_text, node.inputs)),
        dtype.name.lower() if dtype is not None else "",
    )


def _shape_text(value: ir.Value | None) -> str:
    if value is None:
        return "-"
    dims = value_dims(value)
    if dims is None:
        return "?"
    return "x".join(map(str, dims)) if dims else "scalar"
