"""Typed facts attached to IR objects while compiling.

A fact lives in the `meta` store of the object that it is about (a node, or the model), under an
`AnnotationKey`. `meta` is never serialised. A key says what its fact was derived from, and the
fact falls with any of it (`mcm_compiler.pipeline.fact_ledger`): absence means not computed, or
fallen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Literal, Protocol, TypeVar, cast

import onnx_ir as ir

T = TypeVar("T")


class _HasMeta(Protocol):
    @property
    def meta(self) -> Any: ...


@dataclass(frozen=True)
class AnnotationKey(Generic[T]):
    """The name and type of a fact.

    Attributes:
        name: unique; also the name that pipeline checks print.
        on: whether one fact describes the model, or each node has its own.
        derived_from: what the fact was computed from: `GRAPH`, and other facts. It falls with any
            of them. None, the default, stands for the graph; a record of what happened, which no
            change of the graph makes untrue, is derived from nothing: `()`. A key of a module that
            imports this one's is given by its name.
    """

    name: str
    on: Literal["model", "node"] = "model"
    derived_from: tuple[AnnotationKey[Any] | str, ...] | None = None

    def __post_init__(self) -> None:
        _KEYS[self.name] = self

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of what the fact was derived from, the default spelled out."""
        if self.derived_from is None:
            return (GRAPH.name,)
        return tuple(key if isinstance(key, str) else key.name for key in self.derived_from)

    def set(self, owner: _HasMeta, value: T) -> None:
        """Attaches the fact to `owner`."""
        _store(owner)[self.name] = value

    def get(self, owner: _HasMeta) -> T:
        """The fact of `owner`.

        Raises:
            KeyError: if it is absent; passes declare what they require, so that this is our bug.
        """
        return facts_of(owner)[self.name]

    def find(self, owner: _HasMeta) -> T | None:
        """The fact of `owner`, or None where it is absent."""
        return facts_of(owner).get(self.name)

    def drop(self, model: ir.Model) -> None:
        """Forgets the fact: on the model, or on every node of its main graph."""
        if self.on == "model":
            _store(model).pop(self.name, None)
        else:
            for node in model.graph:
                if self.name in facts_of(node):
                    del _store(node)[self.name]

    def present(self, model: ir.Model) -> bool:
        """Return whether the fact is there: on the model, or on a node if there are any."""
        if self.on == "model":
            return self.name in facts_of(model)
        return len(model.graph) == 0 or any(self.name in facts_of(node) for node in model.graph)


_KEYS: dict[str, AnnotationKey[Any]] = {}

GRAPH: AnnotationKey[None] = AnnotationKey("graph", derived_from=())
"""The graph itself, as something to be derived from. No value is attached under this key."""


def known_keys() -> tuple[AnnotationKey[Any], ...]:
    """All keys that were made in this process, `GRAPH` left out, in the order of their making."""
    return tuple(key for key in _KEYS.values() if key.name != GRAPH.name)


def falling_with(changed: Collection[str], kept: Collection[str] = ()) -> dict[str, str]:
    """The facts that no longer hold where those named `changed` were set again.

    Args:
        changed: names of keys, or that of `GRAPH`.
        kept: names of facts that hold nevertheless, and so do those derived from them alone.

    Returns:
        The name of each fact that falls, with that of the source it falls with; without those of
        `changed`.
    """
    keys = known_keys()
    fallen: dict[str, str] = {}
    pending = list(changed)
    while pending:
        source = pending.pop(0)
        for key in keys:
            if key.name in changed or key.name in kept or key.name in fallen:
                continue
            if source in key.sources:
                fallen[key.name] = source
                pending.append(key.name)
    return fallen


def _store(owner: _HasMeta) -> MutableMapping[str, Any]:
    return cast("MutableMapping[str, Any]", owner.meta)


def facts_of(owner: _HasMeta) -> Mapping[str, Any]:
    """All facts of an object, to be read: past the store's view, which is interpreted code.

    An object that has none gets no store by being asked: it would be the largest part of a node.
    """
    store: Any = getattr(owner, "_metadata", owner)
    if store is None:
        return _NONE
    return owner.meta.data if store is owner else store.data


def properties_of(owner: Any) -> Mapping[str, str]:
    """Properties of an op or a value, to be read; likewise."""
    found = getattr(owner, "_metadata_props", owner)
    return _NONE if found is None else owner.metadata_props


_NONE: Mapping[str, Any] = MappingProxyType({})
