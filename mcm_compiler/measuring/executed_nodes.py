"""Times of executed nodes as times of the ops that they compute.

A runtime fuses and renames ops, and adds layout changes. Most tensors keep their names, so that an
executed node computes the ops between the named tensors before and behind it. Nodes of another
layout are named after the op, or after the tensor, that they compute; their results have new names.
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
        self._op = {node.name or "": node for node in graph}
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
        found = self._between(anchors, node.op_type if self._named_after(node) else None)
        found = found or [self._producer[one] for one in anchors if one in self._producer]
        return [*found, *self._fused_behind.get(name, ())]

    @cached_property
    def _fused_behind(self) -> dict[str, list[ir.Node]]:
        """Ops that no node is named after, by the last node before them, which computes them."""
        claimed: set[ir.Node] = set()
        last: dict[ir.Node, tuple[int, str]] = {}
        for at, (name, node) in enumerate(self._node.items()):
            kind = node.op_type if self._named_after(node) else None
            ops = self._between(self._anchors(node, set()), kind)
            claimed.update(ops)
            if kind is not None:
                last.update(dict.fromkeys(ops, (at, name)))
        found: dict[str, list[ir.Node]] = {}
        for op in self._op.values():
            before = [last[made] for value in op.inputs if (made := _maker(value)) in last]
            if op not in claimed and before:
                last[op] = max(before)
                found.setdefault(last[op][1], []).append(op)
        return found

    @cached_property
    def _materialised(self) -> set[str]:
        """Tensors of the chip's graph that exist while it is executed."""
        found = {self._stand_in(name) for name in self._maker}
        found |= {self._named_after(node) for node in self._node.values()}
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

    def _named_after(self, node: onnx.NodeProto) -> str | None:
        """The tensor that a node of another layout is named after."""
        if any(self._stand_in(name) for name in node.output):
            return None
        op = self._op.get(node.name)
        if op is not None and op.op_type == node.op_type:
            return op.outputs[0].name
        name = self._stand_in(node.name)
        return name if name in self._producer else None

    def _anchors(self, node: onnx.NodeProto, seen: set[str]) -> list[str]:
        """The first tensors of the chip's graph that come of a node."""
        if (named := self._named_after(node)) is not None:
            return [named]
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

    def _between(self, anchors: Iterable[str], kind: str | None) -> list[ir.Node]:
        """The ops before the anchors, back to tensors that exist, or to an op of this type."""
        found: dict[ir.Node, None] = {}
        open_ends = list(anchors)
        while open_ends:
            node = self._producer.get(open_ends.pop())
            if node is None or node in found:
                continue
            found[node] = None
            if node.op_type == kind:
                continue
            names = (value.name or "" for value in node.inputs if value is not None)
            open_ends += [name for name in names if name not in self._materialised]
        return list(found)


def _maker(value: ir.Value | None) -> ir.Node | None:
    return None if value is None else value.producer()


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
