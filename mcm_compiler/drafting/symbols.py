"""Symbols of a model's open dimensions, and the shapes that they make within it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from mcm_compiler.graph.dimensions import free_inputs, sizes_of
from mcm_compiler.ir.shapes.inference import proto_for_inference
from mcm_compiler.ir.shapes.isolated_inference import infer_in_child

Size = int | str | None
"""A size, a symbol, or neither is known."""

Shape = tuple[Size, ...]

PREFIX = "mcmc_open_"
"""Of the symbols in inference, so that no name of an exporter is taken for one of ours."""


@dataclass(frozen=True)
class Symbol:
    """An open dimension, wherever its name occurs.

    Attributes:
        key: of the model's own; unique within the model.
        name: as the file has it, or "" where it has none.
        places: inputs and axes where it stands.
        rank: of the first input.
    """

    key: str
    name: str
    places: tuple[tuple[str, int], ...]
    rank: int

    @property
    def axis(self) -> int:
        """Where it stands in the first input."""
        return self.places[0][1]


@dataclass(eq=False)
class OpenModel:
    """A model with open dimensions.

    Attributes:
        model: nodes sorted and named; inputs as the file declares them.
        shapes: declared shapes of inputs with symbols' keys for open dimensions; None where an
            input has none or is no tensor.
        symbols: by key.
        declared: static shapes that the file declares for other values, by name.
        bare: the model in protobuf without shapes that it declares, once it was needed.
    """

    model: ir.Model
    shapes: dict[str, Shape | None]
    symbols: dict[str, Symbol]
    declared: dict[str, Shape] = field(default_factory=dict[str, Shape])
    bare: onnx.ModelProto | None = None


def open_model(model: ir.Model) -> OpenModel:
    """Gives every open dimension a symbol: one for each name, and one for each without a name."""
    shapes: dict[str, Shape | None] = {}
    places: dict[str, list[tuple[str, int]]] = {}
    names: dict[str, str] = {}
    keys: dict[str, str] = {}
    ranks: dict[str, int] = {}
    for value in free_inputs(model):
        name = value.name or ""
        sizes = sizes_of(value)
        shapes[name] = None
        if sizes is None:
            continue
        shape: list[Size] = []
        for axis, size in enumerate(sizes):
            if isinstance(size, int):
                shape.append(size)
                continue
            own = size or f"\0{name}\0{axis}"
            key = keys.setdefault(own, f"{PREFIX}{len(keys)}")
            names[key] = size
            places.setdefault(key, []).append((name, axis))
            ranks.setdefault(key, len(sizes))
            shape.append(key)
        shapes[name] = tuple(shape)
    symbols = {
        key: Symbol(key, names[key], tuple(found), ranks[key]) for key, found in places.items()
    }
    declared: dict[str, Shape] = {}
    for node in model.graph:
        for value in node.outputs:
            if value.name and value.shape is not None and isinstance(value.type, ir.TensorType):
                sizes = tuple(
                    dim if isinstance(dim, int) and dim >= 0 else None for dim in value.shape
                )
                declared[value.name] = sizes
    return OpenModel(model, shapes, symbols, declared)


def inferred_shapes(opened: OpenModel, sizes: Mapping[str, int]) -> dict[str, Shape]:
    """Shapes of all values of the main graph, as far as onnx infers them.

    Args:
        opened: left unchanged.
        sizes: of symbols that are known already, by key.

    Raises:
        CompileError: MCM-I018 if the inference crashes or goes on and on.
    """
    proto = _bound_proto(opened, sizes)
    try:
        inferred = infer_in_child(proto, strict=False)
    except onnx.shape_inference.InferenceError:
        return {}
    graph = inferred[0]
    found = {
        info.name: _shape_of(info.type) for info in (*graph.input, *graph.value_info, *graph.output)
    }
    for tensor in opened.model.graph.initializers.values():
        if tensor.const_value is not None:
            found[tensor.name or ""] = tuple(tensor.const_value.shape.numpy())
    return {name: shape for name, shape in found.items() if shape is not None}


def contradiction(opened: OpenModel, sizes: Mapping[str, int]) -> str | None:
    """Contradiction of onnx's inference to sizes of all symbols, or None.

    Raises:
        CompileError: MCM-I018 if the inference crashes or goes on and on.
    """
    try:
        infer_in_child(_bound_proto(opened, sizes), strict=True)
    except onnx.shape_inference.InferenceError as error:
        reason = " ".join(str(error).split())
        # An op whose type onnx cannot infer says nothing about sizes.
        faults = reason.partition("Inference error(s):")[2] or reason
        return reason if "[ShapeInferenceError]" in faults else None
    return None


def _bound_proto(opened: OpenModel, sizes: Mapping[str, int]) -> onnx.ModelProto:
    """The model with symbols' keys or sizes in its inputs, and no other shape declared."""
    if opened.bare is None:
        opened.bare = proto_for_inference(opened.model)
        del opened.bare.graph.value_info[:]
        for value in opened.bare.graph.output:
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
    proto = onnx.ModelProto()
    proto.CopyFrom(opened.bare)
    for value in proto.graph.input:
        shape = opened.shapes.get(value.name)
        for axis, size in enumerate(shape or ()):
            dim = value.type.tensor_type.shape.dim[axis]
            known = sizes.get(size) if isinstance(size, str) else size
            dim.Clear()
            if known is not None:
                dim.dim_value = known
            elif isinstance(size, str):
                dim.dim_param = size
    return proto


def _shape_of(kind: onnx.TypeProto) -> Shape | None:
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value
        if dim.HasField("dim_value")
        else (dim.dim_param if dim.dim_param.startswith(PREFIX) else None)
        for dim in kind.tensor_type.shape.dim
    )
