"""New ops and constants of a graph that is rewritten, with names of their own.

This is how an embedding is divided along its vocabulary (Shoeybi et al. 2019, *Megatron-LM*,
section 3; Auto-MAP's `embedding=0`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.graph.constants import add_initializer
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_passes.parallelism.oversized.graph_edits import fixed_shape, op_like
from mcm_passes.parallelism.oversized.weight_slices import Slice
from mcm_passes.parallelism.rules.shard_forms import ShardForm

Dims = Sequence[int | ir.SymbolicDim]


class NewOps:
    """Makes ops before the one that is looked at, or at the end of the graph.

    Args:
        graph: where they are put.
        names: gives their names.

    Attributes:
        before: the op that is looked at; None at the end.
        stem: what names begin with.
        nodes: all that were made.
    """

    def __init__(self, graph: ir.Graph, names: UnusedNames) -> None:
        self._graph = graph
        self.names = names
        self.before: ir.Node | None = None
        self.stem = ""
        self.nodes: list[ir.Node] = []

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return self._graph.opset_imports.get("", 1)

    def op(
        self,
        op_type: str,
        operands: Sequence[ir.Value | None],
        attributes: Sequence[ir.Attr],
        dtype: ir.DataType | None,
        shape: Dims,
    ) -> ir.Value:
        """The only result of a new op of ONNX's domain."""
        name = self.names.take(f"{self.stem}/{op_type.lower()}")
        result = ir.val(self.names.take(f"{name}/out"), dtype, ir.Shape(shape))
        self.insert(
            ir.Node(
                "",
                op_type,
                operands,
                attributes,
                outputs=[result],
                name=name,
                metadata_props=dict(self.before.metadata_props) if self.before else None,
            )
        )
        return result

    def like(self, op_type: str, operands: Sequence[ir.Value], *attributes: ir.Attr) -> ir.Value:
        """The result of an op that has type and shape of its first operand."""
        first = operands[0]
        dims = first.shape.dims if first.shape is not None else ()
        return self.op(op_type, operands, attributes, first.dtype, dims)

    def constant(self, array: np.ndarray, name: str) -> ir.Value:
        """A new initializer."""
        tensor = ir.Tensor(array, name=self.names.take(f"{self.stem}/{name}"))
        return add_initializer(self._graph, tensor)

    def part(
        self,
        node: ir.Node,
        operands: Sequence[ir.Value | None],
        results: Sequence[ir.Value],
        form: ShardForm,
        name: str,
        sizes: str = "sizes",
    ) -> ir.Node:
        """One device's part of an op, in its place.

        Args:
            node: the whole op.
            operands: of the part; those that the form changes count for nothing.
            results: of the part.
            form: what changes of the op.
            name: of the part.
            sizes: name of new constants.
        """
        taken = [*operands, *[None] * (max(form.constants, default=-1) + 1 - len(operands))]
        for at, numbers in form.constants.items():
            taken[at] = self.constant(np.array(numbers, np.int64), sizes)
        while taken and taken[-1] is None:
            taken.pop()
        made = op_like(node, taken, results, name, changed_attributes(node, form.attributes))
        self.insert(made)
        return made

    def insert(self, node: ir.Node) -> None:
        """Puts an op in its place."""
        if self.before is None:
            self._graph.append(node)
        else:
            self._graph.insert_before(self.before, node)
        self.nodes.append(node)


@dataclass(frozen=True)
class Extents:
    """Which part of a divided class a shard has.

    Attributes:
        start: first unit.
        stop: one past the last unit.
        units: of the whole class.
    """

    start: int
    stop: int
    units: int

    def of(self, extent: int) -> tuple[int, int]:
        """First element and one past the last, of each run of a dimension of the class.

        Args:
            extent: of a run; of the whole dimension for what all runs of the part have together.
        """
        scale = extent // self.units
        return self.start * scale, self.stop * scale


def changed_attributes(node: ir.Node, changes: Mapping[str, Any]) -> list[ir.Attr]:
    """The attributes of an op with other values for some, which it need not have had.

    Args:
        node: the op.
        changes: integers, texts, or tuples of either.
    """
    kept = [attribute for name, attribute in node.attributes.items() if name not in changes]
    return [*kept, *(_attribute(name, value) for name, value in changes.items())]


def _attribute(name: str, value: Any) -> ir.Attr:
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return ir.AttrStrings(name, list(value))
    if isinstance(value, tuple):
        return ir.AttrInt64s(name, list(value))
    return ir.AttrInt64(name, int(value))


def masked_lookup(
    make: NewOps, node: ir.Node, rows: ir.Value, indices: ir.Value, part: Slice, extent: int
) -> ir.Value:
    """The rows that a `Gather` finds in a part of a table, zeros elsewhere.

    Args:
        make: makes nodes.
        node: the `Gather` on the whole table.
        rows: the shard's rows.
        indices: of the whole table; negative ones count from its end.
        part: place of the rows in the whole table.
        extent: rows of the whole table.
    """
    result = node.outputs[0]
    assert indices.dtype is not None
    kind, at = indices.dtype, fixed_shape(indices)
    number = indices.dtype.numpy()

    def whole_number(value: int, name: str) -> ir.Value:
        return make.constant(np.array(value, number), name)

    zero = whole_number(0, "zero")
    negative = make.op("Less", [indices, zero], [], ir.DataType.BOOL, at)
    from_end = make.op("Add", [indices, whole_number(extent, "rows")], [], kind, at)
    index = make.op("Where", [negative, from_end, indices], [], kind, at)
    before = None
    count = whole_number(part.stop - part.start, "count")
    if part.runs > 1:
        length = whole_number(extent // part.runs, "run")
        run = make.op("Div", [index, length], [], kind, at)
        before = make.op("Mul", [run, count], [], kind, at)
        index = make.op("Sub", [index, make.op("Mul", [run, length], [], kind, at)], [], kind, at)
    own = make.op("Sub", [index, whole_number(part.start, "start")], [], kind, at)
    high = make.op("Less", [own, count], [], ir.DataType.BOOL, at)
    low = make.op("Less", [own, zero], [], ir.DataType.BOOL, at)
    not_low = make.op("Not", [low], [], ir.DataType.BOOL, at)
    here = make.op("And", [high, not_low], [], ir.DataType.BOOL, at)
    if before is not None:
        own = make.op("Add", [own, before], [], kind, at)
    safe = make.op("Where", [here, own, zero], [], kind, at)
    shape = fixed_shape(result)
    found = make.op("Gather", [rows, safe], list(node.attributes.values()), result.dtype, shape)
    axis = node.attributes.get_int("axis", 0)
    axis += (len(shape) - len(at) + 1) if axis < 0 else 0
    behind = len(shape) - axis - len(at)
    mask = here
    if behind:
        # Reshape, because Unsqueeze takes its axes differently in old opsets.
        spread = (*at, *[1] * behind)
        axes = make.constant(np.array(spread, np.int64), "spread")
        mask = make.op("Reshape", [here, axes], [], ir.DataType.BOOL, spread)
    assert result.dtype is not None
    nothing = make.constant(np.array(0, result.dtype.numpy()), "nothing")
    return make.op("Where", [mask, found, nothing], [], result.dtype, shape)
