"""Typed facts attached to IR objects while compiling.

A fact lives in the `meta` store of the object that it is about (a node, or the model), under an
`AnnotationKey`. `meta` is never serialised; absence means: not computed, or computed before the
graph changed and dropped since.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
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
    """

    name: str
    on: Literal["model", "node"] = "model"

    def set(self, owner: _HasMeta, value: T) -> None:
        """Attaches the fact to `owner`."""
        _store(owner)[self.name] = value

    def get(self, owner: _HasMeta) -> T:
        """The fact of `owner`.

        Raises:
            KeyError: if it is absent; passes declare what they require, so that this is our bug.
        """
        return cast("T", _store(owner)[self.name])

    def find(self, owner: _HasMeta) -> T | None:
        """The fact of `owner`, or None where it is absent."""
        return cast("T | None", _store(owner).get(self.name))

    def drop(self, model: ir.Model) -> None:
        """Forgets the fact: on the model, or on every node of its main graph."""
        if self.on == "model":
            _store(model).pop(self.name, None)
        else:
            for node in model.graph:
                _store(node).pop(self.name, None)

    def present(self, model: ir.Model) -> bool:
        """Whether the fact is there: on the model, or on at least one node if there are any."""
        if self.on == "model":
            return self.name in _store(model)
        return len(model.graph) == 0 or any(self.name in _store(node) for node in model.graph)


def _store(owner: _HasMeta) -> MutableMapping[str, Any]:
    return cast("MutableMapping[str, Any]", owner.meta)
