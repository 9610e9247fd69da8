"""Which ops a chip can run, by their names and the element types of their tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import onnx_ir as ir

from mcm_compiler.contracts.target import Fallback, Unsupported
from mcm_compiler.graph.constants import subgraphs
from mcm_hardware.tensors.packed_weights import is_constant
from mcm_hardware.tensors.storage_widths import value_dtype

TABLE_BYTES = 2**20
"""Size in the file from which a table counts as large."""

ROWS_PER_READ = 16
"""Rows that a large table has at least for each that an inference reads."""

RUNS_NOTHING = frozenset({"Constant", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze",
                          "com.microsoft::ExpandDims"})  # fmt: skip
"""Ops that no chip can lack: views and constants run nothing, and an Identity is what passes a
tensor on, a copy of bytes whatever their type."""

_POSITIONS = frozenset({"tensor(int32)", "tensor(int64)"})

PEAK_OPS_PER_S = 1e11
"""Of one core with two 256-bit units for float32 at 3 GHz, rounded up."""

MEMORY_BYTES_PER_S = 2e10
"""About one channel of DDR4."""

LAUNCH_S = 5e-6
"""An interrupt, a wake-up and a call of a kernel."""


@dataclass(frozen=True)
class HostNumbers:
    """The share of the host that each chip has at any time, however many chips ask for it.

    Attributes:
        ops_per_s: arithmetic; a multiply-accumulate counts as two.
        memory_bytes_per_s: between the host's cores and its memory.
        launch_s: overhead of one op.
    """

    ops_per_s: float = PEAK_OPS_PER_S
    memory_bytes_per_s: float = MEMORY_BYTES_PER_S
    launch_s: float = LAUNCH_S


@dataclass(frozen=True)
class OpSupport:
    """The ops that chips can run, and the handling of the rest.

    Attributes:
        ops: names as `op_name` gives them.
        only_ops: whether chips run these ops alone, or all but these.
        types: element types.
        only_types: whether chips know these types alone, or all but these.
        fallback: what becomes of the rest where a compile does not say.
        host: how fast it is there.
        large_tables: place of tables of which an inference reads few rows.
    """

    ops: frozenset[str] = frozenset()
    only_ops: bool = False
    types: frozenset[ir.DataType] = frozenset()
    only_types: bool = False
    fallback: Fallback = "host"
    host: HostNumbers = HostNumbers()
    large_tables: Literal["chips", "host"] = "chips"

    def unsupported(self, node: ir.Node) -> Unsupported | None:
        """Why chips cannot run `node`; None if they can.

        An op with subgraphs needs all that stands in them. A constant operand whose ONNX type is
        that of sizes, axes and positions is no tensor of the chip: it is known beforehand.
        """
        name = op_name(node)
        if name in RUNS_NOTHING:
            return None
        if (name in self.ops) is not self.only_ops:
            return Unsupported("op", name)
        if self.large_tables == "host" and reads_few_rows(node):
            return Unsupported("table", name)
        for value in self._lacking(node):
            dtype = value_dtype(value)
            return Unsupported("type", dtype.name if dtype is not None else "")
        for graph in subgraphs(node) if node.attributes else ():
            for inner in graph:
                if (found := self.unsupported(inner)) is not None:
                    return Unsupported(found.because, found.what, inside=True)
        return None

    def _lacking(self, node: ir.Node) -> Iterator[ir.Value]:
        """Tensors of `node` whose type chips do not know."""
        if not self.types:
            return
        for index, value in enumerate((*node.inputs, *node.outputs)):
            dtype = None if value is None else value_dtype(value)
            if value is None or dtype is None or dtype is ir.DataType.UNDEFINED:
                continue
            if (dtype in self.types) is self.only_types:
                continue
            known = index < len(node.inputs) and is_constant(value)
            if not (known and _is_position(node.domain, node.op_type, node.version, index)):
                yield value


@dataclass(frozen=True)
class SharedSupport(OpSupport):
    """The ops that chips of some kind can run.

    Attributes:
        kinds: what chips of each kind run.
    """

    kinds: tuple[OpSupport, ...] = ()

    def unsupported(self, node: ir.Node) -> Unsupported | None:
        """Why no chip can run `node`, as the first kind says; None if some kind can."""
        reasons = [kind.unsupported(node) for kind in self.kinds]
        return None if None in reasons else reasons[0]


def reads_few_rows(node: ir.Node) -> bool:
    """Return whether an op looks up few rows of a large constant table in an inference."""
    axis = {"Gather": "axis", "com.microsoft::GatherBlockQuantized": "gather_axis"}
    if (name := axis.get(op_name(node))) is None or node.attributes.get_int(name, 0) != 0:
        return False
    table, indices = node.inputs[:2]
    if table is None or indices is None or table.dtype is None or not is_constant(table):
        return False
    sizes, read = _sizes(table), _sizes(indices)
    if sizes is None or read is None:
        return False
    large = math.prod(sizes) * table.dtype.itemsize >= TABLE_BYTES
    return large and ROWS_PER_READ * math.prod(read) <= sizes[0]


def _sizes(value: ir.Value) -> tuple[int, ...] | None:
    """The shape of a value, if it is known."""
    shape = value.shape
    return shape.numpy() if shape is not None and shape.is_static() else None


def op_name(node: ir.Node) -> str:
    """`Softmax`, or with another domain than ONNX's own `com.microsoft::Gelu`."""
    if node.domain in ("", "ai.onnx"):
        return node.op_type
    return f"{node.domain}::{node.op_type}"


@lru_cache(maxsize=4096)
def _is_position(domain: str, op_type: str, version: int | None, index: int) -> bool:
    """Return whether an input of an op is of integers alone: sizes, axes or positions."""
    import onnx.defs

    domain = "" if domain == "ai.onnx" else domain
    try:
        schema = (
            onnx.defs.get_schema(op_type, domain)
            if version is None
            else onnx.defs.get_schema(op_type, version, domain)
        )
    except onnx.defs.SchemaError:
        return False
    if not schema.inputs:
        return False
    formal = schema.inputs[min(index, len(schema.inputs) - 1)]
    return set(formal.types) <= _POSITIONS
