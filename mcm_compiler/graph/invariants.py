"""Invariants of every model between two passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import onnx_ir as ir


def check_invariants(model: ir.Model) -> list[str]:
    """The invariants that `model` breaks, one sentence each; empty where all hold.

    1. Every node of the main graph has a name, and no two share one.
    2. Nodes stand in topological order.
    3. No two values of the main graph share a name.
    4. What a file holds as text is text.
    """
    broken: list[str] = _no_texts(model, map(_PROPERTIES, model.graph))
    node_names: set[str] = set()
    value_names: set[str] = set()
    given: set[ir.Value] = {*model.graph.inputs, *model.graph.initializers.data.values()}
    value_names.update(value.name or "" for value in given)
    # An input that is left out is there at any time.
    defined: set[ir.Value | None] = {None, *given}
    for node in model.graph:
        name = node.name
        if not name:
            broken.append(f"a node of type '{node.op_type}' has no name")
        elif name in node_names:
            broken.append(f"two nodes are named '{name}'")
        node_names.add(name or "")
        if not defined.issuperset(node.inputs):
            broken += [
                f"node '{name}' reads '{value.name}' before it is produced"
                for value in node.inputs
                if value is not None and value not in defined
            ]
        outputs = node.outputs
        defined.update(outputs)
        for value in outputs:
            if not (made := value.name):
                continue
            if made in value_names:
                broken.append(f"two values are named '{made}'")
            value_names.add(made)
    if names := _unwritable((*node_names, *value_names)):
        broken.append(f"the name {names[0]!a} cannot be written to a file")
    broken += [
        f"graph output '{value.name}' is never produced"
        for value in model.graph.outputs
        if value not in defined
    ]
    return broken


class InvariantCheck:
    """`check_invariants` after each of many passes.

    A model that consists of what it did when all of them held need not be walked through again.
    """

    def __init__(self) -> None:
        self._sound: tuple[list[Any], ...] = ()

    def broken(self, model: ir.Model) -> list[str]:
        """As `check_invariants`."""
        parts = _parts(model)
        if parts == self._sound:
            return _no_texts(model, [row[3] for row in parts[2]])
        found = check_invariants(model)
        self._sound = () if found else parts
        return found


def _fields(kind: type, *names: str) -> Callable[[Any], Any]:
    """Reads fields past properties, which are interpreted code and make what is not there."""
    return attrgetter(*(f"_{name}" if hasattr(kind, f"_{name}") else name for name in names))


_OF_NODE = _fields(ir.Node, "name", "inputs", "outputs", "metadata_props")
_PROPERTIES = _fields(ir.Node, "metadata_props")
_NAME = _fields(ir.Value, "name")


def _parts(model: ir.Model) -> tuple[list[Any], ...]:
    """All that the invariants speak of: values, ops, names and their order."""
    graph = model.graph
    rows = list(map(_OF_NODE, graph))
    ends = [*graph.inputs, *graph.initializers.data.values(), *graph.outputs]
    made = [value for row in rows for value in row[2]]
    return ends, list(map(_NAME, ends)), rows, list(map(_NAME, made))


def unwritable_texts(model: ir.Model) -> list[Any]:
    """Names and properties in the main graph of a model that no file can hold; empty for none."""
    graph = model.graph
    texts: list[Any] = [graph.name, *(value.name for value in graph.inputs)]
    for node in graph:
        texts += [node.name, *(value.name for value in node.outputs)]
        texts += [*node.metadata_props, *node.metadata_props.values()]
    return _unwritable([text for text in texts if text is not None])


def _unwritable(names: Iterable[Any]) -> list[Any]:
    """Those of some names that are no text, or hold halves of characters."""
    try:
        # All at once: there may be hundreds of thousands.
        "".join(names).encode()
    except (TypeError, UnicodeEncodeError):
        return [name for name in names if not _is_writable(name)]
    return []


def _is_writable(name: Any) -> bool:
    if not isinstance(name, str):
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _no_texts(model: ir.Model, found: Iterable[Any]) -> list[str]:
    """Properties of nodes, `found` one by one, whose names or values are no text."""
    texts: list[Any] = []
    for properties in filter(None, found):
        texts += properties
        texts += properties.values()
    # All at once, as almost always all are.
    return (
        []
        if not _unwritable(texts)
        else [
            f"node '{node.name}' has the property {name!a}, which is no text of a text"
            for node in model.graph
            if node.metadata_props
            for name, value in node.metadata_props.items()
            if _unwritable((name, value))
        ]
    )
