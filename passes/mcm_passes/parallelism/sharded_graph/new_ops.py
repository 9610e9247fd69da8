"""New ops and constants of a graph that is rewritten, with names of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.ir.rewriting.naming import UnusedNames

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
        kind = ir.TensorType(dtype) if dtype is not None else None
        result = ir.Value(name=self.names.take(f"{name}/out"), type=kind, shape=ir.Shape(shape))
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
        value = ir.Value(
            name=tensor.name,
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(array.shape),
            const_value=tensor,
        )
        self._graph.register_initializer(value)
        return value

    def insert(self, node: ir.Node) -> None:
        """Puts an op in its place."""
        if self.before is None:
            self._graph.append(node)
        else:
            self._graph.insert_before(self.before, node)
        self.nodes.append(node)
