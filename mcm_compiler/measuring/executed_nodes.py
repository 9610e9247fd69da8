"""Times of executed nodes as times of the ops that they compute.

A runtime fuses and renames ops, and adds layout changes. Most tensors keep their names, so that an
executed node computes the ops between the named tensors before and behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import onnx
import onnx_ir as ir

Shares = Callable[[Sequence[ir.Node]], Mapping[str, float]]
"""Divides a node's time among the kernels of the ops that it computes: shares by kernel."""


class ExecutedNodes:
    """Executed nodes and the ops of the chip's graph that each of them computes.

    Args:
        graph: of the chip.
        executed: graph of what the device executes.
    """

    def __init__(self, graph: ir.Graph, executed: onnx.GraphProto) -> None:
        self._producer = {value.name or "": node for node in graph for value in node.outputs}
        self._known = {*self._producer, *(value.name or "" for value in graph.inputs)}
        self._node = {node.name: node for node in executed.node}
        self._maker = {name: node for node in executed.node for name in node.output if name}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in executed.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)
        self.inner = set(_inner_names(executed))

    def ops_of(self, name: str) -> list[ir.Node]:
        """The ops that an executed node computes; of a layout change, those that need it."""
        node = self._node.get(name)
        if node is None:
            return []
        anchors = self._anchors(node, set())
        found = self._between(anchors)
        return found or [self._producer[one] for one in anchors if one in self._producer]

    @cached_property
    def _materialised(self) -> set[str]:
        """Tensors of the chip's graph that exist while it is executed."""
        found = {self._stand_in(name) for name in self._maker}
        return {name for name in found if name is not None}

    def _stand_in(self, name: str) -> str | None:
        """The tensor of the chip's graph that a tensor has the values of, in another layout."""
        if name in self._known:
            return name
        at = name.rfind("_")
        while at > 0:
            if name[:at] in self._known:
                return name[:at]
            at = name.rfind("_", 0, at)
        return None

    def _anchors(self, node: onnx.NodeProto, seen: set[str]) -> list[str]:
        """The first tensors of the chip's graph that come of a node."""
        found: dict[str, None] = {}
        # The result of a layout change before an op is an input of that op, and no result of ops.
        taken = {self._stand_in(name) for name in node.input}
        for output in filter(None, node.output):
            stand_in = self._stand_in(output)
            if output in self._known or (stand_in is not None and stand_in not in taken):
                found[stand_in or output] = None
            elif output not in seen:
                seen.add(output)
                for reader in self._readers.get(output, ()):
                    found.update(dict.fromkeys(self._anchors(reader, seen)))
        return list(found)

    def _between(self, anchors: Iterable[str]) -> list[ir.Node]:
        """The ops before the anchors, back to tensors that exist."""
        found: dict[ir.Node, None] = {}
        open_ends = list(anchors)
        while open_ends:
            node = self._producer.get(open_ends.pop())
            if node is None or node in found:
                continue
            found[node] = None
            names = (value.name or "" for value in node.inputs if value is not None)
            open_ends += [name for name in names if name not in self._materialised]
        return list(found)


def seconds_of_kernels(
    nodes: ExecutedNodes, node_s: Mapping[str, float], shares: Shares
) -> tuple[dict[str, float], float]:
    """Seconds by kernel, and those of nodes that compute no known op.

    Args:
        nodes: see `ExecutedNodes`.
        node_s: seconds of executed nodes by name.
        shares: see `Shares`.
    """
    kernels: dict[str, float] = {}
    unmapped_s = 0.0
    for name, seconds in node_s.items():
        ops = nodes.ops_of(name)
        if ops:
            for kernel, share in shares(ops).items():
                kernels[kernel] = kernels.get(kernel, 0.0) + share * seconds
        elif name not in nodes.inner:
            unmapped_s += seconds
    return kernels, unmapped_s


def _inner_names(graph: onnx.GraphProto) -> Iterable[str]:
    """Nodes of bodies: their time is part of that of the op that has the body."""
    for node in graph.node:
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from (inner.name for inner in body.node)
                yield from _inner_names(body)
