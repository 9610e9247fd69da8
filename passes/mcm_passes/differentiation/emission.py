"""Emits ops behind those of a graph: named by what they are for, with types and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_passes.differentiation.inferred_types import (
    MOST_KNOWN_ELEMENTS,
    Operand,
    TypeInference,
    known_array,
)

Array = npt.NDArray[Any]


class Emitter:
    """The `GradientOps` of a graph. What it emits joins the graph in `finish`.

    Args:
        graph: all values that rules read have types and static shapes.
        version: opset version of ONNX's own domain.
    """

    def __init__(self, graph: ir.Graph, version: int) -> None:
        self._graph = graph
        self._version = version
        self._inference = TypeInference(version)
        self._names = UnusedNames(graph)
        self._nodes: list[ir.Node] = []
        self._operands: dict[ir.Value, Operand] = {}
        self._constants: dict[tuple[Any, ...], ir.Value] = {}
        self._scope = "grad"
        self._counts: dict[str, int] = {}

    @property
    def version(self) -> int:
        """Opset version of ONNX's own domain."""
        return self._version

    @property
    def emitted(self) -> int:
        """Number of ops so far."""
        return len(self._nodes)

    def enter(self, scope: str) -> None:
        """Names what follows `<scope>/<n>`."""
        self._scope = scope

    def name(self, wanted: str) -> str:
        """A name that nothing has yet."""
        return self._names.take(wanted)

    def op(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """See `GradientOps`."""
        return self.ops(1, op_type, *inputs, **attributes)[0]

    def ops(
        self, outputs: int, op_type: str, *inputs: ir.Value | None, **attributes: Any
    ) -> tuple[ir.Value, ...]:
        """See `GradientOps`.

        Raises:
            EmissionError: for an op that is not valid, or whose results are not static.
        """
        found = [ir.convenience.convert_attribute(k, v) for k, v in attributes.items()]
        operands = [None if value is None else self.operand(value) for value in inputs]
        named = {attribute.name: attribute for attribute in found}
        results = self._inference.results(op_type, operands, named, outputs)
        count = self._counts.get(self._scope, 0)
        self._counts[self._scope] = count + 1
        name = self._names.take(f"{self._scope}/{count}")
        values = [
            ir.Value(
                name=name if not index else self._names.take(f"{name}.{index}"),
                type=ir.TensorType(dtype),
                shape=ir.Shape(shape),
            )
            for index, (dtype, shape) in enumerate(results)
        ]
        known = _shape_taken(op_type, operands, found)
        for value, (dtype, shape) in zip(values, results, strict=True):
            self._operands[value] = Operand(dtype, shape, known)
        node = ir.Node("", op_type, inputs, found, outputs=values, name=name)
        node.metadata_props[ORIGIN_PROPERTY] = name
        self._nodes.append(node)
        return tuple(values)

    def constant(self, value: npt.NDArray[Any]) -> ir.Value:
        """See `GradientOps`; large ones of equal elements are filled when the model runs."""
        array = np.asarray(value)
        key = (array.dtype.name, array.shape, array.tobytes())
        found = self._constants.get(key)
        if found is None:
            small = array.size <= MOST_KNOWN_ELEMENTS
            filled = not small and bool((array == array.reshape(-1)[0]).all())
            found = self._fill(array) if filled else self._initializer(array)
            self._constants[key] = found
        return found

    def like(self, value: ir.Value, number: float) -> ir.Value:
        """See `GradientOps`."""
        return self.constant(np.array(number, self.operand(value).dtype.numpy()))

    def reduced_to(self, gradient: ir.Value, operand: ir.Value) -> ir.Value:
        """See `GradientOps`."""
        wide, narrow = self.operand(gradient).shape, self.operand(operand).shape
        if wide == narrow:
            return gradient
        lead = len(wide) - len(narrow)
        axes = [*range(lead)]
        kept = [d + lead for d, size in enumerate(narrow) if size == 1 and wide[d + lead] != 1]
        if axes and kept:
            axes, kept = [*axes, *kept], []
            gradient = self.op("ReduceSum", gradient, self._ints(axes), keepdims=0)
            return self.op("Reshape", gradient, self._ints(narrow))
        return self.op("ReduceSum", gradient, self._ints(axes or kept), keepdims=int(bool(kept)))

    def operand(self, value: ir.Value) -> Operand:
        """What is known of a value.

        Raises:
            ValueError: where its type or shape is not.
        """
        found = self._operands.get(value)
        if found is None:
            shape, dtype = value.shape, value.dtype
            if dtype is None or shape is None or not shape.is_static():
                raise ValueError(f"the type or shape of {value.name!r} is not static")
            dims = tuple(int(dim) for dim in shape.numpy())
            found = self._operands[value] = Operand(dtype, dims, known_array(value))
        return found

    def finish(self) -> list[ir.Node]:
        """Puts the emitted ops behind those of the graph, and returns them."""
        nodes, self._nodes = self._nodes, []
        self._graph.extend(nodes)
        return nodes

    def _ints(self, numbers: Any) -> ir.Value:
        return self.constant(np.array(numbers, np.int64))

    def _fill(self, array: Array) -> ir.Value:
        extents = self._ints(array.shape)
        return self.op("ConstantOfShape", extents, value=ir.tensor(array.reshape(-1)[:1]))

    def _initializer(self, array: Array) -> ir.Value:
        name = self._names.take(f"constant/{len(self._constants)}")
        tensor = ir.tensor(array, name=name)
        value = ir.Value(
            name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape),
            const_value=tensor,
        )  # fmt: skip
        self._graph.register_initializer(value)
        small = array if array.size <= MOST_KNOWN_ELEMENTS else None
        self._operands[value] = Operand(tensor.dtype, tuple(array.shape), small)
        return value


def _shape_taken(
    op_type: str, operands: Sequence[Operand | None], attributes: Sequence[ir.Attr]
) -> Array | None:
    """What `Shape` gives, so that a `Reshape` to it has a static shape."""
    if op_type != "Shape" or attributes or operands[0] is None:
        return None
    return np.array(operands[0].shape, np.int64)
