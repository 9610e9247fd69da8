"""Ops and weights that a graph does without: identities, duplicates, and what nothing reads.

`onnx_ir` has passes of these kinds, which change bits. `RemoveUnusedNodesPass` also drops unused
optional outputs: onnxruntime's MaxPool without `Indices` is another kernel, which treats NaN
differently. Its merging of common subexpressions compares attributes by value, so that 0.0 equals
-0.0, and may keep an op whose optional output is unnamed in place of one whose output is read.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable

import numpy as np
import onnx_ir as ir

from mcm_compiler.graph.constants import add_initializer, consumed_values, is_deterministic
from mcm_compiler.ir.rewriting.naming import UnusedNames, is_training_normalisation
from mcm_compiler.ir.rewriting.node_copying import remove_nodes
from mcm_compiler.ir.rewriting.writer import release

_ROUNDED_AT_BOUNDARIES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})

_RUNNING = (3, 4)
"""Inputs of a `BatchNormalization` that are its running mean and variance."""


def is_replaceable(value: ir.Value, graph: ir.Graph) -> bool:
    """Return whether all uses of `value` can be given to another value of `graph`.

    Not so for a graph output, whose name is part of the model's signature, and for a value that a
    subgraph reads: there the other name may be shadowed by one inside.
    """
    return not value.is_graph_output() and all(use.node.graph is graph for use in value.uses())


def rounds_at_boundaries(value: ir.Value) -> bool:
    """Return whether adding or removing an op boundary at `value` can change its bits.

    onnxruntime's CPU provider computes 16-bit floats in float32 where it lacks a kernel, and drops
    a pair of casts that meet: a value there is rounded or not, depending on its neighbours.
    """
    return isinstance(value.type, ir.TensorType) and value.type.dtype in _ROUNDED_AT_BOUNDARIES


def is_overwritten(value: ir.Value) -> bool:
    """Return whether onnxruntime writes over `value`, so that it must be no other value as well.

    A `BatchNormalization` in training puts its running mean and variance where those before are,
    also where these are weights.
    """
    return any(use.idx in _RUNNING and is_training_normalisation(use.node) for use in value.uses())


def complete_type(kept: ir.Value, replaced: ir.Value) -> None:
    """Takes over from `replaced` what `kept` does not know about itself."""
    if kept.type is None:
        kept.type = replaced.type
    if kept.shape is None:
        kept.shape = replaced.shape


def remove_identities(graph: ir.Graph) -> int:
    """Lets the readers of such an op read its input, in the main graph.

    Names of graph inputs and outputs stay. If the op makes a graph output, its input takes over the
    name; the input must then come from a node and be no graph output itself.

    Returns:
        The number of ops that were removed.
    """
    removed: list[ir.Node] = []
    for node in graph:
        if not _returns_its_input(node):
            continue
        source, result = node.inputs[0], node.outputs[0]
        if source is None or rounds_at_boundaries(source) or rounds_at_boundaries(result):
            continue
        if is_overwritten(source) or is_overwritten(result):
            continue  # of a weight onnxruntime makes a copy, or none: that stays as it is
        if is_replaceable(result, graph):
            complete_type(source, result)
            result.replace_all_uses_with(source)
        elif (
            result.is_graph_output()
            and result.graph is graph
            and all(use.node.graph is graph for use in result.uses())
            and source.producer() is not None
            and is_replaceable(source, graph)
        ):
            complete_type(source, result)
            result.replace_all_uses_with(source, replace_graph_outputs=True)
            source.name, result.name = result.name, None
        else:
            continue
        removed.append(node)
    graph.remove(removed, safe=True)
    return len(removed)


def _returns_its_input(node: ir.Node) -> bool:
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type == "Identity":
        return True
    if node.op_type != "Dropout" or any(mask.uses() for mask in node.outputs[1:]):
        return False
    if any(mask.is_graph_output() for mask in node.outputs[1:]):
        return False
    training = node.inputs[2] if len(node.inputs) > 2 else None
    if training is None:
        return True
    # A graph input may override the default that its initializer gives.
    if training.const_value is None or training.is_graph_input():
        return False
    return not training.const_value.numpy().any()


def remove_dead_code(graph: ir.Graph) -> int:
    """Removes nodes and initializers of the main graph that no graph output depends on.

    Graph inputs stay, also those that nothing reads.

    Returns:
        The number of nodes and initializers that were removed.
    """
    live: set[ir.Value] = set(graph.outputs)
    dead: list[ir.Node] = []
    for node in reversed(graph):
        if any(value in live for value in node.outputs):
            live.update(consumed_values(node))
        else:
            dead.append(node)
    remove_nodes(graph, dead)
    unused = [
        name
        for name, value in graph.initializers.data.items()
        if value not in live and not value.is_graph_input()
    ]
    for name in unused:
        del graph.initializers[name]
    return len(dead) + len(unused)


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
            first = first_of.setdefault(_bits(tensor, max_bytes), value)
            if first is not value:
                value.replace_all_uses_with(first)
                del graph.initializers[name]
                removed += 1
    return removed


def _bits(tensor: ir.TensorProtocol, max_bytes: int) -> Hashable:
    if tensor.nbytes <= max_bytes:
        digest = hashlib.blake2b(tensor.tobytes(), digest_size=32).digest()
        release(tensor)
        return digest
    if isinstance(tensor, ir.ExternalTensor):
        return (str(tensor.path), tensor.offset or 0, tensor.length)
    return id(tensor)


_MAX_ATTRIBUTE_BYTES = 4096
"""Tensors as attributes are compared up to this size."""


def merge_common_subexpressions(graph: ir.Graph) -> int:
    """Removes each op of the main graph that repeats an earlier one, in one sweep.

    Left alone: ops that are random, hold subgraphs or make graph outputs; and `ConstantOfShape`,
    since equal fills often stand for weights that differ.

    Returns:
        The number of ops that were removed.
    """
    first_of: dict[Hashable, ir.Node] = {}
    removed: list[ir.Node] = []
    for node in graph:
        key = _key(node)
        if key is None:
            continue
        first = first_of.setdefault(key, node)
        if first is node or not all(is_replaceable(value, graph) for value in node.outputs):
            continue
        if any(map(is_overwritten, (*first.outputs, *node.outputs))):
            continue
        for kept, value in zip(first.outputs, node.outputs, strict=True):
            complete_type(kept, value)
            value.replace_all_uses_with(kept)
        removed.append(node)
    graph.remove(removed, safe=True)
    return len(removed)


def _key(node: ir.Node) -> Hashable | None:
    if node.op_type == "ConstantOfShape" or not node.outputs or not is_deterministic(node):
        return None
    attributes: list[Hashable] = []
    for name, attribute in sorted(node.attributes.items()):
        content = None if attribute.is_ref() else _content(attribute)
        if content is None:
            return None
        attributes.append((name, attribute.type, content))
    return (
        node.op_identifier(),
        # An unnamed output does not exist, so it cannot stand for one that is read.
        tuple(bool(value.name) for value in node.outputs),
        tuple(id(value) if value is not None else None for value in node.inputs),
        tuple(attributes),
    )


def _content(attribute: ir.Attr) -> Hashable | None:
    """The value as something whose equality is that of bits; None where there is no such form."""
    match attribute.type:
        case ir.AttributeType.INT | ir.AttributeType.STRING:
            return attribute.value  # texts are bytes where they are not UTF-8
        case ir.AttributeType.INTS | ir.AttributeType.STRINGS:
            return tuple(attribute.value)
        case ir.AttributeType.FLOAT | ir.AttributeType.FLOATS:
            return np.array(attribute.value, dtype=np.float32).tobytes()
        case ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            if tensor.dtype is ir.DataType.STRING or tensor.nbytes > _MAX_ATTRIBUTE_BYTES:
                return None
            return (tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes())
        case _:
            return None


def make_range_operands_scalar(graph: ir.Graph) -> int:
    """Replaces one-element vectors among the constants of each `Range` by scalars.

    onnxruntime computes with either, but refuses a model in which the vector is an initializer.
    Models (those that onnx expands from AffineGrid among them) have it come from another op,
    and only folding makes an initializer of it.

    Returns:
        The number of operands that were replaced.
    """
    found = [
        (node, index, value)
        for node in graph
        if node.op_type == "Range" and node.domain in ("", "ai.onnx")
        for index, value in enumerate(node.inputs)
        if value is not None and _is_vector(value)
    ]
    if not found:
        return 0
    names = UnusedNames(graph)
    scalar_of: dict[ir.Value, ir.Value] = {}
    for node, index, value in found:
        if value not in scalar_of:
            assert value.const_value is not None
            name = names.take(f"{value.name}/scalar")
            tensor = ir.Tensor(value.const_value.numpy().reshape(()), name=name)
            scalar_of[value] = add_initializer(graph, tensor)
        node.replace_input_with(index, scalar_of[value])
    return len(found)


def _is_vector(value: ir.Value) -> bool:
    tensor = value.const_value
    return (
        tensor is not None
        and not value.is_graph_input()
        and tensor.size == 1
        and len(tensor.shape) > 0
    )
