"""Which facts still hold after a pass, and why the others fell.

Passes need not declare what they break. After each one the ledger compares the graph and all
facts with what they were: a fact falls with what it was derived from (`AnnotationKey`), be that
the graph or another fact that was set again, unless the pass declares that it kept it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import is_, itemgetter
from typing import Any

import onnx_ir as ir

from mcm_compiler.graph.annotations import GRAPH, AnnotationKey, facts_of, falling_with, known_keys
from mcm_compiler.graph.graph_snapshot import GraphSnapshot, snapshot

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
