"""Types and shapes of emitted ops, op by op.

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

Array = npt.NDArray[Any]

MOST_KNOWN_ELEMENTS = 1024
"""Constants up to this size decide shapes by their values, as those of `Reshape` do."""


class EmissionError(ValueError):
    """An emitted op whose result has no static shape, or that is no valid op."""


@dataclass(frozen=True)
class Operand:
    """What is known of one input.

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
