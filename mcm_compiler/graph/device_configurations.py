"""ONNX's device configurations of nodes, read in time that is linear in the nodes.

`onnx_ir` collects all values in scope again for each node that has one. Here they are taken out of
the protobuf before it is read, and set afterwards; values are collected once a graph, and only
where a node says how a tensor is sharded.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import onnx
import onnx_ir as ir

from mcm_compiler.graph.constants import subgraphs


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
        for place, node in enumerate(_proto_nodes(proto.graph)):
            if node.device_configurations:
                copies = [_copy(known) for known in node.device_configurations]
                taken[place] = node, copies
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


def _copy(proto: onnx.NodeDeviceConfigurationProto) -> onnx.NodeDeviceConfigurationProto:
    copy = onnx.NodeDeviceConfigurationProto()
    copy.CopyFrom(proto)
    return copy


def _proto_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Nodes of a graph, those of its subgraphs behind the node that has them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _proto_nodes(attribute.g)
            elif attribute.type == onnx.AttributeProto.GRAPHS:
                for body in attribute.graphs:
                    yield from _proto_nodes(body)


def _nodes(graph: ir.Graph, outer: _Scope | None) -> Iterator[tuple[ir.Node, _Scope]]:
    """The same nodes in the same order, with what they see."""
    scope = _Scope(graph, outer)
    for node in graph:
        yield node, scope
        for body in subgraphs(node):
            yield from _nodes(body, scope)
