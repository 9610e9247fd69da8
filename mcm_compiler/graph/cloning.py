"""Copies of whole models, in as little memory as they need."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import onnx_ir as ir

from mcm_compiler.graph.constants import graphs_of


def clone(model: ir.Model) -> ir.Model:
    """A copy that shares weights, and shapes that cannot be changed, with `model`.

    `onnx_ir` gives each op and value of the original an empty store for facts while it copies them,
    which takes as much memory as a third of the graph. They are removed.
    """
    with _sharing_shapes():
        copy = model.clone()
    for one in (model, copy):
        for owner in _owners(one):
            store = cast("Any", owner)
            if store._metadata is not None and not store._metadata:
                store._metadata = None
            if not store._metadata_props:
                store._metadata_props = None
    return copy


@contextmanager
def _sharing_shapes() -> Generator[None]:
    """Has onnx_ir copy only shapes that can be changed; outside the block it is as it was."""
    shapes = cast("Any", ir.Shape)
    copied = shapes.copy

    def copy(shape: ir.Shape, frozen: bool = False) -> ir.Shape:
        return shape if shape.frozen else copied(shape, frozen)

    shapes.copy = copy
    try:
        yield
    finally:
        shapes.copy = copied


def _owners(model: ir.Model) -> Iterator[ir.Node | ir.Value]:
    for graph in graphs_of(model):
        yield from graph.inputs
        yield from graph.initializers.data.values()
        for node in graph:
            yield node
            yield from node.outputs
