"""Removes from an exported model what tells about the machine it was exported on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

_STACK_TRACES = ("pkg.torch.onnx.stack_trace", "pkg.onnxscript.stack_trace")


def without_machine_traces(path: Path) -> None:
    """Rewrites the model at `path` without doc strings of nodes and stack traces.

    External data stays in its file.
    """
    model = onnx.load(path, load_external_data=False)
    for node in [n for graph in _graphs(model.graph) for n in graph] + [
        n for function in model.functions for n in function.node
    ]:
        node.ClearField("doc_string")
        kept = [p for p in node.metadata_props if p.key not in _STACK_TRACES]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    path.write_bytes(model.SerializeToString(deterministic=True))


def _graphs(graph: onnx.GraphProto) -> Iterator[list[onnx.NodeProto]]:
    yield list(graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)
