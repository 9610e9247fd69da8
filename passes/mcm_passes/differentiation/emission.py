"""Emits ops behind those of a graph: named by what they are for, with types and shapes.

Inference over the whole graph again would take minutes where steps are unrolled; such graphs repeat
few ops, so that what one op makes is remembered by all that decides it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx import shape_inference

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY
from mcm_compiler.graph.constants import add_initializer
from mcm_compiler.ir.rewriting.naming import UnusedNames

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
            ir.val(self._names.take(f"{name}.{index}") if index else name, dtype, shape)
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
        """Facts of a value.

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
        value = add_initializer(self._graph, tensor)
        small = array if array.size <= MOST_KNOWN_ELEMENTS else None
        self._operands[value] = Operand(tensor.dtype, tuple(array.shape), small)
        return value


def _shape_taken(
    op_type: str, operands: Sequence[Operand | None], attributes: Sequence[ir.Attr]
) -> Array | None:
    """Result of `Shape`, so that a `Reshape` to it has a static shape."""
    if op_type != "Shape" or attributes or operands[0] is None:
        return None
    return np.array(operands[0].shape, np.int64)


MOST_KNOWN_ELEMENTS = 1024
"""Constants up to this size decide shapes by their values, as those of `Reshape` do."""


class EmissionError(ValueError):
    """An emitted op whose result has no static shape, or that is no valid op."""


@dataclass(frozen=True)
class Operand:
    """Facts of one input.

    Attributes:
        dtype: its element type.
        shape: its static shape.
        array: its value where it is a small constant.
    """

    dtype: ir.DataType
    shape: tuple[int, ...]
    array: Array | None = None


Result = tuple[ir.DataType, tuple[int, ...]]


class TypeInference:
    """Infers types and shapes of ops of ONNX's own domain.

    Args:
        version: opset version.
    """

    def __init__(self, version: int) -> None:
        self._version = version
        self._known: dict[tuple[Any, ...], tuple[Result, ...]] = {}

    def results(
        self,
        op_type: str,
        operands: Sequence[Operand | None],
        attributes: Mapping[str, ir.Attr],
        outputs: int,
    ) -> tuple[Result, ...]:
        """The type and shape of each output.

        Raises:
            EmissionError: where onnx finds none, or one that is not static.
        """
        key = (op_type, outputs, *map(_operand_key, operands), *_attribute_keys(attributes))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._inferred(op_type, operands, attributes, outputs)
        return found

    def _inferred(
        self,
        op_type: str,
        operands: Sequence[Operand | None],
        attributes: Mapping[str, ir.Attr],
        outputs: int,
    ) -> tuple[Result, ...]:
        names = ["" if operand is None else f"i{i}" for i, operand in enumerate(operands)]
        results = [f"o{i}" for i in range(outputs)]
        node = onnx.helper.make_node(op_type, names, results)
        node.attribute.extend(ir.to_proto(attribute) for attribute in attributes.values())
        types: dict[str, onnx.TypeProto] = {}
        data: dict[str, onnx.TensorProto] = {}
        for name, operand in zip(names, operands, strict=True):
            if operand is not None:
                dtype = int(operand.dtype)
                types[name] = onnx.helper.make_tensor_type_proto(dtype, operand.shape)
                if operand.array is not None:
                    data[name] = onnx.numpy_helper.from_array(operand.array, name)
        try:
            schema = onnx.defs.get_schema(op_type, self._version, "")
            made = shape_inference.infer_node_outputs(
                schema,
                node,
                types,
                data,
                opset_imports=[onnx.helper.make_opsetid("", self._version)],
            )
        except (
            RuntimeError,
            ValueError,
            shape_inference.InferenceError,
            onnx.defs.SchemaError,
        ) as error:
            text = " ".join(str(error).split())[:300]
            raise EmissionError(f"{op_type} of {_texts(operands)}: {text}") from error
        return tuple(self._static(op_type, operands, made.get(name)) for name in results)

    @staticmethod
    def _static(
        op_type: str, operands: Sequence[Operand | None], made: onnx.TypeProto | None
    ) -> Result:
        tensor = made.tensor_type if made is not None else None
        if tensor is None or not tensor.HasField("shape"):
            raise EmissionError(f"{op_type} of {_texts(operands)} has no static shape")
        dims = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
        if min(dims, default=0) < 0:
            raise EmissionError(f"{op_type} of {_texts(operands)} has no static shape")
        return ir.DataType(tensor.elem_type), dims


def known_array(value: ir.Value) -> Array | None:
    """The elements of a small constant of the graph."""
    if value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or tensor.size > MOST_KNOWN_ELEMENTS:
        return None
    return None if tensor.dtype is ir.DataType.STRING else tensor.numpy()


def _operand_key(operand: Operand | None) -> Any:
    if operand is None:
        return None
    array = operand.array
    return (operand.dtype, operand.shape, None if array is None else array.tobytes())


def _attribute_keys(attributes: Mapping[str, ir.Attr]) -> list[Any]:
    return [(name, _plain(attributes[name])) for name in sorted(attributes)]


def _plain(attribute: ir.Attr) -> Any:
    """The value of an attribute in a form that can be compared."""
    value = attribute.value
    if attribute.type is ir.AttributeType.TENSOR:
        array = np.asarray(value.numpy())
        return (value.dtype, array.shape, array.tobytes())
    return tuple(value) if isinstance(value, tuple | list) else value


def _texts(operands: Sequence[Operand | None]) -> str:
    return ", ".join(
        "nothing" if operand is None else f"{operand.dtype.name}{list(operand.shape)}"
        for operand in operands
    )
