"""Merges initializers that hold the same bits."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable

import onnx_ir as ir

from mcm_compiler.ir.rewriting.writer import release
from mcm_passes.rewriting.simplification.replacing import is_overwritten, is_replaceable


def merge_duplicate_weights(graph: ir.Graph, max_bytes: int) -> int:
    """Lets readers of equal initializers of the main graph read the first of them.

    Args:
        graph: changed in place.
        max_bytes: contents are compared up to this size; a larger weight equals another only if
            both are the same place of the same file, or the same object.

    Returns:
        The number of initializers that were removed.
    """
    alike: defaultdict[Hashable, list[tuple[str, ir.Value, ir.TensorProtocol]]] = defaultdict(list)
    for name, value in graph.initializers.data.items():
        tensor = value.const_value
        if tensor is None or value.is_graph_input() or not is_replaceable(value, graph):
            continue
        if tensor.dtype is not ir.DataType.STRING and not is_overwritten(value):
            alike[tensor.dtype, tuple(tensor.shape.numpy())].append((name, value, tensor))
    removed = 0
    for group in alike.values():
        if len(group) < 2:
            continue
        first_of: dict[Hashable, ir.Value] = {}
        for name, value, tensor in group:
            first = first_of.setdefault(_content(tensor, max_bytes), value)
            if first is not value:
                value.replace_all_uses_with(first)
                del graph.initializers[name]
                removed += 1
    return removed


def _content(tensor: ir.TensorProtocol, max_bytes: int) -> Hashable:
    if tensor.nbytes <= max_bytes:
        digest = hashlib.blake2b(tensor.tobytes(), digest_size=32).digest()
        release(tensor)
        return digest
    if isinstance(tensor, ir.ExternalTensor):
        return (str(tensor.path), tensor.offset or 0, tensor.length)
    return id(tensor)
