"""Which facts still hold after a pass, and why the others fell.

Passes need not declare what they break. After each one the ledger compares the graph and all
facts with what they were. A fact falls with what it was derived from (`AnnotationKey`), which is
the graph or another fact that was set again. It stays if the pass declares that it kept it.

A snapshot of a graph at one moment shows a change of it whoever made it. It costs time linear in
the size of the graph; weights take part by the identity of their tensors, whose values are not
read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import is_, itemgetter
from typing import Any

import onnx_ir as ir

from mcm_compiler.graph.annotations import GRAPH, AnnotationKey, facts_of, falling_with, known_keys
from mcm_compiler.graph.constants import subgraphs

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


@dataclass(frozen=True)
class GraphSnapshot:
    """The structure of a model at one moment; two that are equal describe the same graph.

    What counts: ops with their names, attributes, operands and results, in their order; names,
    types and shapes of values; inputs, outputs and weights; everything in bodies and in functions;
    opsets. What does not: facts, `metadata_props` and documentation.

    Attributes:
        objects: every op and every tensor by identity, which keeps them from being replaced by
            others at the same address.
        digest: hash of all that counts.
    """

    objects: tuple[Any, ...]
    digest: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphSnapshot):
            return NotImplemented
        return (
            self.digest == other.digest
            and len(self.objects) == len(other.objects)
            and all(a is b for a, b in zip(self.objects, other.objects, strict=True))
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def snapshot(model: ir.Model) -> GraphSnapshot:
    """Take a snapshot of `model`; linear in its size."""
    objects: list[Any] = []
    parts: list[int] = [hash(tuple(sorted(model.opset_imports.items())))]
    _add_graph(model.graph, objects, parts)
    for key, function in model.functions.items():
        parts.append(hash(key))
        parts += _values(function.inputs)
        for node in function:
            _add_node(node, objects, parts)
        parts += _values(function.outputs)
    return GraphSnapshot(tuple(objects), hash(tuple(parts)))


def _add_graph(graph: ir.Graph, objects: list[Any], parts: list[int]) -> None:
    parts += _values(graph.inputs)
    parts.append(len(graph.initializers))
    for value in graph.initializers.data.values():
        parts.append(_value(value))
        objects.append(value.const_value)
    for node in graph:
        _add_node(node, objects, parts)
    parts += _values(graph.outputs)


def _add_node(node: ir.Node, objects: list[Any], parts: list[int]) -> None:
    inputs = node.inputs
    objects.append(node)
    parts.append(
        hash(
            (
                node.domain,
                node.op_type,
                node.overload,
                node.name,
                tuple([None if value is None else value.name for value in inputs]),
                tuple(map(id, inputs)),
            )
        )
    )
    parts += _values(node.outputs)
    if attributes := node.attributes.data:
        for attribute in attributes.values():
            if attribute.is_ref():
                parts.append(hash((attribute.name, attribute.ref_attr_name)))
            elif attribute.type not in _GRAPHS:
                # Attributes cannot be changed, only replaced.
                objects.append(attribute)
        for graph in subgraphs(node):
            _add_graph(graph, objects, parts)


def _values(values: Iterable[ir.Value]) -> Iterator[int]:
    return map(_value, values)


def _value(value: ir.Value) -> int:
    kind, shape = value.type, value.shape
    # The hash of a type is that of its text, which is slow to make.
    known = kind.dtype if type(kind) is ir.TensorType else kind
    return hash((value.name, known, None if shape is None else shape.dims))


_Held = dict[str, Any]
"""By name of a key the fact, or those of nodes."""


@dataclass(frozen=True)
class Fall:
    """Why a fact no longer holds.

    Attributes:
        culprit: name of the pass after which it fell.
        source: name of what it was derived from that changed first: the graph, or a fact that the
            pass set again; its own name where the pass declares that it drops it.
    """

    culprit: str
    source: str

    def __str__(self) -> str:
        if self.source == GRAPH.name:
            return f"pass '{self.culprit}' changed the graph"
        return f"pass '{self.culprit}' replaced '{self.source}'"


class FactLedger:
    """Follows the facts of one model through a pipeline.

    Args:
        model: before the first pass.
    """

    def __init__(self, model: ir.Model) -> None:
        self._graph: GraphSnapshot = snapshot(model)
        self._nodes: frozenset[ir.Node] = frozenset(model.graph)
        self._facts = _facts_of(model)
        self._falls: dict[str, Fall] = {}

    def fall_of(self, key: AnnotationKey[Any]) -> Fall | None:
        """Why `key` fell, or None if it holds or never did."""
        return self._falls.get(key.name)

    def drop(self, key: AnnotationKey[Any], model: ir.Model, culprit: str) -> None:
        """Drops one fact that is there, because pass `culprit` makes it another one."""
        if key.present(model):
            key.drop(model)
            self._facts.pop(key.name, None)
            self._falls[key.name] = Fall(culprit, GRAPH.name)

    def settle(
        self,
        model: ir.Model,
        culprit: str,
        *,
        modified: bool | None,
        provides: Collection[str],
        preserves: Collection[str],
        drops: Collection[str],
    ) -> None:
        """Drops what no longer holds after a pass; linear in the size of the model.

        Args:
            model: as the pass left it.
            culprit: name of the pass.
            modified: whether it changed the graph; None to find out.
            provides: names of facts that it made, which hold.
            preserves: names of facts that it kept true of the graph that it changed.
            drops: names of facts that it says no longer hold.
        """
        if modified is not False:
            now = snapshot(model)
            modified = modified or now != self._graph
            self._graph = now
        facts = _facts_of(model)
        roots = [name for name in facts if self._is_anew(name, facts)]
        if modified:
            roots.insert(0, GRAPH.name)
        kept = {*provides, *preserves}
        fallen: dict[str, str] = {name: name for name in drops if name not in provides}
        for root in roots:
            for name in falling_with([root], kept):
                # What the pass set itself it set last; what it did not make falls with its source.
                if name not in roots:
                    fallen.setdefault(name, root)
        for name in (*roots, *provides):
            self._falls.pop(name, None)
        by_name = {key.name: key for key in known_keys()}
        for name, source in fallen.items():
            if name in facts:
                by_name[name].drop(model)
                self._falls[name] = Fall(culprit, source)
                del facts[name]
        self._facts = facts
        if modified:
            self._nodes = frozenset(model.graph)

    def _is_anew(self, name: str, facts: _Held) -> bool:
        """Return whether a fact differs from the one before; on new nodes it never does."""
        old, new = self._facts.get(name), facts[name]
        if not isinstance(new, _OfNodes):
            return old is not new
        if not isinstance(old, _OfNodes) or not old.nodes:
            return True
        if _are_same(old.nodes, new.nodes) and _are_same(old.values, new.values):
            return False
        before = dict(zip(old.nodes, old.values, strict=True))
        return any(
            before.get(node, _ABSENT) is not value
            for node, value in zip(new.nodes, new.values, strict=True)
            if node in self._nodes
        )


@dataclass(frozen=True)
class _OfNodes:
    """The facts of nodes under one key."""

    nodes: Sequence[ir.Node]
    values: Sequence[Any]


_ABSENT = object()


def _are_same(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Return whether both have the very same objects, in the same order."""
    return len(before) == len(now) and all(map(is_, before, now))


def _facts_of(model: ir.Model) -> _Held:
    """All facts that are there."""
    nodes = list(model.graph)
    stores = list(map(facts_of, nodes))
    facts: _Held = {}
    there = set[str]().union(*stores)
    for key in known_keys():
        if key.on == "model":
            if key.present(model):
                facts[key.name] = key.get(model)
            continue
        if (name := key.name) in there:
            try:  # most facts are those of all nodes
                facts[name] = _OfNodes(nodes, list(map(itemgetter(name), stores)))
            except KeyError:
                held = [(n, s[name]) for n, s in zip(nodes, stores, strict=True) if name in s]
                facts[name] = _OfNodes(*zip(*held, strict=True))
    return facts
