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

_MEANINGLESS = ("name", "doc_string", "metadata_props", "device_configurations")
"""What a node may say without computing anything else."""


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
        and _same_nodes(left, right)
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


def _same_nodes(left: onnx.GraphProto, right: onnx.GraphProto) -> bool:
    return all(
        (text := _text(a)) is not None and text == _text(b)
        for a, b in zip(left.node, right.node, strict=True)
    )


def _text(node: onnx.NodeProto) -> bytes | None:
    """What an op computes and from what, to the bit; None where that does not stand in it alone."""
    for attribute in node.attribute:
        if attribute.type not in _PLAIN or attribute.ref_attr_name:
            return None
        if attribute.HasField("t") and attribute.t.data_location == onnx.TensorProto.EXTERNAL:
            return None
    bare = onnx.NodeProto()
    bare.CopyFrom(node)
    for field in _MEANINGLESS:
        bare.ClearField(field)
    return bare.SerializeToString(deterministic=True)


def _same_weights(
    left: onnx.GraphProto,
    folder: Path,
    right: onnx.GraphProto,
    form_folder: Path,
) -> bool:
    contents = WeightContents()
    held = {tensor.name: tensor for tensor in right.initializer}
    if not len(left.initializer) == len(right.initializer) == len(held):
        return False
    for tensor in left.initializer:
        other = held.pop(tensor.name, None)
        if other is None:
            return False
        # What is remembered is the mapped one; inline weights of the original are not held on to.
        content = contents.content(ir.serde.deserialize_tensor(other, form_folder))
        if content != contents.content_of_new(ir.serde.deserialize_tensor(tensor, folder)):
            return False
    return True
