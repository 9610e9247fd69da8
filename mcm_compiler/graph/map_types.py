"""ONNX's map types and device configurations, which are taken out before `onnx_ir` reads a model.

`onnx_ir` neither reads nor writes map types. Classifiers of ai.onnx.ml return sequences of maps
from label to probability. Types with a map inside are taken out of the protobuf before `onnx_ir`
reads it and put back after it wrote.

ONNX's device configurations of nodes, read in time that is linear in the nodes.

`onnx_ir` collects all values in scope again for each node that has one. Here they are taken out of
the protobuf before it is read, and set afterwards; values are collected once a graph, and only
where a node says how a tensor is sharded.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import onnx
import onnx_ir as ir

from mcm_compiler.graph.constants import subgraphs, values_of
from mcm_compiler.graph.quick_serde import reading, writing
from mcm_compiler.graph.structure import all_graphs, all_nodes


class _Scope:
    """Names in a graph, and in those around it."""

    def __init__(self, graph: ir.Graph, outer: _Scope | None) -> None:
        self._graph = graph
        self._outer = outer

    @cached_property
    def values(self) -> Mapping[str, ir.Value]:
        """Values by name; an inner one hides an outer one."""
        own = {value.name: value for value in self._own() if value.name}
        return own if self._outer is None else ChainMap(own, self._outer.values)  # pyright: ignore[reportArgumentType]

    def _own(self) -> Iterator[ir.Value]:
        yield from self._graph.initializers.values()
        yield from self._graph.inputs
        for node in self._graph:
            yield from node.outputs


def with_device_configurations(
    proto: onnx.ModelProto, read: Callable[[onnx.ModelProto], ir.Model]
) -> ir.Model:
    """Return the model of `read`, with the device configurations of nodes outside functions.

    Args:
        proto: unchanged afterwards.
        read: is given `proto` without them.
    """
    taken: dict[int, tuple[onnx.NodeProto, list[onnx.NodeDeviceConfigurationProto]]] = {}
    try:
        for place, node in enumerate(all_nodes(proto.graph)):
            if node.device_configurations:
                taken[place] = node, [deepcopy(known) for known in node.device_configurations]
                del node.device_configurations[:]
        model = read(proto)
    finally:
        for node, copies in taken.values():
            node.device_configurations.extend(copies)
    if taken:
        known = {configuration.name: configuration for configuration in model.device_configurations}
        for place, (node, scope) in enumerate(_nodes(model.graph, None)):
            if place in taken:
                node.device_configurations = tuple(
                    _configuration(copy, scope, known) for copy in taken[place][1]
                )
    return model


def _configuration(
    proto: onnx.NodeDeviceConfigurationProto,
    scope: _Scope,
    known: Mapping[str, ir.ModelConfiguration],
) -> ir.NodeDeviceConfiguration:
    if not proto.sharding_spec and proto.configuration_id in known:
        # Of a placed model every node has one.
        stage = proto.pipeline_stage if proto.HasField("pipeline_stage") else None
        return ir.NodeDeviceConfiguration(known[proto.configuration_id], pipeline_stage=stage)
    values = scope.values if proto.sharding_spec else {}
    read = ir.serde.deserialize_node_device_configuration(proto, values)
    if proto.configuration_id in known:
        return replace(read, configuration=known[proto.configuration_id])
    return read


def _nodes(graph: ir.Graph, outer: _Scope | None) -> Iterator[tuple[ir.Node, _Scope]]:
    """Nodes in the order of `all_nodes`, with what they see."""
    scope = _Scope(graph, outer)
    for node in graph:
        yield node, scope
        for body in subgraphs(node):
            yield from _nodes(body, scope)


_DATA_TYPES = {int(dtype): dtype for dtype in ir.DataType}


class MapType(ir.TypeProtocol):
    """A map.

    Attributes:
        key_type: an integer type or string.
        value_type: type of the values; `elem_type` is the same.
        dtype: element type of the values.
        denotation: as in ONNX's TypeProto.
    """

    def __init__(
        self, key_type: ir.DataType, value_type: ir.TypeProtocol, denotation: str | None = None
    ) -> None:
        self.key_type = key_type
        self.value_type = self.elem_type = value_type
        self.dtype = value_type.dtype
        self.denotation = denotation

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MapType):
            return NotImplemented
        return self.key_type == other.key_type and self.value_type == other.value_type

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"Map({self.key_type!r}, {self.value_type!r})"


def model_from_proto(proto: onnx.ModelProto) -> ir.Model:
    """As `ir.from_proto`, with maps among the types of values.

    Args:
        proto: unchanged afterwards.
    """
    infos = (v for at in all_graphs(proto.graph) for v in (*at.input, *at.output, *at.value_info))
    kept = [(info, deepcopy(info.type)) for info in infos if _holds_map(info.type)]
    try:
        for info, _ in kept:
            info.ClearField("type")
        with reading():
            model = with_device_configurations(proto, ir.from_proto)
    finally:
        for info, kind in kept:
            info.type.CopyFrom(kind)
    if kept:
        types = {info.name: type_from_proto(kind) for info, kind in kept}
        for value in values_of(model):
            if value.type is None and value.name in types:
                value.type = types[value.name]
    return model


def load_model(path: Path) -> ir.Model:
    """As `ir.load`, with maps among the types of values."""
    return model_in_folder(onnx.load(path, load_external_data=False), path.parent)


def model_in_folder(proto: onnx.ModelProto, folder: Path) -> ir.Model:
    """As `model_from_proto`, its external data in `folder`."""
    model = model_from_proto(proto)
    ir.external_data.set_base_dir(model.graph, folder)
    return model


def model_to_proto(model: ir.Model) -> onnx.ModelProto:
    """As `ir.to_proto`, with maps among the types of values of the main graph.

    Args:
        model: unchanged afterwards.
    """
    taken = [
        (value, kind)
        for value in values_of(model)
        if (kind := value.type) is not None and type(kind) is not ir.TensorType and _has_map(kind)
    ]
    try:
        for value, _ in taken:
            value.type = None
        with writing():
            proto = ir.to_proto(model)
    finally:
        for value, kind in taken:
            value.type = kind
    if taken:
        types = {value.name: kind for value, kind in taken}
        ends = [*proto.graph.input, *proto.graph.output]
        for info in ends:
            if info.name in types:
                _write_type(info.type, types[info.name])
        named = {info.name for info in ends}
        for name, kind in types.items():
            if name and name not in named:
                _write_type(proto.graph.value_info.add(name=name).type, kind)
    return proto


def type_from_proto(proto: onnx.TypeProto) -> ir.TypeProtocol | None:
    """The type, its shape left aside; None where `proto` does not say one that is known."""
    which = proto.WhichOneof("value")
    denotation = proto.denotation or None
    if which == "tensor_type":
        dtype = _DATA_TYPES.get(proto.tensor_type.elem_type)
        return None if dtype is None else ir.TensorType(dtype, denotation=denotation)
    if which == "sparse_tensor_type":
        dtype = _DATA_TYPES.get(proto.sparse_tensor_type.elem_type)
        return None if dtype is None else ir.SparseTensorType(dtype, denotation=denotation)
    if which == "map_type":
        key = _DATA_TYPES.get(proto.map_type.key_type)
        inner = type_from_proto(proto.map_type.value_type)
        return None if key is None or inner is None else MapType(key, inner, denotation)
    if which == "sequence_type":
        inner = type_from_proto(proto.sequence_type.elem_type)
        return None if inner is None else ir.SequenceType(inner, denotation=denotation)
    if which == "optional_type":
        inner = type_from_proto(proto.optional_type.elem_type)
        return None if inner is None else ir.OptionalType(inner, denotation=denotation)
    return None


def shape_from_proto(
    proto: onnx.TypeProto, shared: dict[tuple[int | None, ...], ir.Shape] | None = None
) -> ir.Shape | None:
    """The shape of a tensor, or of those that a sequence or an optional holds; None if not known.

    Args:
        proto: the type.
        shared: static shapes by their dimensions, which many values of a graph have in common; they
            cannot be changed. One that it lacks is added.
    """
    if not proto.HasField("tensor_type"):
        kind = ir.serde.deserialize_type_proto_for_shape
        return None if proto.WhichOneof("value") is None or _holds_map(proto) else kind(proto)
    if not proto.tensor_type.HasField("shape"):
        return None
    dims = proto.tensor_type.shape.dim
    sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
    if None in sizes or any(dim.denotation for dim in dims):
        return ir.serde.deserialize_tensor_shape(proto.tensor_type.shape)
    if shared is None:
        return ir.Shape(sizes, frozen=True)
    known = tuple(sizes)
    if known not in shared:
        shared[known] = ir.Shape(sizes, frozen=True)
    return shared[known]


def type_to_proto(kind: ir.TypeProtocol) -> onnx.TypeProto:
    """The inverse of `type_from_proto`."""
    proto = onnx.TypeProto()
    _write_type(proto, kind)
    return proto


def _holds_map(kind: onnx.TypeProto) -> bool:
    while True:
        which = kind.WhichOneof("value")
        if which == "map_type":
            return True
        if which not in ("sequence_type", "optional_type"):
            return False
        kind = getattr(kind, which).elem_type


def _has_map(kind: ir.TypeProtocol) -> bool:
    while isinstance(kind, ir.SequenceType | ir.OptionalType):
        kind = kind.elem_type
    return isinstance(kind, MapType)


def _write_type(proto: onnx.TypeProto, kind: ir.TypeProtocol) -> None:
    if isinstance(kind, MapType):
        if kind.denotation:
            proto.denotation = kind.denotation
        proto.map_type.key_type = kind.key_type.value
        _write_type(proto.map_type.value_type, kind.value_type)
    elif isinstance(kind, ir.SequenceType):
        _write_type(proto.sequence_type.elem_type, kind.elem_type)
    elif isinstance(kind, ir.OptionalType):
        _write_type(proto.optional_type.elem_type, kind.elem_type)
    else:
        proto.tensor_type.elem_type = kind.dtype.value
