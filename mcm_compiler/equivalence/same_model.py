"""Check whether a model is another form of the same one: functions inlined, nodes named and sorted.

An importer changes no op, but puts the branch that runs in the place of an `If` that sizes decide;
only for that something is computed. What runs in the end are the ops that outputs depend on, so
that these are compared, with their attributes, weights and wires.

Models that are spelt alike: the same ops in the same order, wired by the same names.

Most imports leave all ops as a file has them. Then its text is the proof, which takes a tenth of
the time of numbering the values of both models. Whatever is spelt differently may still mean the
same; that is left to `same_model`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

from mcm_compiler.diagnostics import quote
from mcm_compiler.equivalence.values.own_identities import OwnIdentities
from mcm_compiler.equivalence.values.source_values import SourceValues, number_source
from mcm_compiler.equivalence.values.value_numbers import ValueNumbers
from mcm_compiler.equivalence.values.weight_contents import WeightContents
from mcm_compiler.execution.piecewise import StoredBytes
from mcm_compiler.graph.constants import graphs_of


@dataclass(frozen=True)
class ModelDifference:
    """Where two models differ.

    Attributes:
        place: an op, an input or an output.
        what: how.
    """

    place: str
    what: str


def model_differences(
    original: ir.Model,
    form: ir.Model,
    contents: WeightContents | None = None,
    facts: ir.Model | None = None,
) -> list[ModelDifference]:
    """Where `form` is another model than `original`; empty where it is the same.

    Args:
        original: the model as its file has it, or as it was built.
        form: what is said to be the same model.
        contents: of weights, where they were looked at before.
        facts: the model as it was imported, of which sizes and values are facts; None where no
            branch was decided.
    """
    numbers, identities = ValueNumbers(contents), OwnIdentities()
    decides = facts is not None and _has_branches(original)
    if facts is not None and decides:
        number_source(numbers, facts, identities, placeholders=False)

    def numbered(model: ir.Model, again: bool) -> SourceValues:
        return number_source(
            numbers, model, identities, placeholders=False, compute=decides, again=again,
            trusted=False,
        )  # fmt: skip

    first = numbered(original, again=decides)
    made = set(first.known.values()) if decides else range(len(numbers))
    second = numbered(form, again=True)
    faults = _ends(first, second)
    if not faults:
        wrong = [
            name
            for (name, left), (_, right) in zip(first.outputs, second.outputs, strict=True)
            if left != right
        ]
        if wrong:
            faults = [_first_op(second, made)]
            faults += [
                ModelDifference(f"output {quote(name)}", "is computed in another way")
                for name in dict.fromkeys(wrong)
            ]
    return faults


def _ends(first: SourceValues, second: SourceValues) -> list[ModelDifference]:
    faults: list[ModelDifference] = []
    for what, left, right in (
        ("inputs", first.model.graph.inputs, second.model.graph.inputs),
        ("outputs", first.model.graph.outputs, second.model.graph.outputs),
    ):
        names = [_names(first.model, left), _names(second.model, right)]
        if names[0] != names[1]:
            listed = [", ".join(map(quote, found)) or "none" for found in names]
            faults.append(
                ModelDifference(f"graph {what}", f"are {listed[1]}, the model has {listed[0]}")
            )
    return faults


def _names(model: ir.Model, values: Sequence[ir.Value]) -> list[str]:
    weights = model.graph.initializers
    inputs = set(model.graph.inputs)
    return [v.name or "" for v in values if v not in inputs or (v.name or "") not in weights]


def _has_branches(model: ir.Model) -> bool:
    bodies = (*graphs_of(model), *model.functions.values())
    return any(node.op_type == "If" for body in bodies for node in body)


def _first_op(values: SourceValues, made: Container[int]) -> ModelDifference:
    """The first op that makes a value that the original does not."""
    for node in values.model.graph:
        if any(values.known.get(v, -1) not in made for v in node.outputs if v.name):
            return ModelDifference(
                f"op {quote(node.name or '')} ({quote(node.op_type)[1:-1]})",
                "differs from every op of the model in its type, its attributes, its weights or "
                "what it reads",
            )
    return ModelDifference("graph", "its ops are connected in another way")


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
    original: onnx.ModelProto, folder: Path, form: onnx.ModelProto, form_folder: Path
) -> bool:
    """Return whether the main graphs have the same ops, ends and weights; False where unclear.

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
        _host_ends(left) == _host_ends(right)
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


def _host_ends(graph: onnx.GraphProto) -> tuple[list[tuple[str, bytes]], list[str]]:
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
    """Return whether attributes have the same bits; False where their values are elsewhere."""
    return len(left.attribute) == len(right.attribute) and all(
        a.type in _PLAIN
        and not a.ref_attr_name
        and a.t.data_location != onnx.TensorProto.EXTERNAL
        and a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True)
        for a, b in zip(left.attribute, right.attribute, strict=True)
    )


def _same_weights(
    left: onnx.GraphProto, folder: Path, right: onnx.GraphProto, form_folder: Path
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
