"""Models that are spelt alike: the same ops in the same order, wired by the same names.

Most imports leave all ops as a file has them. Then its text is the proof, which takes a tenth of
the time of numbering the values of both models. Whatever is spelt differently may still mean the
same; that is left to `same_model`.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir

from mcm_compiler.equivalence.values.weight_contents import WeightContents
from mcm_compiler.execution.piecewise import StoredBytes

_PLAIN = frozenset(
    {
        onnx.AttributeProto.FLOAT,
        onnx.AttributeProto.INT,
        onnx.AttributeProto.STRING,
        onnx.AttributeProto.TENSOR,
        onnx.AttributeProto.FLOATS,
        onnx.AttributeProto.INTS,
        onnx.AttributeProto.STRINGS,
    }
)
"""Kinds of attributes that say all in the node itself."""

_COPIED_BYTES = 1 << 20
"""Weights up to this size are copied to be compared."""


def spelt_alike(
    original: onnx.ModelProto,
    folder: Path,
    form: onnx.ModelProto,
    form_folder: Path,
) -> bool:
    """Whether the main graphs have the same ops, ends and weights; False where that is not plain.

    Functions and bodies of control flow are never plain.

    Args:
        original: a model.
        folder: of its external data.
        form: what is said to be the same model.
        form_folder: of its external data.
    """
    left, right = original.graph, form.graph
    if original.functions or form.functions or _opsets(original) != _opsets(form):
        return False
    if left.sparse_initializer or right.sparse_initializer or len(left.node) != len(right.node):
        return False
    return (
        _ends(left) == _ends(right)
        and all(
            a.op_type == b.op_type
            and a.domain == b.domain
            and a.overload == b.overload
            and a.input == b.input
            and a.output == b.output
            and _same_attributes(a, b)
            for a, b in zip(left.node, right.node, strict=True)
        )
        and _same_weights(left, folder, right, form_folder)
    )


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    return {entry.domain: entry.version for entry in model.opset_import}


def _ends(graph: onnx.GraphProto) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Names and element types of what the host gives, and names of what it gets."""
    weights = {tensor.name for tensor in graph.initializer}
    given = [(info.name, _type(info.type)) for info in graph.input if info.name not in weights]
    return given, [info.name for info in graph.output]


def _type(proto: onnx.TypeProto) -> bytes:
    kind = onnx.TypeProto()
    kind.CopyFrom(proto)
    kind.ClearField("denotation")
    if kind.HasField("tensor_type"):
        kind.tensor_type.ClearField("shape")  # sizes are bound in one of the two
    return kind.SerializeToString(deterministic=True)


def _same_attributes(left: onnx.NodeProto, right: onnx.NodeProto) -> bool:
    """Whether attributes have the same bits; False where their values are not in them alone."""
    return len(left.attribute) == len(right.attribute) and all(
        a.type in _PLAIN
        and not a.ref_attr_name
        and a.t.data_location != onnx.TensorProto.EXTERNAL
        and a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True)
        for a, b in zip(left.attribute, right.attribute, strict=True)
    )


def _same_weights(
    left: onnx.GraphProto,
    folder: Path,
    right: onnx.GraphProto,
    form_folder: Path,
) -> bool:
    contents = WeightContents()
    bytes_left, bytes_right = StoredBytes(folder), StoredBytes(form_folder)
    held = {tensor.name: tensor for tensor in right.initializer}
    if not len(left.initializer) == len(right.initializer) == len(held):
        return False
    for tensor in left.initializer:
        other = held.pop(tensor.name, None)
        if other is None:
            return False
        data = bytes_left.of(tensor, _COPIED_BYTES)
        if (
            data is not None
            and tensor.data_type == other.data_type
            and tensor.dims == other.dims
            and data == bytes_right.of(other, _COPIED_BYTES)
        ):
            continue
        # What is remembered is the mapped one; inline weights of the original are not held on to.
        content = contents.content(ir.serde.deserialize_tensor(other, form_folder))
        if content != contents.content_of_new(ir.serde.deserialize_tensor(tensor, folder)):
            return False
    return True
